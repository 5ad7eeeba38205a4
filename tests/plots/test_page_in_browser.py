"""The page of `python -m experiments.report` in a browser that is cut off from the network."""

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from statistics import geometric_mean, mean

import pandas as pd
import pytest
from curve_support import claim
from folder_support import change, folder
from page_support import Viewer, browser, opened

from experiments.report import main
from plots.claims.claims import judge
from plots.page import thin
from plots.runs.best import mark_best
from plots.runs.find import find
from plots.runs.levels import bits_to_reach
from plots.runs.network import FORMS, Network, is_uncompressed, modelled_seconds
from plots.runs.variants import settled, tell_apart

__all__ = ["browser"]

FIRST, SECOND = "group/first", "second"
METHODS = {"plain": (0.001, 0.003, 0.01), "noisy": (0.01, 0.03)}
CLAIM = claim("4", "Plain is as low as noisy, to a factor", "reaches_level", subject="plain",
              reference="noisy", within=2.0)  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    """Two methods with two seeds on two tasks, a variant, a run that was interrupted, and a judged claim."""
    place = tmp_path_factory.mktemp("results")
    for task, (method, lrs), seed in product((FIRST, SECOND), METHODS.items(), (0, 1)):
        path = folder(place, f"{seed}", task=task, algorithm=method, lrs=lrs, seed=seed, compressor__ratio=0.05)
        if method == "plain":  # is uncompressed: 80 bits a round are 64d
            change(path, "environment.json", lambda facts: facts | {"d": 1.25})
    folder(place, "variant", task=FIRST, algorithm="noisy", lrs=METHODS["noisy"], compressor__ratio=0.1)
    folder(place, "stopped", task=SECOND, lrs=METHODS["plain"], seed=2, status="interrupted", reached=50,
           compressor__ratio=0.05)  # fmt: skip
    target = place / "figures" / "mine-quick"
    target.mkdir(parents=True)
    judge(mark_best(table(place, SECOND)), [CLAIM]).to_csv(target / "claims.csv", index=False)
    (target / "report.md").write_text("# mine\n\n**quick budget: 30 rounds**\n\nA figure.\n")
    return place


@pytest.fixture(scope="module")
def report(browser, results) -> Iterator[Viewer]:
    main([f"results_dir={results}"])
    with opened(browser, results / "report.html") as viewer:
        yield viewer


@pytest.fixture
def viewer(report) -> Iterator[Viewer]:
    """The page as it is at first."""
    report.show()
    yield report
    assert report.is_quiet()


def table(place: Path, task: str) -> pd.DataFrame:
    """A task's finished runs as Python has them."""
    variants = settled(tell_apart(find(place)))
    return pd.concat([variant.frame() for variant in variants if variant.run.task == task], ignore_index=True)


def of(results: Path, algorithm: str, task: str, lr: float) -> list[list[dict]]:
    """The rows of the runs with seeds 0 and 1, as they lie on disk."""
    files = [results / task / algorithm / seed / "metrics.jsonl" for seed in "01"]
    return [[row for row in map(json.loads, file.read_text().splitlines()) if row["lr"] == lr] for file in files]


def test_lines_are_drawn_with_their_colours(viewer):
    assert viewer.page.title().startswith("Results: ")
    assert len(viewer.drawn(FIRST)) == 3  # two methods, one of them in two variants
    assert len(viewer.drawn(SECOND)) == 3  # and one run that is not finished
    assert all(path.startswith("M") and path.count(",") > 5 for path in viewer.drawn(FIRST))
    for task in (FIRST, SECOND):
        assert {trace["line"]["color"] for trace in viewer.traces(task)} == {"#111111", "#cc0000"}
    assert viewer.titles(FIRST) == ["communication bits", "gradient norm"]
    lines = {trace["curve"]: trace["line"] for trace in viewer.traces(FIRST)}
    some, other = (line for curve, line in lines.items() if curve.startswith("noisy, compressor.ratio="))
    assert some["color"] == other["color"]
    assert some["dash"] != other["dash"]
    assert viewer.page.locator("#methods .only").all_text_contents() == ["Noisy", "Plain"]
    entry = viewer.page.locator(f'.panel[data-task="{FIRST}"] .legend').get_by_text("Noisy, compressor.ratio=0.1")
    assert entry.count() == 1


