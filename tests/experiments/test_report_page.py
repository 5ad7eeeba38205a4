"""The page of `python -m experiments.report` in a browser that is cut off from the network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from statistics import geometric_mean, mean

import pandas as pd
import pytest
from page_support import Viewer, browsing, opened, playwright
from run_support import go, rows

from experiments.report import main
from experiments.training.trainer import Trainer
from plots.claims import claims
from plots.figure.spec import Claim
from plots.runs.best import mark_best
from plots.runs.find import find
from plots.runs.levels import bits_to_reach
from plots.runs.time_model import Link, modelled_seconds
from plots.runs.variants import settled, tell_apart

CANCER, DIGITS = "logreg/breast_cancer", "logreg/digits"
SHORT = ("rounds=30", "eval_every=3", "cluster.workers=4", "threads=1")
METHODS = {"cd_adam": "lr=[0.01,0.03,0.1]", "ef21": "lr=[0.1,0.3]"}

CLAIM = {
    "number": "4",
    "statement": "CD-Adam is as low as EF21, to a factor",
    "check": "reaches_level",
    "options": {"subject": "cd_adam", "reference": "ef21", "within": 2.0},
}


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    """Two methods with two seeds on two tasks, a variant, a run that was interrupted, and a judged claim."""
    place = tmp_path_factory.mktemp("results")
    common = (*SHORT, "task.batch_size=20", f"results_dir={place}")
    for task, (method, lr), seed in product((CANCER, DIGITS), METHODS.items(), (0, 1)):
        go(f"task={task}", f"algorithm={method}", lr, f"seed={seed}", *common)
    go(f"task={CANCER}", "algorithm=ef21", "compressor.ratio=0.1", METHODS["ef21"], *common)

    def stop(trainer: Trainer, diagnose: bool = False) -> None:
        if trainer.t == 12:
            raise KeyboardInterrupt
        step(trainer, diagnose)

    step = Trainer.step
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "step", stop)
        with pytest.raises(KeyboardInterrupt):
            go(f"task={DIGITS}", "algorithm=cd_adam", METHODS["cd_adam"], "seed=2", *common)
    target = place / "figures" / "mine-quick"
    target.mkdir(parents=True)
    judged = claims.judge(mark_best(table(place, DIGITS)), [Claim(**CLAIM)])
    judged.to_csv(target / "claims.csv", index=False)
    (target / "report.md").write_text("# mine\n\n**quick budget: 30 rounds**\n\nA figure.\n")
    return place


@pytest.fixture(scope="module")
def browser() -> Iterator[playwright.Browser]:
    with browsing() as browser:
        yield browser


@pytest.fixture(scope="module")
def report(browser, results) -> Iterator[Viewer]:
    main([f"results_dir={results}"])
    viewer = opened(browser, results / "report.html")
    yield viewer
    viewer.page.close()


@pytest.fixture
def viewer(report) -> Iterator[Viewer]:
    """The page as it is at first, which after the test has asked for nothing and complained about nothing."""
    report.show()
    yield report
    assert report.asked == []
    assert report.complaints == []


def table(place: Path, task: str) -> pd.DataFrame:
    """A task's finished runs as Python has them."""
    variants = settled(tell_apart(find(place)))
    return pd.concat([variant.frame() for variant in variants if variant.run.task == task], ignore_index=True)


def of(results: Path, algorithm: str, task: str, lr: float) -> list[list[dict]]:
    """The rows of the finished runs with seeds 0 and 1, as they lie on disk."""
    runs = [run for run in find(results) if (run.algorithm, run.task) == (algorithm, task) and run.is_finished]
    runs = sorted((run for run in runs if run.config["seed"] < 2), key=lambda run: run.config["seed"])
    return [[row for row in rows(run.folder) if row["lr"] == lr] for run in runs]


