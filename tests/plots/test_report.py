"""What a figure's options come to in the files that are written."""

import io
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import yaml
from curve_support import claim, curve, labelled
from folder_support import folder, rewrite
from renewing import renew
from rich.console import Console

from plots.figure import curves
from plots.figure.derive import MinimumOverRounds
from plots.figure.publish import Displays, publish, rows_of, show
from plots.figure.spec import Figure, Panel, Target
from plots.runs.read import open_run, table

TOY = Figure(name="toy", title="A toy", grid=(("seed=0",),), rows=(Panel(x="round", y="grad_norm"),))
AS_LOW = claim("3", "As low", "reaches_level", subject="noisy", reference="plain", within=2.0)

HEAD = "# A toy\n\n![A toy](toy.png)\n\n"


def report(
    folders: list[Path], figure: Figure, target: Path, console: Console, displays: Displays | None = None
) -> None:
    """What `experiments.reproduce` does with run folders."""
    findings = publish(rows_of(folders, figure, displays), figure, target)
    show(findings, figure, console)


def run_folder(
    place: Path, algorithm: str, lrs: list[float], norms: list[float], moment: float, seed: int = 0
) -> Path:
    """A run whose gradient norm falls to `norms`, one a step size."""
    ends = dict(zip(lrs, norms, strict=True))
    path = folder(place, f"{algorithm}-{seed}", algorithm=algorithm, seed=seed, lrs=tuple(lrs),
                  norm=lambda t, lr, seed: ends[lr] ** (t / 100))  # fmt: skip
    rewrite(path, lambda row: row | {"test_accuracy": 0.5 + 0.4 * row["round"] / 100})
    rewrite(path, lambda row: row | ({"second_moment": moment * row["lr"]} if row["round"] else {}))
    return path


@pytest.fixture
def folders(tmp_path):
    return [
        run_folder(tmp_path, "plain", [0.1, 0.5], [1e-2, 1e-4], moment=2.0),
        run_folder(tmp_path, "noisy", [0.1, 0.5], [1e-3, 1e-1], moment=10.0),
    ]


def caption(folders: list[Path], **options: object) -> str:
    """Write everything but the picture. Its caption, which is to stand beside it."""
    return texts(folders, **options)[1]


def texts(folders: list[Path], **options: object) -> tuple[str, str]:
    """What is to stand in the picture, and its caption."""
    inside: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(curves, "draw", lambda frame, rows, text, *more: inside.append(text))
        patch.setattr(curves, "save", lambda *arguments, **more: None)
        report(folders, replace(TOY, **options), folders[0].parent / "out", Console(file=io.StringIO()))
    return inside[0], (folders[0].parent / "out" / "toy.txt").read_text().removesuffix("\n")


def written(folders: list[Path], **options: object) -> tuple[pd.DataFrame, str, Path]:
    """The table of curves, the report, and the folder."""
    caption(folders, **options)
    target = folders[0].parent / "out"
    return pd.read_csv(target / "toy.csv"), (target / "report.md").read_text(), target


def test_by_default_the_best_step_size_of_each_is_drawn(folders):
    frame, text, target = written(folders)
    report(folders, TOY, target, Console(file=io.StringIO()))
    drawn = frame[frame["drawn"]].groupby("algorithm")["lr"].unique()
    assert (drawn["plain"].tolist(), drawn["noisy"].tolist()) == ([0.5], [0.1])
    assert "| toy | 0.5 (edge) | 0.1 (edge) |" in text
    assert "Claims" not in text
    assert text.startswith(f"{HEAD}*Each method with the step size")
    assert "tried: Plain, Noisy.*\n\n**Runs of commit abcdef0**\n\nUp to" in text
    assert {file.name for file in target.iterdir()} == {"toy.pdf", "toy.png", "toy.csv", "toy.txt", "report.md"}


def test_a_run_that_another_figure_began_is_drawn_as_this_one_has_it(folders, monkeypatch):
    drawn = []
    monkeypatch.setattr(curves, "draw", lambda frame, *more: drawn.append(frame))
    monkeypatch.setattr(curves, "save", lambda *arguments, **more: None)
    looks = {
        place: ({"label": "here"}, {"label": place.name, "color": "#123456", "marker": "v"}) for place in folders
    }
    report(folders, TOY, folders[0].parent / "out", Console(file=io.StringIO()), looks)
    [frame] = drawn
    assert (set(frame["task_label"]), set(frame["color"]), set(frame["marker"])) == ({"here"}, {"#123456"}, {"v"})
    assert set(frame["label"]) <= {place.name for place in folders}