def test_lines_are_means_over_seeds_in_bands(viewer, results):
    line, band = (viewer.line(SECOND, "noisy", kind) for kind in ("line", "band"))
    points = [pair for pair in zip(*of(results, "noisy", SECOND, line["lr"]), strict=True) if pair[0]["bits"] > 0]
    norms = [[row["grad_norm"] for row in pair] for pair in points]
    assert line["x"] == [pair[0]["bits"] for pair in points]
    assert line["y"] == pytest.approx([geometric_mean(values) for values in norms], rel=1e-12)
    assert band["y"] == [max(values) for values in norms] + [min(values) for values in reversed(norms)]
    viewer.page.uncheck("#logy")
    assert viewer.line(SECOND, "noisy")["y"] == pytest.approx([mean(values) for values in norms], rel=1e-12)


def test_the_best_step_size_is_that_of_the_figures_and_each_can_be_shown(viewer, results):
    for task in (FIRST, SECOND):
        best = mark_best(table(results, task)).query("best").groupby("algorithm")["lr"].first().to_dict()
        assert {trace["curve"]: trace["lr"] for trace in viewer.traces(task)} == best
    viewer.page.select_option("#lr", "each")
    lines = [trace for trace in viewer.traces(FIRST) if trace["method"] == "plain"]
    assert [line["lr"] for line in lines] == list(METHODS["plain"])
    assert len(viewer.drawn(FIRST)) == 3 + 2 + 2
    strengths = [line["opacity"] for line in lines]
    assert strengths == sorted(set(strengths))


@pytest.mark.parametrize(
    ("axis", "title"), [("round", "rounds"), ("epoch", "epochs"), ("seconds", "seconds of training")]
)
def test_the_axis_can_be_switched(viewer, results, axis, title):
    before = viewer.drawn(FIRST)
    viewer.page.select_option("#x", axis)
    assert viewer.titles(FIRST)[0] == title
    line = viewer.line(FIRST, "plain")
    seeds = of(results, "plain", FIRST, line["lr"])
    assert line["x"] == pytest.approx([mean(row[axis] for row in pair) for pair in zip(*seeds, strict=True)])
    assert line["x"][0] == 0  # which a linear axis has a place for
    assert viewer.drawn(FIRST) != before
    viewer.page.check("#logx")
    assert min(viewer.line(FIRST, "plain")["x"]) > 0


def test_another_metric_can_be_chosen_and_its_scale(viewer):
    before = viewer.drawn(FIRST)
    viewer.page.select_option("#y", "train_accuracy")
    assert viewer.titles(FIRST)[1] == "training accuracy"
    assert not viewer.page.is_checked("#logy")
    linear = viewer.drawn(FIRST)
    viewer.page.check("#logy")
    assert len({tuple(paths) for paths in (before, linear, viewer.drawn(FIRST))}) == 3
    assert viewer.page.evaluate("document.querySelector('.plot').layout.yaxis.type") == "log"
    names = viewer.page.eval_on_selector_all("#y option", "options => options.map(option => option.value)")
    assert set(names) == {"train_loss", "grad_norm", "train_accuracy", "extra"}


def test_methods_tasks_and_seeds_can_be_left_out(viewer, results):
    viewer.page.uncheck("#methods input[value=plain]")
    assert viewer.methods(SECOND) == {"noisy"}
    assert len(viewer.drawn(SECOND)) == 1
    assert viewer.page.locator("#targets .targets").first.get_by_text("Plain").count() == 0
    viewer.page.uncheck("#seeds input[value='0']")
    line = viewer.line(SECOND, "noisy")
    assert line["y"] == [row["grad_norm"] for row in of(results, "noisy", SECOND, line["lr"])[1]][1:]
    assert viewer.traces(SECOND, "band") == []
    viewer.page.uncheck(f"#tasks input[value='{FIRST}']")
    assert viewer.page.locator(".panel").count() == 1
    viewer.page.click("#methods .all")
    viewer.page.click("#methods .all")
    assert "nothing to draw" in viewer.text(".panel")


def test_a_run_that_is_not_finished_is_dotted_and_not_in_the_tables(viewer):
    lines = [trace for trace in viewer.traces(SECOND) if trace["method"] == "plain"]
    whole, dotted = sorted(lines, key=lambda line: not line["finished"])
    assert (whole["line"]["dash"], dotted["line"]["dash"]) == ("solid", "dot")
    assert dotted["lr"] == whole["lr"]
    assert "seed 2 interrupted, round 50 of 100" in dotted["name"]
    assert "1 run not finished" in viewer.text("#notices")
    assert f"{SECOND}, plain, seed 2: interrupted, round 50 of 100" in viewer.text("#notices")