def test_lines_are_drawn_with_their_colours(viewer):
    assert viewer.page.title() == "Results"
    assert len(viewer.drawn(CANCER)) == 3  # two methods, one of them in two variants
    assert len(viewer.drawn(DIGITS)) == 3  # and one run that is not finished
    assert all(path.startswith("M") and path.count(",") > 5 for path in viewer.drawn(CANCER))
    colors = {task: {trace["line"]["color"] for trace in viewer.traces(task)} for task in (CANCER, DIGITS)}
    assert colors[CANCER] == colors[DIGITS] == {"#D55E00", "#009E73"}
    assert viewer.titles(CANCER) == ["communication bits", "gradient norm"]
    lines = {trace["meta"]["method"]: trace["line"] for trace in viewer.traces(CANCER)}
    some, other = (line for method, line in lines.items() if method.startswith("ef21, compressor.ratio="))
    assert some["color"] == other["color"]
    assert some["dash"] != other["dash"]
    assert viewer.page.locator("#methods").get_by_text("EF21, compressor.ratio=0.1").count() == 1


def test_lines_are_means_over_seeds_in_bands(viewer, results):
    line, band = (viewer.line(DIGITS, "ef21", kind) for kind in ("line", "band"))
    seeds = of(results, "ef21", DIGITS, line["meta"]["lr"])
    assert len(seeds) == 2
    points = [pair for pair in zip(*seeds, strict=True) if pair[0]["bits"] > 0]
    norms = [[row["grad_norm"] for row in pair] for pair in points]
    assert line["x"] == [pair[0]["bits"] for pair in points]
    assert line["y"] == pytest.approx([geometric_mean(values) for values in norms], rel=1e-12)
    assert band["y"] == [max(values) for values in norms] + [min(values) for values in reversed(norms)]
    assert any(low < high for low, high in map(sorted, norms))
    viewer.page.uncheck("#logy")
    assert viewer.line(DIGITS, "ef21")["y"] == pytest.approx([mean(values) for values in norms], rel=1e-12)


def test_the_best_step_size_is_that_of_the_figures_and_each_can_be_shown(viewer, results):
    for task in (CANCER, DIGITS):
        best = mark_best(table(results, task)).query("best").groupby("algorithm")["lr"].first().to_dict()
        assert {trace["meta"]["method"]: trace["meta"]["lr"] for trace in viewer.traces(task)} == best
    viewer.page.select_option("#lr", "each")
    lrs = [trace["meta"]["lr"] for trace in viewer.traces(CANCER) if trace["meta"]["method"] == "cd_adam"]
    assert lrs == [0.01, 0.03, 0.1]
    assert len(viewer.drawn(CANCER)) == 3 + 2 + 2
    strengths = [trace["opacity"] for trace in viewer.traces(CANCER) if trace["meta"]["method"] == "cd_adam"]
    assert strengths == sorted(set(strengths))


@pytest.mark.parametrize(
    ("axis", "title"), [("round", "rounds"), ("epoch", "epochs"), ("seconds", "seconds of training")]
)
def test_the_axis_can_be_switched(viewer, results, axis, title):
    before = viewer.drawn(CANCER)
    viewer.page.select_option("#x", axis)
    assert viewer.titles(CANCER)[0] == title
    line = viewer.line(CANCER, "cd_adam")
    seeds = of(results, "cd_adam", CANCER, line["meta"]["lr"])
    assert line["x"] == pytest.approx([mean(row[axis] for row in pair) for pair in zip(*seeds, strict=True)])
    assert line["x"][0] == 0  # which a linear axis has a place for
    assert viewer.drawn(CANCER) != before
    viewer.page.check("#logx")
    assert min(viewer.line(CANCER, "cd_adam")["x"]) > 0


