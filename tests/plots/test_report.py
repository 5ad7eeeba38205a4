"""What a figure's options come to in the files that are written."""

from __future__ import annotations

import io
import json
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import pytest
import yaml
from curve_support import curve, labelled
from rich.console import Console

from plots import curves
from plots.report import report

ROUNDS = (0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)


def run_folder(place: Path, algorithm: str, lrs: list[float], norms: list[float], moment: float) -> Path:
    """A run as the harness leaves it: one trial a step size, with a gradient norm that falls to `norms`."""
    folder = place / algorithm
    folder.mkdir()
    display = {"label": algorithm.title(), "color": "#123456", "marker": "o"}
    config = {
        "algorithm": {"name": algorithm, "display": display},
        "task": {"name": "toy", "display": {"label": "Toy"}},
        "compressor": {"_target_": "x.Y"},
        "seed": 0,
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    (folder / "environment.json").write_text(json.dumps({"d": 8}))
    rows = [
        {"round": t, "trial": trial, "lr": lr, "bits_up": 40 * t, "bits_down": 40 * t, "bits": 80 * t,
         "payload_bytes": 18 * t, "grad_norm": norm ** (t / 100), **({"second_moment": moment * lr} if t else {})}
        for trial, (lr, norm) in enumerate(zip(lrs, norms, strict=True)) for t in ROUNDS
    ]  # fmt: skip
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture
def folders(tmp_path):
    return [
        run_folder(tmp_path, "plain", [0.1, 0.5], [1e-2, 1e-4], moment=2.0),
        run_folder(tmp_path, "noisy", [0.1, 0.5], [1e-3, 1e-1], moment=10.0),
    ]


def written(folders: list[Path], **options: object) -> tuple[pd.DataFrame, str, Path]:
    figure = {"name": "toy", "title": "A toy", "rows": [{"x": "round", "y": "grad_norm"}], **options}
    target = folders[0].parent / "out"
    report(folders, figure, target, Console(file=io.StringIO()))
    return pd.read_csv(target / "toy.csv"), (target / "report.md").read_text(), target


def test_by_default_the_best_step_size_of_each_is_drawn(folders):
    frame, text, target = written(folders)
    drawn = frame[frame["drawn"]].groupby("algorithm")["lr"].unique()
    assert (drawn["plain"].tolist(), drawn["noisy"].tolist()) == ([0.5], [0.1])
    assert "| toy | 0.5 | 0.1 |" in text
    assert "Claims" not in text
    assert {file.name for file in target.iterdir()} == {"toy.pdf", "toy.png", "toy.csv", "report.md"}


def test_a_step_size_can_be_drawn_for_all(folders):
    frame, _, _ = written(folders, step_size=0.1)
    assert frame[frame["drawn"]]["lr"].unique().tolist() == [0.1]
    assert frame[frame["drawn"]]["algorithm"].unique().tolist() == ["plain", "noisy"]


def test_derived_columns_are_there_to_draw(folders):
    derive = [{"name": "second_moment_ratio", "options": {"over": "plain"}}]
    frame, _, _ = written(folders, derive=derive, rows=[{"x": "round", "y": "second_moment_ratio"}])
    assert frame.loc[frame["algorithm"] == "noisy", "second_moment_ratio"].dropna().unique() == pytest.approx([5.0])


def test_targets_are_tabled(folders):
    _, text, target = written(folders, targets={"metric": "grad_norm", "levels": [1.0, 0.05, 1e-9]})
    assert "| method | 1 | 0.05 | 1e-09 |" in text
    assert "| Plain | at the start | 3.2e3 (0.5) | – |" in text
    table = pd.read_csv(target / "targets.csv")
    assert table.loc[(table["algorithm"] == "noisy") & (table["level"] == 0.05), "bits"].tolist() == [4000.0]


def test_a_negated_claim_holds_where_its_check_fails(folders):
    check = {"check": "reaches_level", "subject": "noisy", "reference": "plain", "within": 2.0}
    does, does_not = {"number": "a", "statement": "It does"}, {"number": "b", "statement": "Not", "negated": True}
    claims = [does | check, does_not | check]
    _, text, target = written(folders, claims=claims)
    table = pd.read_csv(target / "claims.csv").set_index(["number", "step_size"])["verdict"]
    assert (table["a", "0.1"], table["b", "0.1"]) == ("holds", "fails")
    assert (table["a", "0.5"], table["b", "0.5"]) == ("fails", "holds")
    assert "It holds where this is not so: `reaches_level(" in text


@pytest.mark.parametrize("methods", [2, 5, 11])
@pytest.mark.parametrize("tasks", [1, 2, 4])
def test_nothing_is_cut_off(tasks, methods):
    """Legend and caption lie inside the canvas for few and many panels and methods."""
    frame = pd.concat(
        labelled(f"A rather long method {m}", f"task {t}", curve([1.0, 0.1], (1, 2)))
        for t in range(tasks) for m in range(methods)
    )  # fmt: skip
    caption = "Nonconvex logistic regression with a long explanation of what was run and how. " * 2
    figure = curves.draw(frame, [{"x": "round", "y": "grad_norm"}] * 2, caption)
    figure.canvas.draw()
    renderer, canvas = figure.canvas.get_renderer(), figure.bbox
    for artist in [*figure.legends, figure._supxlabel]:
        box = artist.get_window_extent(renderer)
        assert box.x0 >= 0
        assert box.x1 <= canvas.width
    plt.close(figure)


def test_a_guide_has_the_slope_it_is_given():
    frame = labelled("m", "a", curve([1.0, 0.2, 0.1], (1, 10, 100)))
    figure = curves.draw(frame, [{"x": "round", "x_scale": "log", "y": "grad_norm", "guide": -0.5}], "")
    [line] = [line for line in figure.axes[0].get_lines() if line.get_label() == "slope −0.5"]
    assert line.get_ydata().tolist() == pytest.approx([1.0, 0.1])
    assert line.get_xdata().tolist() == [1, 100]
    plt.close(figure)