@pytest.mark.parametrize(
    ("metric", "levels"),
    [("grad_norm", [2, 1, 0.15, 0.1, 1e-9]), ("train_loss", [1, 0.05, 1e-9]), ("train_accuracy", [0.5, 0.8, 0.99])],
)
def test_the_bits_to_reach_a_level_are_those_of_python(viewer, results, metric, levels):
    viewer.page.select_option("#y", metric)
    viewer.page.fill("#levels", " ".join(map(str, levels)))
    texts = []
    for task in (FIRST, SECOND):
        found = viewer.page.eval_on_selector_all(
            f'#targets [data-task="{task}"] tbody tr',
            """rows => rows.map(row => [row.querySelector("th").textContent.trim(),
                [...row.querySelectorAll("td")].map(cell => ({ ...cell.dataset, text: cell.textContent }))])""",
        )
        expected = dict(list(bits_to_reach(table(results, task), metric, levels).groupby("label")))
        assert {label for label, _ in found} == set(expected)
        for label, cells in found:
            for cell, row in zip(cells, expected[label].to_dict("records"), strict=True):
                if pd.isna(row["bits"]) or row["bits"] == 0:
                    assert cell["text"] == ("at the start" if row["bits"] == 0 else "–")
                    texts.append(cell["text"])
                else:
                    numbers = [float(cell[name]) for name in ("bits", "round", "lr")]
                    assert numbers == pytest.approx([row["bits"], row["round"], row["lr"]], rel=1e-12)
    assert set(texts) == {"–", "at the start"}


def test_ratios_are_to_the_method_that_took_the_most_bits(viewer):
    viewer.show(levels="0.9")
    cells = viewer.page.eval_on_selector_all(
        f'#targets [data-task="{FIRST}"] td[data-bits]',
        "cells => cells.map(cell => [+cell.dataset.bits, cell.textContent])",
    )
    most = max(bits for bits, _ in cells)
    assert len({bits for bits, _ in cells}) == 3
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
    for topology, overlap, computing in product(FORMS, (True, False), ("", "40")):
        viewer.page.select_option("#topology", topology)
        viewer.page.set_checked("#overlap", overlap)
        viewer.page.fill("#computing", computing)
        network = Network(bandwidth=0.25, latency=3.5, topology=topology, overlap=overlap,
                          computing=float(computing) if computing else None)  # fmt: skip
        for method in METHODS:
            line = viewer.line(SECOND, method)
            frame = table(results, SECOND).query("algorithm == @method and lr == @line['lr']")
            frame = frame.assign(modelled=modelled_seconds(frame, network))
            assert line["x"] == pytest.approx(frame.groupby("round")["modelled"].mean().tolist()[1:], rel=1e-12)
    assert [is_uncompressed(table(results, SECOND).query("algorithm == @name")).all() for name in METHODS] == [
        True,
        False,
    ]
    assert viewer.titles(SECOND)[0] == "modelled seconds"


def test_an_impossible_number_is_marked_and_changes_nothing(viewer):
    viewer.show(x="modelled_seconds", levels="0.15")
    before = viewer.drawn(FIRST), viewer.page.inner_html("#targets")
    for field, value in (
        ("levels", "0.15 low"),
        ("bandwidth", "0"),
        ("bandwidth", ""),
        ("latency", ""),
        ("computing", "-1"),
    ):
        viewer.page.fill(f"#{field}", value)
        assert viewer.page.evaluate(f"document.getElementById('{field}').matches(':invalid')")
        assert (viewer.drawn(FIRST), viewer.page.inner_html("#targets")) == before
    viewer.page.select_option("#x", "round")  # which no link has a part in
    assert viewer.titles(FIRST)[0] == "rounds"


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
    assert "1 figure with claims: quick budget" in viewer.text("#notices")
    assert "quick budget: 30 rounds" in viewer.text("#claims")