def test_another_metric_can_be_chosen_and_its_scale(viewer, results):
    before = viewer.drawn(CANCER)
    viewer.page.select_option("#y", "train_accuracy")
    assert viewer.titles(CANCER)[1] == "training accuracy"
    assert not viewer.page.is_checked("#logy")
    linear = viewer.drawn(CANCER)
    viewer.page.check("#logy")
    assert len({tuple(paths) for paths in (before, linear, viewer.drawn(CANCER))}) == 3
    axis_type = "document.querySelector('.plot').layout.yaxis.type"
    assert viewer.page.evaluate(axis_type) == "log"
    names = {option.get_attribute("value") for option in viewer.page.query_selector_all("#y option")}
    assert names == set(rows(find(results)[0].folder)[-1]) - {
        "round", "epoch", "seconds", "bits", "bits_up", "bits_down", "payload_bytes", "trial", "lr", "step_size"
    }  # fmt: skip


def test_methods_tasks_and_seeds_can_be_left_out(viewer, results):
    viewer.page.uncheck("#methods input[value=cd_adam]")
    assert {trace["meta"]["method"] for trace in viewer.traces(DIGITS)} == {"ef21"}
    assert len(viewer.drawn(DIGITS)) == 1
    assert viewer.page.locator("#targets .targets").first.get_by_text("CD-Adam").count() == 0
    viewer.page.uncheck("#seeds input[value='0']")
    line = viewer.line(DIGITS, "ef21")
    alone = of(results, "ef21", DIGITS, line["meta"]["lr"])[1]
    assert line["y"] == [row["grad_norm"] for row in alone][1:]
    assert viewer.traces(DIGITS, "band") == []
    viewer.page.uncheck(f"#tasks input[value='{CANCER}']")
    assert viewer.page.locator(".panel").count() == 1
    viewer.page.click("#methods .all")
    viewer.page.click("#methods .all")
    assert "nothing to draw" in viewer.page.text_content(".panel")


def test_a_run_that_is_not_finished_is_dotted_and_not_in_the_tables(viewer):
    lines = [trace for trace in viewer.traces(DIGITS) if trace["meta"]["method"] == "cd_adam"]
    [whole], [dotted] = ([line for line in lines if line["meta"]["finished"] is is_] for is_ in (True, False))
    assert (whole["line"]["dash"], dotted["line"]["dash"]) == ("solid", "dot")
    assert dotted["meta"]["lr"] == whole["meta"]["lr"]
    assert "seed 2 interrupted, round 12 of 30" in dotted["name"]
    assert "1 run not finished" in viewer.page.text_content("#notices")
    assert f"{DIGITS}, cd_adam, seed 2: interrupted, round 12 of 30" in viewer.page.text_content("#notices")


@pytest.mark.parametrize(
    ("metric", "levels"),
    [
        ("grad_norm", [0.3, 0.15, 0.1, 0.05, 1e-9]),
        ("train_loss", [0.7, 0.6, 0.3]),
        ("train_accuracy", [0.5, 0.8, 0.99]),
    ],
)
def test_the_bits_to_reach_a_level_are_those_of_python(viewer, results, metric, levels):
    viewer.page.select_option("#y", metric)
    viewer.page.fill("#levels", " ".join(map(str, levels)))
    dashes = 0
    for task in (CANCER, DIGITS):
        expected = bits_to_reach(table(results, task), metric, levels)
        labels = viewer.page.eval_on_selector_all(
            f'#targets [data-task="{task}"] tbody th', "cells => cells.map(cell => cell.textContent.trim())"
        )
        found = viewer.page.eval_on_selector_all(
            f'#targets [data-task="{task}"] tbody tr',
            """rows => rows.map(row => [...row.querySelectorAll("td")].map(
                ({ dataset, textContent }) => ({ ...dataset, text: textContent })))""",
        )
        by_label = dict(zip(labels, found, strict=True))
        assert set(by_label) == set(expected["label"])
        for label, some in expected.groupby("label"):
            for cell, (_, row) in zip(by_label[label], some.iterrows(), strict=True):
                if pd.isna(row["bits"]):
                    assert cell["text"] == "–"
                    dashes += 1
                elif row["bits"] == 0:
                    assert cell["text"] == "at the start"
                else:
                    numbers = [float(cell[name]) for name in ("bits", "round", "lr")]
                    assert numbers == pytest.approx([row["bits"], row["round"], row["lr"]], rel=1e-12)
    assert dashes


