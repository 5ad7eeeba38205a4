"""What a figure's options come to in the files that are written."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from folder_support import folder

from experiments.figures import committed
from experiments.redraw import redraw
from plots.figure import curves
from plots.figure.derive import MinimumOverRounds
from plots.figure.publish import publish, rows_of
from plots.figure.spec import Figure, Panel
from plots.runs.read import open_run, table

TOY = Figure(name="toy", title="A toy", grid=(("seed=0",),), rows=(Panel(x="round", y="grad_norm"),))


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """Two runs whose gradient norms fall to these, one a step size."""
    ends = {"plain": {0.1: 1e-2, 0.5: 1e-4}, "noisy": {0.1: 1e-3, 0.5: 1e-1}}
    return [
        folder(tmp_path, name, algorithm=name, lrs=(0.1, 0.5), norm=lambda t, lr, _, to=to: to[lr] ** (t / 100))
        for name, to in ends.items()
    ]


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> list[pd.DataFrame]:
    """Nothing is drawn; the rows that would be."""
    drawn = []
    monkeypatch.setattr(curves, "draw", lambda frame, *more, **options: drawn.append(frame))
    monkeypatch.setattr(curves, "save", lambda *arguments, **more: None)
    return drawn


def test_a_committed_report_is_written_again(undrawn, tmp_path: Path) -> None:
    """The others are in tests/docs/test_reference_reports.py."""
    assert redraw(committed.tables()["rate"], tmp_path)


def test_by_default_the_best_step_size_of_each_is_drawn(folders, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(curves, "save", lambda figure, *targets: [target.touch() for target in targets])
    target = tmp_path / "out"
    publish(rows_of(folders, TOY), TOY, target)
    frame, text = pd.read_csv(target / "toy.csv"), (target / "report.md").read_text()
    drawn = frame[frame["drawn"]].groupby("algorithm")["lr"].unique()
    assert (drawn["plain"].tolist(), drawn["noisy"].tolist()) == ([0.5], [0.1])
    assert "| toy | 0.5 (edge) | 0.1 (edge) |" in text
    assert "Claims" not in text
    assert text.startswith("# A toy\n\n![A toy](toy.png)\n\n*Each method with the step size")
    assert "tried: 2 of 2 best step sizes.*\n\n**Runs of commit abcdef0**\n\nUp to" in text
    assert {file.name for file in target.iterdir()} == {"toy.pdf", "toy.png", "toy.csv", "report.md"}


def test_a_run_that_was_stopped_is_not_said_to_diverge(undrawn, tmp_path: Path) -> None:
    runs = [folder(tmp_path, "a"), folder(tmp_path, "b", algorithm="noisy", status="interrupted", reached=50)]
    publish(rows_of(runs, TOY), TOY, tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    assert "Stopped: Noisy after round 50." in text
    assert "Diverged" not in text
    assert not undrawn[0]["diverged"].any()


def test_a_run_that_another_figure_began_is_drawn_as_this_one_has_it(folders, undrawn, tmp_path) -> None:
    looks = {
        place: ({"label": "here"}, {"label": place.name, "color": "#123456", "marker": "v"}) for place in folders
    }
    publish(rows_of(folders, TOY, looks), TOY, tmp_path / "out")
    [frame] = undrawn
    assert (set(frame["task_label"]), set(frame["color"]), set(frame["marker"])) == ({"here"}, {"#123456"}, {"v"})
    assert set(frame["label"]) == {place.name for place in folders}


def test_over_batches_a_run_is_a_point_and_one_that_diverged_none(tmp_path) -> None:
    paths = [
        folder(tmp_path, f"{size}", task__batch_size=size, reached=40 if size == 16 else None)
        for size in (64, 1, 4, 16)
    ]
    panel = Panel(x="batch_size", x_scale="log", y="min_grad_norm_squared", guide=-0.5)
    frame = MinimumOverRounds().apply(table([open_run(path) for path in paths]))
    line, guide = curves.draw(frame, [panel], "").axes[0].get_lines()
    assert line.get_xdata().tolist() == [1, 4, 16, 64]
    assert np.isnan(line.get_ydata()).tolist() == [False, False, True, False]
    assert (line.get_markevery(), guide.get_label()) == ([0, 1, 2, 3], "slope −0.5")
