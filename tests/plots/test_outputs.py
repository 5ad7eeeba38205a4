"""What report and plot write by the ending of out=, LaTeX's numbers against loops over rows, and a figure's files."""

import csv
import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from curve_support import claim
from folder_support import change, folder, rewrite

from common import tables
from experiments import load, report
from plots import plot
from plots.figure import curves
from plots.figure.derive import MinimumOverRounds
from plots.figure.publish import publish, rows_of
from plots.figure.spec import Figure as Published
from plots.figure.spec import Panel
from plots.latex import latex_tables
from plots.runs.find import find
from plots.runs.read import open_run, table
from plots.runs.results import results as table_of
from plots.runs.seeds import seeds_in_words
from plots.runs.variants import distinguish, keep_ended, variant_rows


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two step sizes and two seeds of one method with a setting that differs, and another method."""
    place = tmp_path / "results"
    for ratio in (25, 5):
        for seed in (0, 1):
            folder(place, f"r{ratio}{seed}", seed=seed, lrs=(0.1, 0.2), compressor__ratio=ratio / 100, study="mine")
    folder(place, "other", algorithm="noisy", lrs=(0.1,))
    return place


def test_the_ending_says_what_is_written(results, tmp_path):
    for ending, begin in (("html", "<!doctype html>"), ("tex", "% needs \\usepackage{booktabs}")):
        report.main([f"results_dir={results}", f"out={tmp_path / 'it'}.{ending}"])
        assert (tmp_path / f"it.{ending}").read_text().startswith(begin)


def test_no_page_is_written_through_a_link_in_the_results(results, tmp_path, capsys):
    outside, link = tmp_path / "outside", results / "report.html"
    outside.write_text("mine")
    link.symlink_to(outside)
    with pytest.raises(SystemExit, match="2"):
        report.main([f"results_dir={results}"])
    assert f"error: {link}: is a link, " in capsys.readouterr().err
    assert outside.read_text() == "mine"
    report.main([f"results_dir={results}", f"out={link}"])
    assert outside.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("link", ["plots", "plots/grad_norm-over-bits.csv"])
def test_no_picture_is_written_through_a_link_in_the_results(results, link, tmp_path, capsys):
    outside, place = tmp_path / "outside", results / link
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(outside)
    with pytest.raises(SystemExit, match="2"):
        plot.main([f"results_dir={results}"])
    assert f"error: {place}: is a link, " in capsys.readouterr().err
    assert not outside.exists()


def test_no_cell_of_a_csv_is_a_formula(tmp_path):
    odd = {"=1+1": "=cmd()", "plain": "+1", "@a": "-1e-3", "+b": "-1+cmd|' /C calc'!A0"}
    tables.write_csv(pd.DataFrame([odd | {"value": -2.0}]), tmp_path / "odd.csv")
    [names, cells] = csv.reader((tmp_path / "odd.csv").read_text().splitlines())
    assert names == ["'=1+1", "plain", "'@a", "'+b", "value"]
    assert cells == ["'=cmd()", "+1", "-1e-3", "'-1+cmd|' /C calc'!A0", "-2.0"]
    folder(tmp_path / "results", "r", task="=toy", lrs=(0.1,))
    report.main([f"results_dir={tmp_path / 'results'}", f"out={tmp_path / 'rows.csv'}"])
    assert set(pd.read_csv(tmp_path / "rows.csv")["task"]) == {"'=toy"}


def test_rows_are_those_of_load(results, tmp_path):
    report.main([f"results_dir={results}", f"out={tmp_path / 'rows.csv'}"])
    read, whole = pd.read_csv(tmp_path / "rows.csv"), table_of(find(results))
    assert set(read) == {*whole, "modelled_seconds"} - {"label", "color", "marker", "task_label", "selected_by"}
    for name in ("grad_norm", "compressor.ratio", "lr", "bits"):
        pd.testing.assert_series_equal(read[name], whole[name], check_index_type=False)


def test_beside_a_picture_lie_its_curves(results, tmp_path, capsys):
    plot.main([f"results_dir={results}", "algorithm=plain", f"out={tmp_path / 'it.svg'}"])
    assert (tmp_path / "it.svg").read_text().startswith("<?xml")
    rows = pd.read_csv(tmp_path / "it.csv")
    assert set(rows["lr"]) == {0.2}  # the best
    assert set(rows["algorithm"]) == {"plain, compressor.ratio=0.25", "plain, compressor.ratio=0.05"}
    assert len(rows) == 4 * 10  # round 0 has no place over bits
    said = capsys.readouterr().out
    assert f"picture: {tmp_path / 'it.svg'}" in said
    assert "seeds 0, 1. Bits count what one worker sends and receives." in said


def test_a_seed_that_is_left_out_is_named(tmp_path, capsys):
    """Otherwise its mean would be over other seeds than those of the methods beside it, and nobody would know."""
    for seed in (0, 1):
        change(folder(tmp_path, f"plain{seed}", seed=seed), "code.json", lambda _, s=seed: {"modules": {"a": s}})
    folder(tmp_path, "noisy0", algorithm="noisy")
    folder(tmp_path, "noisy1", algorithm="noisy", seed=1, status="failed", reached=50)
    folder(tmp_path, "odd", algorithm="odd", status="failed", reached=20)
    seeds = "0 (Noisy and Odd); 0, 1 (Plain)"
    said = (
        "Noisy on toy, seed 1, lr=0.1, is not finished (round 50 of 100): left out\n"
        "Odd on toy, seed 0, lr=0.1, is not finished (round 20 of 100): used up to there\n"
    )
    plot.main([f"results_dir={tmp_path}", "x=rounds", f"out={tmp_path / 'it.svg'}"])
    printed, noticed = capsys.readouterr()
    assert noticed == "1 of 3 curves have runs of different code, such as Plain on toy: a.py\n"
    assert all(text in printed for text in (said, f"seeds {seeds}."))
    assert "Stopped: Odd after round 20. Up to 100 rounds; " in (tmp_path / "it.svg").read_text()
    report.main([f"results_dir={tmp_path}", f"out={tmp_path / 'it.tex'}"])
    assert said in capsys.readouterr().out
    assert f"Of several seeds ({seeds}) the geometric mean" in (tmp_path / "it.tex").read_text()
    assert set(load(tmp_path)["seed"]) == {0, 1}
    assert "not finished, so left out: 2 of 5 chosen runs" in capsys.readouterr().err


def test_seeds_that_differ_by_task_are_named_with_it(tmp_path):
    for task, algorithm, seeds in (("a", "plain", (0, 1)), ("b", "plain", (0,)), ("b", "noisy", (0,))):
        for seed in seeds:
            folder(tmp_path, f"{task}{algorithm}{seed}", task=task, algorithm=algorithm, seed=seed)
    frame = variant_rows(keep_ended(distinguish(find(tmp_path))))
    assert seeds_in_words(frame) == "0, 1 (Plain on a); 0 (Noisy and Plain on b)"
    assert seeds_in_words(frame[frame["task"] == "b"]) == "0"


def test_rows_beside_a_picture_keep_the_seconds_of_their_seed(tmp_path):
    for seed in (0, 1):
        rewrite(folder(tmp_path, f"plain{seed}", seed=seed), lambda row, seed=seed: row | {"seconds": seed + 1.0})
    plot.main([f"results_dir={tmp_path}", "x=rounds", f"out={tmp_path / 'it.svg'}"])
    assert pd.read_csv(tmp_path / "it.csv").groupby("seed")["seconds"].unique().to_dict() == {0: [1.0], 1: [2.0]}


def test_a_caption_says_whether_workers_or_groups_of_them_communicate(tmp_path, capsys):
    for groups, said in ((2, "one group of workers"), (None, "one worker or one group of workers")):
        folder(tmp_path, f"run{groups}", seed=groups or 0, cluster__groups=groups)
        plot.main([f"results_dir={tmp_path}", f"out={tmp_path / 'it.svg'}"])
        assert f"Bits count what {said} sends and receives." in capsys.readouterr().out


# Tables in LaTeX


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """Two methods with several step sizes on two tasks, one of them with two seeds, and a third on one."""
    place = tmp_path_factory.mktemp("results")
    for task in ("one", "two"):
        for seed in (0, 1):
            folder(place, f"plain-{task}-{seed}", task=task, seed=seed, lrs=(0.1, 0.2, 0.3))
        folder(place, f"noisy-{task}", task=task, algorithm="noisy", lrs=(0.1, 0.2))
    look = {"label": r"a&b_c%d$e#f{g}", "color": "k", "marker": "o"}
    folder(place, "odd", task="two", algorithm="odd", algorithm__display=look)
    return variant_rows(keep_ended(distinguish(find(place))))


def parts(text: str) -> list[tuple[str, dict[str, list[str]]]]:
    """Caption and cells by method of every table."""
    tables = re.findall(r"\\caption\{(.*?)\}\n.*?\\toprule\n(.*?)\\bottomrule", text, re.DOTALL)
    found = []
    for caption, body in tables:
        lines = body.replace("\\midrule\n", "").strip().removesuffix(" \\\\").split(" \\\\\n")
        found.append((caption, {first: rest for first, *rest in (re.split(r"(?<!\\) & ", line) for line in lines)}))
    return found


def test_the_tables_of_runs(rows: pd.DataFrame) -> None:
    best, ends, *levels = parts(latex_tables(rows))
    assert best[0].startswith("Best step sizes: the step size with the lowest geometric mean of the gradient norm")
    assert best[1] == {
        "Method": ["one", "two"], "Plain": ["0.3", "0.3"], "Noisy": ["0.2", "0.2"],
        r"a\&b\_c\%d\$e\#f\{g\}": ["--", "0.1"],
    }  # fmt: skip
    low = 0.7**100
    assert ends[1]["Plain"][0] == f"{low * math.sqrt(2):.3g} [{low:.3g}, {2 * low:.3g}]"
    assert [caption.partition(":")[0] for caption, _ in levels] == ["ONE", "TWO"]
    caption, cells = levels[0]
    assert "communication bits until the gradient norm reaches a level" in caption
    assert cells["Method"] == ["0.1", "0.01", "0.001", "0.0001", "1e-05"]
    firsts = [next(t for t in range(0, 101, 10) if (1 + seed) * 0.7**t <= 1e-3) for seed in (0, 1)]
    assert cells["Plain"][2].startswith(f"{80 * sum(firsts) / 2:.3g}".replace("e+0", "e"))


def test_the_metric_and_what_is_counted_can_be_asked_for(rows: pd.DataFrame) -> None:
    _, ends, *levels = parts(latex_tables(rows, "train_accuracy", "bits_up"))
    assert ends[0].startswith("The training accuracy at the last evaluation")
    assert "uplink bits until the training accuracy reaches a level" in levels[0][0]
    assert levels[0][1]["Noisy"][0] == "1.2e3"  # 40 · 30: 0.5 + 0.4 · 30/100 ≥ 0.6


def test_captions_say_what_seeds_and_seconds_are(tmp_path: Path) -> None:
    for seed, lr, status in ((0, 0.1, "finished"), (1, 0.3, "finished"), (2, 0.1, "running")):
        folder(tmp_path, f"a{seed}", seed=seed, lrs=(lr,), status=status)
    folder(tmp_path, "b", algorithm="noisy", lrs=(0.1, 0.2), status="running", reached=50)
    kept = variant_rows(keep_ended(distinguish(find(tmp_path))))
    best, ends, levels = (caption for caption, _ in parts(latex_tables(kept, x="seconds")))
    assert "seeds" not in best.partition(".")[0]
    assert best.endswith("No step size was finished by every seed; the smallest is shown: Plain on toy.")
    assert ends.endswith("Ended early: Noisy on toy, seed 0, after round 50 of 100. Left out: Plain on toy, seed 2.")
    assert "Seconds are those of all step sizes that a run trained together. Of several seeds" in levels


# What `python -m plots.plot` draws, says and refuses


def test_one_seed_one_method_one_step_size(results, monkeypatch):
    figures, draw = [], curves.draw
    monkeypatch.setattr(curves, "save", lambda figure, *targets: None)
    monkeypatch.setattr(curves, "draw", lambda *arguments: figures.append(draw(*arguments)) or figures[-1])
    plot.main([f"results_dir={results}", "algorithm=plain", "seed=1", "lr=0.1", "y_scale=linear"])
    [axis] = figures[0].axes
    assert len(axis.get_lines()) == 2  # of two ratios
    for line in axis.get_lines():
        assert line.get_xdata().tolist() == [80.0 * t for t in range(10, 101, 10)]  # a log axis has no round 0
        assert line.get_ydata().tolist() == pytest.approx([2 * 0.9**t for t in range(10, 101, 10)])
    assert (axis.get_xscale(), axis.get_yscale()) == ("log", "linear")
    assert figures[0].get_supxlabel() == "100 rounds; one seed (1)."


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ("tusk=toy", "tusk: no such key; did you mean task? Valid: x, y, study, task,"),
        ("y=gard_norm", "did you mean grad_norm? Valid: bits_up,"),
        ("width=0.5", "width=0.5: must be at least 1, in inches"),
        ("lr=0.3", "lr=0.3: no run has this step size; there are best, 0.1, 0.2"),
        ("network.topology=star", "network.topology=star: Input should be 'rank0', 'sharded'"),
        ("out=it.doc", "out=.doc: no such choice; Valid: .pdf, .png, .svg,"),
    ],
)
def test_what_is_not_understood_is_refused_before_anything_is_drawn(results, capsys, request_, message):
    with pytest.raises(SystemExit, match=r"^2$"):
        plot.main([f"results_dir={results}", request_])
    assert message in capsys.readouterr().err
    assert not (results / "plots").exists()


TOY = Published(name="toy", title="A toy", grid=(("seed=0",),), rows=(Panel(x="round", y="grad_norm"),))


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
    """The rows that would be drawn. Nothing is drawn."""
    drawn = []
    monkeypatch.setattr(curves, "draw", lambda frame, *more, **options: drawn.append(frame))
    monkeypatch.setattr(curves, "save", lambda *arguments, **more: None)
    return drawn


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


def test_claims_have_the_figures_words_for_published_step_sizes(folders, undrawn, tmp_path: Path) -> None:
    options = {"subject": "plain", "reference": "noisy", "within": 2.0}
    published = {"published": {"plain": 0.1, "noisy": 0.5}, "published_as": "theory's"}
    figure = TOY.replace(**published, claims=(claim("1", "low", "reaches_level", **options),))
    publish(rows_of(folders, figure), figure, tmp_path / "out")
    found = pd.read_csv(tmp_path / "out" / "claims.csv", dtype=str)["step_size"]
    assert found.tolist() == ["theory's", "best", "0.1", "0.5"]


def test_a_run_that_was_stopped_is_not_said_to_diverge(undrawn, tmp_path: Path) -> None:
    runs = [folder(tmp_path, "a"), folder(tmp_path, "b", algorithm="noisy", status="interrupted", reached=50)]
    publish(rows_of(runs, TOY), TOY, tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    assert "Stopped: Noisy after round 50." in text
    assert "Diverged" not in text
    assert not undrawn[0]["diverged"].any()


def test_a_run_that_another_figure_began_is_drawn_as_this_one_has_it(folders, undrawn, tmp_path) -> None:
    look = {"color": "#123456", "marker": "v"}
    looks = {place: ({"label": "here"}, {"label": place.name, **look}) for place in folders}
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