def test_ratios_are_to_the_method_that_took_the_most_bits(viewer):
    viewer.show(levels="0.15")
    cells = viewer.page.eval_on_selector_all(
        f'#targets [data-task="{CANCER}"] td[data-bits]',
        "cells => cells.map(cell => [+cell.dataset.bits, cell.textContent])",
    )
    most = max(bits for bits, _ in cells)
    assert len(cells) == 3
    for bits, text in cells:
        assert (f"({float(f'{most / bits:.3g}'):g}×)" in text) == (bits < most)


@pytest.mark.parametrize(
    ("values", "higher", "levels"),
    [
        ([1.0, 0.5, 2e-4], False, [0.1, 0.01, 1e-3]),
        ([1.0, 1e-12], False, [0.1, 0.01, 1e-3, 1e-4, 1e-5]),
        ([2.3, 1.7], False, [2.2, 2.0, 1.8]),
        ([0.97, 0.991], True, [0.975, 0.98, 0.985, 0.99]),
        ([0.5, 0.5], False, []),
        ([None, 0.5], False, []),
        ([-1.0, -2.0], False, []),
        ([0.0, 1.0, 2e-4], False, [0.1, 0.01, 1e-3]),
    ],
)
def test_levels_unless_typed(viewer, values, higher, levels):
    found = viewer.page.evaluate(
        "([values, higher]) => usualLevels([{ trial: { y: values } }], 'y', higher)", [values, higher]
    )
    assert found == pytest.approx(levels, rel=1e-12)


def test_modelled_seconds_are_those_of_python(viewer, results):
    viewer.page.select_option("#x", "modelled_seconds")
    viewer.page.fill("#bandwidth", "0.25")
    viewer.page.fill("#latency", "3.5")
    for shared in (True, False):
        viewer.page.set_checked("#shared", shared)
        for method in METHODS:
            task = DIGITS
            line = next(t for t in viewer.traces(task) if t["meta"]["method"] == method and t["meta"]["finished"])
            frame = table(results, task).query("algorithm == @method and lr == @line['meta']['lr']")
            frame = frame.assign(modelled=modelled_seconds(frame, Link(0.25, 3.5, shared)))
            expected = frame.groupby("round")["modelled"].mean()
            assert line["x"] == pytest.approx(expected.tolist()[1:], rel=1e-12)
            assert frame["workers"].unique().tolist() == [4]
    assert viewer.titles(DIGITS)[0] == "modelled seconds"


def test_an_impossible_number_is_marked_and_changes_nothing(viewer):
    viewer.show(x="modelled_seconds", levels="0.15")
    before = viewer.drawn(CANCER), viewer.page.inner_html("#targets")
    for field, value in (("levels", "0.15 low"), ("bandwidth", "0"), ("bandwidth", ""), ("latency", "")):
        viewer.page.fill(f"#{field}", value)
        assert viewer.page.evaluate(f"document.getElementById('{field}').matches(':invalid')")
        assert (viewer.drawn(CANCER), viewer.page.inner_html("#targets")) == before
    viewer.page.select_option("#x", "round")  # which no link has a part in
    assert viewer.titles(CANCER)[0] == "rounds"


def test_claims_are_shown_with_their_verdicts(viewer, results):
    judged = pd.read_csv(results / "figures" / "mine-quick" / "claims.csv", dtype=str)
    best = judged[judged["step_size"] == "best"]
    shown = viewer.page.eval_on_selector_all(
        "#claims tbody tr", "rows => rows.map(row => [...row.children].map(cell => cell.textContent))"
    )
    assert shown == best.values.tolist()
    verdict = viewer.page.locator("#claims tbody .verdict").first
    assert verdict.is_visible()
    assert verdict.get_attribute("class").split() == ["verdict", best["verdict"].iloc[0]]
    assert viewer.page.get_attribute("#claims a", "href") == "figures/mine-quick/report.md"
    assert "1 figure with claims: quick budget" in viewer.page.text_content("#notices")
    assert "quick budget: 30 rounds" in viewer.page.text_content("#claims")