def test_over_batches_a_run_is_a_point_and_one_that_diverged_none(tmp_path):
    paths = [
        folder(tmp_path, f"{size}", task__batch_size=size, reached=40 if size == 16 else None)
        for size in (64, 1, 4, 16)
    ]
    panel = Panel(x="batch_size", x_scale="log", y="min_grad_norm_squared", guide=-0.5)
    frame = MinimumOverRounds().apply(table([open_run(path) for path in paths]))
    figure = curves.draw(frame, [panel], "")
    line, guide = figure.axes[0].get_lines()
    assert line.get_xdata().tolist() == [1, 4, 16, 64]
    assert np.isnan(line.get_ydata()).tolist() == [False, False, True, False]
    assert (line.get_markevery(), guide.get_label()) == ([0, 1, 2, 3], "slope −0.5")
    assert figure.axes[0].get_xlabel() == "batch size of a worker"
    plt.close(figure)


def test_a_negated_claim_holds_where_its_check_fails(folders):
    claims = (replace(AS_LOW, number="a"), replace(AS_LOW, number="b", statement="Not", negated=True))
    _, text, target = written(folders, claims=claims)
    table = pd.read_csv(target / "claims.csv").set_index(["number", "step_size"])["verdict"]
    assert (table["a", "0.1"], table["b", "0.1"]) == ("holds", "fails")
    assert (table["a", "0.5"], table["b", "0.5"]) == ("fails", "holds")
    assert "It holds where this is not so: `reaches_level(" in text


# several seeds, budgets and metrics


@pytest.fixture
def seeded(tmp_path):
    return [
        run_folder(tmp_path / "seeded", name, lrs, [end * factor for end in ends], 2.0, seed)
        for name, lrs, ends in (("plain", [0.1, 0.5], [1e-2, 1e-4]), ("noisy", [0.5], [1e-3]))
        for seed, factor in ((0, 1.0), (7, 4.0))
    ]


def test_seeds_are_stated_and_all_drawn(seeded):
    loose = replace(AS_LOW, check=replace(AS_LOW.check, within=100.0))
    frame, text, target = written(seeded, claims=(loose,))
    assert "Up to 100 rounds, seeds 0, 7." in text
    assert "over the last tenth of the rounds and over seeds:" in text
    assert "Every claim is checked seed by seed" in text
    assert "holds (10× (10× to 10×, 2 seeds))" in text
    drawn = frame[frame["drawn"]].groupby("algorithm")
    assert drawn["seed"].unique().map(list).to_dict() == {"plain": [0, 7], "noisy": [0, 7]}
    assert drawn["lr"].unique().map(list).to_dict() == {"plain": [0.5], "noisy": [0.5]}
    assert pd.read_csv(target / "claims.csv")["step_size"].tolist() == ["best", "0.5"]


def test_the_note_is_on_the_figure_and_above_the_report(folders):
    note = "quick budget: width 8,\n  2 epochs\n"
    assert caption(folders, note=note).splitlines()[:2] == ["quick budget: width 8, 2 epochs", "A toy."]
    text = (folders[0].parent / "out" / "report.md").read_text()
    assert text.startswith(f"{HEAD}*Each method ")
    assert ".*\n\n**quick budget: width 8, 2 epochs. Runs of commit abcdef0**\n\nUp to 100 rounds, seed 0.\n" in text


def test_best_step_sizes_on_the_edge_of_their_grid_are_named_or_counted(tmp_path, folders):
    assert "On the edge of what was tried: Plain, Noisy." in caption(folders)
    inside = [
        run_folder(tmp_path / "in", name, [0.1, 0.5, 0.9], [1e-2, 1e-4, 1e-2], 2.0) for name in ("plain", "noisy")
    ]
    assert "edge" not in caption(inside)
    assert "edge" not in written(inside)[1]
    many = [run_folder(tmp_path / "many", f"m{n}", [0.1, 0.5], [1e-2, 1e-4], 2.0) for n in range(5)]
    assert "On the edge of what was tried: 5 of 5 best step sizes." in caption(many)


def test_the_caption_names_the_precision_of_the_runs(tmp_path):
    run = run_folder(tmp_path, "plain", [0.1], [1e-2], 2.0)
    assert "Products in" not in caption([run])
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["task"]["precision"] = "bf16"
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    renew(run)
    assert "A toy. Products in bf16, also in evaluations." in caption([run])


def test_the_caption_says_where_curves_are_cut_and_only_where_they_are(folders):
    cut, accuracy = replace(TOY.rows[0], y_min=0.1, y_max=0.5), Panel(x="round", y="test_accuracy")
    text = caption(folders, rows=(cut, accuracy, replace(cut, x="bits")))
    assert text.count("The gradient norm goes on above 0.5.") == 1
    assert text.count("The gradient norm goes on below 0.1.") == 1
    assert "accuracy" not in text
    wide = caption(folders, rows=(replace(cut, y_min=1e-9, y_max=5.0), accuracy))
    assert "goes on" not in wide
    assert "goes on" not in caption(
        folders, rows=(replace(cut, task="another"), replace(cut, task="toy", y_min=None, y_max=None))
    )