def test_a_view_can_be_shared(viewer, browser, results):
    viewer.page.select_option("#x", "round")
    viewer.page.check("#logx")
    viewer.page.select_option("#y", "train_loss")
    viewer.page.uncheck("#methods input[value=plain]")
    viewer.page.uncheck("#seeds input[value='1']")
    viewer.page.fill("#levels", "0.6 0.5")
    with opened(browser, results / "report.html", viewer.page.evaluate("location.hash")) as other:
        assert other.page.evaluate("read()") == viewer.page.evaluate("read()")
        assert other.traces(SECOND) == viewer.traces(SECOND)


def test_addresses_that_mean_nothing_show_the_first_view(viewer):
    first = viewer.traces(FIRST)
    viewer.show(x="banana", y="constructor", lr="foo", nonsense=1)
    assert viewer.traces(FIRST) == first
    viewer.show(x="modelled_seconds")
    modelled = viewer.traces(FIRST)
    viewer.show(x="modelled_seconds", bandwidth="", latency="-1", computing="-2", topology="star")
    assert viewer.traces(FIRST) == modelled


def test_controls_have_labels_and_work_from_the_keyboard(viewer):
    unlabelled = "fields => fields.filter(field => !field.labels.length).map(field => field.id)"
    assert viewer.page.eval_on_selector_all("input, select", unlabelled) == []
    assert viewer.page.get_attribute(f'.panel[data-task="{FIRST}"] .plot', "aria-label").startswith(
        f"gradient norm over communication bits on {FIRST.upper()}: Noisy, compressor.ratio=0.05"
    )
    viewer.page.focus("#methods input[value=plain]")
    viewer.page.keyboard.press("Space")
    assert "plain" not in viewer.methods(FIRST)


def test_nothing_overlaps_or_is_cut_off_on_a_laptop(viewer):
    for width in (1366, 700):
        viewer.page.set_viewport_size({"width": width, "height": 900})
        wide = viewer.page.evaluate(
            """[...document.querySelectorAll("header, fieldset, fieldset *, .panel, main > section")]
                .filter(element => element.scrollWidth > element.clientWidth + 1 && element.clientWidth &&
                    !["SELECT", "OPTION", "INPUT"].includes(element.tagName) && !element.matches(".hidden"))
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
    assert len(viewer.line(FIRST, "plain")["x"]) == 10  # short ones are whole


def test_no_button_leads_out_of_the_page(viewer):
    """Every button that a panel has is pressed, with the network watched and windows counted."""
    page = viewer.page
    buttons = page.locator(".panel .modebar-btn")
    names = {buttons.nth(number).get_attribute("data-title") for number in range(buttons.count())}
    assert names == {"Download plot", "Zoom", "Pan", "Zoom in", "Zoom out"}
    assert page.locator(".plotlyjsicon, .modebar a[href^='http'], a[href^='http']").count() == 0
    windows = len(page.context.pages)
    for number in range(buttons.count()):
        buttons.nth(number).dispatch_event("click")
    page.wait_for_timeout(200)
    assert page.locator(".plotly-cloud-dialog").count() == 0
    assert len(page.context.pages) == windows
    assert viewer.is_quiet()


def test_a_page_without_room_says_what_it_leaves_out(browser, tmp_path, monkeypatch):
    for seed in (0, 1):
        folder(tmp_path, f"{seed}", task=FIRST, lrs=(0.001,), seed=seed, rounds=1000)
    monkeypatch.setattr(thin, "ROOM", 250)
    main([f"results_dir={tmp_path}", "out=" + str(tmp_path / "some.html")])
    main([f"results_dir={tmp_path}", "out=" + str(tmp_path / "all.html"), "points=all"])
    with (
        opened(browser, tmp_path / "all.html", "#x=round") as whole,
        opened(browser, tmp_path / "some.html", "#x=round") as some,
    ):
        every, line = whole.line(FIRST, "plain"), some.line(FIRST, "plain")
        values = dict(zip(every["x"], every["y"], strict=True))
        shown = len(line["x"])
        assert (len(every["x"]), line["x"][0], line["x"][-1]) == (101, 0, 1000)
        assert 15 < shown < 40
        assert line["y"] == [values[t] for t in line["x"]]  # the mean over seeds
        said = f"2 of 2 runs are here with up to {shown} of their up to 101 evaluations"
        for place in ("#notices", "#reading", "#targets-note"):
            assert said in some.text(place)
            assert "evaluations" not in whole.text(place)
        assert "python -m experiments.report points=all" in some.text("#notices")