def test_a_view_can_be_shared(viewer, browser, results):
    viewer.page.select_option("#x", "round")
    viewer.page.check("#logx")
    viewer.page.select_option("#y", "train_loss")
    viewer.page.uncheck("#methods input[value=cd_adam]")
    viewer.page.uncheck("#seeds input[value='1']")
    viewer.page.fill("#levels", "0.6 0.5")
    state = viewer.page.evaluate("JSON.stringify(read())")
    other = opened(browser, results / "report.html", viewer.page.evaluate("location.hash"))
    assert json.loads(other.page.evaluate("JSON.stringify(read())")) == json.loads(state)
    assert other.traces(DIGITS) == viewer.traces(DIGITS)
    assert (other.asked, other.complaints) == ([], [])
    other.page.close()


def test_addresses_that_mean_nothing_show_the_first_view(viewer):
    first = viewer.traces(CANCER)
    viewer.show(x="banana", y="constructor", lr="foo", nonsense=1)
    assert viewer.traces(CANCER) == first
    viewer.show(x="modelled_seconds")
    modelled = viewer.traces(CANCER)
    viewer.show(x="modelled_seconds", bandwidth="", latency="-1")
    assert viewer.traces(CANCER) == modelled


def test_controls_have_labels_and_work_from_the_keyboard(viewer):
    unlabelled = viewer.page.eval_on_selector_all(
        "input, select", "fields => fields.filter(field => !field.labels.length).map(field => field.id)"
    )
    assert unlabelled == []
    assert viewer.page.get_attribute(f'.panel[data-task="{CANCER}"] .plot', "aria-label").startswith(
        "gradient norm over communication bits on breast cancer: CD-Adam, EF21"
    )
    viewer.page.focus("#methods input[value=cd_adam]")
    viewer.page.keyboard.press("Space")
    assert "cd_adam" not in {trace["meta"]["method"] for trace in viewer.traces(CANCER)}


def test_nothing_overlaps_or_is_cut_off_on_a_laptop(viewer):
    for width in (1366, 700):
        viewer.page.set_viewport_size({"width": width, "height": 900})
        wide = viewer.page.evaluate(
            """[...document.querySelectorAll("header, fieldset, fieldset *, .panel, main > section")]
                .filter(element => element.scrollWidth > element.clientWidth + 1 && element.clientWidth &&
                    !["SELECT", "OPTION", "INPUT"].includes(element.tagName))
                .map(element => element.outerHTML.slice(0, 80))"""
        )
        assert wide == []
        assert viewer.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        boxes = [plot.bounding_box() for plot in viewer.page.query_selector_all(".plot")]
        drawn = [plot.bounding_box() for plot in viewer.page.query_selector_all(".plot .main-svg:first-child")]
        for outer, inner in zip(boxes, drawn, strict=True):
            assert inner["width"] <= outer["width"] + 1
    viewer.page.set_viewport_size({"width": 1366, "height": 900})


def test_long_lines_are_thinned_on_the_screen_alone(viewer):
    counts = viewer.page.evaluate(
        """() => [false, true].map(log => {
            const x = Array.from({ length: 50000 }, (_, i) => i + 1);
            const line = thinned({ x, mean: x }, log);
            return [line.x.length, line.x[0], line.x.at(-1), Math.max(...line.x.slice(1).map((v, i) =>
                log ? Math.log(v / line.x[i]) / Math.log(50000) : (v - line.x[i]) / 50000))];
        })"""
    )
    for count, first, last, gap in counts:
        assert count <= 2001
        assert (first, last) == (1, 50000)
        assert gap < 0.07  # of the axis: on a logarithmic one that is between the first two rounds
    assert len(viewer.line(CANCER, "cd_adam")["x"]) == 10  # short ones are whole