def test_grids_that_differ_are_listed_beside_claims(seeded, folders):
    grids = "Step sizes tried:\n\n| task | plain | noisy |\n| --- | --- | --- |\n| toy | 0.1, 0.5 | 0.5 |\n"
    assert grids in written(seeded, claims=(AS_LOW,))[1]
    assert "Step sizes tried" not in written(seeded)[1]
    assert "Step sizes tried" not in written(folders, claims=(AS_LOW,))[1]  # the columns of the claims name them


def test_methods_with_one_step_size_each_are_neither_selected_nor_compared_at_equal_ones(tmp_path):
    runs = [run_folder(tmp_path, name, [lr], [1e-2], 2.0) for name, lr in (("plain", 0.1), ("noisy", 0.5))]
    text = written(runs, claims=(AS_LOW,))[1]
    assert (
        "\n\nStep sizes, one a method:\n\n| task | plain | noisy |\n| --- | --- | --- |\n| toy | 0.1 | 0.5 |\n"
        in text
    )
    assert "geometric mean of" not in text.partition("## Claims")[0]  # nothing was selected
    assert "Step sizes tried" not in text
    assert "Column *best*: each method with its own best step size.\n" in text
    assert "\n- 3. As low: **best step sizes: holds in 1 of 1**.\n\nUp to" in text
    assert "| task | best |" in text
    assert "Each method with the one step size it was given." in caption(runs)


def test_targets_of_several_metrics(folders):
    asked = (Target(metric="grad_norm", levels=(0.05,)), Target(metric="test_accuracy", levels=(0.7, 0.95)))
    _, text, target = written(folders, targets=asked)
    first, second = text.split("## Bits to reach a ")[1:]
    assert first.startswith("grad_norm\n")
    assert "| Plain | 3.2e3 (0.5) |" in first
    assert "There means" not in first
    assert second.startswith("test_accuracy\n")
    assert "There means at the level or above it." in second
    assert "| Plain | 4e3 (0.1) | – |" in second
    table = pd.read_csv(target / "targets.csv")
    assert table[["metric", "level"]].drop_duplicates().values.tolist() == [
        ["grad_norm", 0.05], ["test_accuracy", 0.7], ["test_accuracy", 0.95]
    ]  # fmt: skip
    assert table.query("algorithm == 'noisy' and level == 0.05")["bits"].tolist() == [4000]


def test_targets_over_seeds_show_their_spread(seeded):
    _, text, _ = written(seeded, targets=(Target(metric="grad_norm", levels=(1.0, 0.05, 1e-9)),))
    assert "| Noisy | at the start | 4.4e3 (4e3 to 4.8e3; 0.5) | – |" in text
    assert "Bits are means over seeds" in text


def test_a_guide_has_the_slope_it_is_given():
    frame = labelled("m", "a", curve([1.0, 0.2, 0.1], (1, 10, 100)))
    figure = curves.draw(frame, [replace(TOY.rows[0], x_scale="log", guide=-0.5)], "")
    [line] = [line for line in figure.axes[0].get_lines() if line.get_label() == "slope −0.5"]
    assert line.get_ydata().tolist() == pytest.approx([1.0, 0.1])
    assert line.get_xdata().tolist() == [1, 100]


def test_a_step_size_that_a_task_was_not_given_is_a_dash(tmp_path):
    places = [(name, task, lr) for name in ("plain", "noisy") for task, lr in (("a", 0.1), ("b", 0.5))]
    runs = [folder(tmp_path, "run", algorithm=name, task=task, lrs=(lr, 0.3)) for name, task, lr in places]
    text = written(runs, claims=(AS_LOW,))[1]
    assert "| task | best | 0.1 | 0.3 | 0.5 |\n" in text
    assert "| b | holds (1×) | – | holds (1×) | holds (1×) |" in text


def test_methods_are_ranked_by_bits_to_the_hardest_level_that_they_reach(tmp_path):
    ends = {"last": 0.2, "third": 0.02, "first": 1e-4, "second": 1e-3}
    runs = [run_folder(tmp_path, name, [0.1], [end], 2.0) for name, end in ends.items()]
    asked = Target(metric="grad_norm", levels=(0.5, 0.05, 0.002))
    rows = written(runs, targets=(asked,))[1].partition("### toy\n\n")[2].splitlines()
    assert [row.split(" | ")[0] for row in rows[2:6]] == ["| First", "| Second", "| Third", "| Last"]
    of_accuracy = Target(metric="test_accuracy", levels=(0.6, 0.95))
    rows = written(runs, targets=(of_accuracy,))[1].partition("### toy\n\n")[2].splitlines()
    assert rows[2].startswith("| Last | ")  # of equals the first stays first
