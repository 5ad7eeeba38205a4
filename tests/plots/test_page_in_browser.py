"""The page of `python -m experiments.report` in a browser that is cut off from the network."""

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from statistics import geometric_mean, mean

import pandas as pd
import pytest
from curve_support import claim
from folder_support import folder
from page_support import Viewer, browser, open_page

from experiments.report import main
from plots.claims.claims import judge
from plots.runs.best import mark_best
from plots.runs.find import find
from plots.runs.results import bits_to_reach, usual_levels
from plots.runs.variants import distinguish, keep_ended, variant_rows

__all__ = ["browser"]

FIRST, SECOND = "group/first", "second"
METHODS = {"plain": (0.001, 0.003, 0.01), "noisy": (0.01, 0.03)}
CLAIM = claim("4", "Plain is as low as noisy, to a factor", "reaches_level", subject="plain",
              reference="noisy", within=2.0)  # fmt: skip
VARIANTS = {"noisy, compressor.ratio=0.05", "noisy, compressor.ratio=0.1"}
HOSTILE = '"><img src=x onerror=alert(1)>'


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    """Two methods with two seeds on two tasks, a variant, a run that was interrupted, and a judged claim."""
    place = tmp_path_factory.mktemp("results")
    for task, (method, lrs), seed in product((FIRST, SECOND), METHODS.items(), (0, 1)):
        folder(place, f"{seed}", task=task, algorithm=method, lrs=lrs, seed=seed, compressor__ratio=0.05)
    folder(place, "variant", task=FIRST, algorithm="noisy", lrs=METHODS["noisy"], compressor__ratio=0.1)
    look = {"label": HOSTILE, "color": "#00ff00", "marker": "o"}
    folder(place, "stopped", task=SECOND, algorithm="odd", status="interrupted", reached=50,
           compressor__ratio=0.05, algorithm__display=look)  # fmt: skip
    target = place / "figures" / "mine-quick"
    target.mkdir(parents=True)
    judge(mark_best(rows(place, SECOND).query("algorithm != 'odd'")), [CLAIM]).to_csv(
        target / "claims.csv", index=False
    )
    (target / "report.md").write_text("# mine\n\n**quick budget: 30 rounds**\n\nA figure.\n")
    main([f"results_dir={place}"])
    return place


@pytest.fixture(scope="module")
def report(browser, results) -> Iterator[Viewer]:
    with open_page(browser, results / "report.html") as viewer:
        yield viewer


@pytest.fixture
def viewer(report) -> Iterator[Viewer]:
    """The page as it is at first."""
    report.show()
    yield report
    assert report.is_quiet()


def rows(place: Path, task: str) -> pd.DataFrame:
    """A task's runs as Python has them."""
    variants = keep_ended(distinguish(find(place)))
    return variant_rows([variant for variant in variants if variant.run.task == task])


def of(results: Path, algorithm: str, task: str, lr: float) -> list[list[dict]]:
    """The rows of the runs with seeds 0 and 1, as they lie on disk."""
    files = [results / task / algorithm / seed / "metrics.jsonl" for seed in "01"]
    return [[row for row in map(json.loads, file.read_text().splitlines()) if row["lr"] == lr] for file in files]


def curves(viewer: Viewer, task: str) -> set[str]:
    """The names of the curves in a panel."""
    return {trace["curve"] for trace in viewer.traces(task)}


def test_lines_are_drawn_with_their_colours(viewer):
    assert len(viewer.drawn(FIRST)) == 3  # two methods, one of them in two variants
    assert all(path.startswith("M") and path.count(",") > 5 for path in viewer.drawn(FIRST))
    assert {trace["line"]["color"] for trace in viewer.traces(FIRST)} == {"#111111", "#cc0000"}
    assert viewer.titles(FIRST) == ["communication bits", "gradient norm"]
    lines = {trace["curve"]: trace["line"] for trace in viewer.traces(FIRST)}
    some, other = (lines[name] for name in VARIANTS)
    assert some["color"] == other["color"]
    assert some["dash"] != other["dash"]
    assert viewer.text("#drawn") == "Drawn: 2 of 2 tasks, 3 of 3 methods, 10 of 10 runs."


def test_lines_are_means_over_seeds_in_bands(viewer, results):
    line, band = (viewer.line(SECOND, "noisy", kind) for kind in ("line", "band"))
    points = [pair for pair in zip(*of(results, "noisy", SECOND, line["lr"]), strict=True) if pair[0]["bits"] > 0]
    norms = [[row["grad_norm"] for row in pair] for pair in points]
    assert line["x"] == [pair[0]["bits"] for pair in points]
    assert line["y"] == pytest.approx([geometric_mean(values) for values in norms], rel=1e-12)
    assert band["y"] == [max(values) for values in norms] + [min(values) for values in reversed(norms)]
    viewer.page.uncheck("#logy")
    assert viewer.line(SECOND, "noisy")["y"] == pytest.approx([mean(values) for values in norms], rel=1e-12)


def test_seeds_that_sent_other_bits_stand_at_their_mean(viewer):
    places = viewer.page.evaluate(
        """() => {
            const seed = times => ({ run: { axes: { round: [0, 10, 20], bits: [0, 80 * times, 160 * times] } },
                trial: { y: [1, 0.5, 0.25] } });
            return overSeeds([seed(1), seed(2)], { x: "bits", y: "y", logx: true, logy: true }).map(({ x }) => x);
        }"""
    )
    assert places == [120, 240]


def test_the_best_step_size_is_that_of_the_figures_and_each_can_be_shown(viewer, results):
    best = mark_best(rows(results, FIRST)).query("best").groupby("algorithm")["lr"].first().to_dict()
    assert {trace["curve"]: trace["lr"] for trace in viewer.traces(FIRST)} == best
    viewer.page.select_option("#lr", "each")
    lines = [trace for trace in viewer.traces(FIRST) if trace["method"] == "plain"]
    assert [line["lr"] for line in lines] == list(METHODS["plain"])
    assert len(viewer.drawn(FIRST)) == 3 + 2 + 2
    strengths = [line["opacity"] for line in lines]
    assert strengths == sorted(set(strengths))


def test_the_axis_can_be_switched(viewer, results):
    for axis, title in (("round", "rounds"), ("seconds", "seconds of training")):
        viewer.page.select_option("#x", axis)
        assert viewer.titles(FIRST)[0] == title
        line = viewer.line(FIRST, "plain")
        seeds = of(results, "plain", FIRST, line["lr"])
        assert line["x"] == pytest.approx([mean(row[axis] for row in pair) for pair in zip(*seeds, strict=True)])
        assert line["x"][0] == 0  # which a linear axis has a place for
    viewer.page.check("#logx")
    assert min(viewer.line(FIRST, "plain")["x"]) > 0


def test_an_axis_change_draws_in_the_same_places(viewer):
    """Panels are not taken out, and their axes stand where they stood: else all is laid out or drawn twice."""
    page, area = viewer.page, f'.panel[data-task="{FIRST}"] .nsewdrag'
    page.evaluate(
        """() => { window.changes = [];
            new MutationObserver(some => changes.push(...some)).observe(at("panels"), { childList: true }); }"""
    )
    places = []
    for x, y in product(("round", "bits", "seconds"), ("grad_norm", "train_accuracy")):
        page.select_option("#x", x)
        page.select_option("#y", y)
        page.set_checked("#logx", x != "bits")
        places.append(page.locator(area).bounding_box())
    assert places == places[:1] * 6
    assert page.evaluate("changes.length") == 0


def test_many_lines_have_few_markers_and_each_has_one(viewer):
    points = f'.panel[data-task="{FIRST}"] .trace:has(.js-line) .points'
    counts = "all => all.map(points => points.childElementCount)"
    assert viewer.page.eval_on_selector_all(points, counts) == [5, 5, 5]  # of ten points every second
    viewer.page.evaluate(
        """() => { const [task] = data.tasks, view = read(), [line] = linesOf(task, view, data.runs);
            const lines = [...Array(120).keys()].map(lr => ({ ...line, lr }));
            drawPanel(document.querySelector(".panel"), task, view, lines); }"""
    )
    drawn = viewer.page.eval_on_selector_all(points, counts)
    assert len(drawn) == 120
    assert min(drawn) >= 1
    assert sum(drawn) <= 300


def test_runs_are_filtered_by_boxes_settings_and_words(viewer, results):
    page = viewer.page
    page.uncheck("#methods input[value=plain]")
    assert curves(viewer, FIRST) == VARIANTS
    assert page.locator("#targets .targets").first.get_by_text("Plain").count() == 0
    page.uncheck("[id='with.compressor.ratio'] input[value='0.1']")
    assert curves(viewer, FIRST) == {"noisy, compressor.ratio=0.05"}
    page.uncheck("#seeds input[value='0']")
    line = viewer.line(SECOND, "noisy")
    assert line["y"] == [row["grad_norm"] for row in of(results, "noisy", SECOND, line["lr"])[1]][1:]
    assert viewer.traces(SECOND, "band") == []
    viewer.show()
    page.fill("#filter", "NOISY ratio=0.1")
    assert curves(viewer, FIRST) == {"noisy, compressor.ratio=0.1"}
    assert viewer.text("#drawn").startswith("Drawn: 1 of 2 tasks")
    page.uncheck(f"#tasks input[value='{FIRST}']")
    assert page.locator(".panel").count() == 1
    assert "nothing to draw" in viewer.text(".panel")
    page.click("#tasks .all")
    assert page.locator(".panel").count() == 2


def test_the_table_of_runs_takes_memory_only_while_it_is_open(viewer):
    page, lines = viewer.page, viewer.page.locator("#runs tbody tr")
    assert lines.count() == 0
    page.click("#runs-summary")
    page.wait_for_selector("#runs tbody tr")
    assert lines.count() == 10
    page.uncheck("#seeds input[value='0']")
    assert viewer.text("#runs-summary").startswith(f"{lines.count()} of 10 runs: ")
    page.click("#runs-summary")
    page.wait_for_selector("#runs tbody tr", state="detached")


def test_text_of_a_run_is_no_markup(viewer):
    assert viewer.page.locator("img").count() == 0
    assert HOSTILE in viewer.page.locator("#methods span").all_text_contents()


def test_the_bits_to_reach_a_level_are_those_of_python(viewer, results):
    frame = rows(results, FIRST)
    levels = usual_levels(frame, "grad_norm")
    expected = dict(list(bits_to_reach(frame, "grad_norm", levels).groupby("label")))
    shown = viewer.page.eval_on_selector_all(
        f'#targets [data-task="{FIRST}"] tbody tr',
        """rows => rows.map(row => [row.querySelector("th span").childNodes[1].data.trim(),
            [...row.querySelectorAll("td")].map(cell => cell.title || cell.textContent)])""",
    )
    assert len(levels) > 2
    assert {label for label, _ in shown} == set(expected)
    for label, cells in shown:
        for cell, bits in zip(cells, expected[label]["bits"], strict=True):
            assert cell == ("–" if bits != bits else f"{bits:g} bits" if bits else "at the start")


def test_claims_are_shown_with_their_verdicts(viewer, results):
    judged = pd.read_csv(results / "figures" / "mine-quick" / "claims.csv", dtype=str)
    best = judged[judged["step_size"] == "best"]
    shown = viewer.page.eval_on_selector_all(
        "#claims :not(.equal) > .scroll tbody tr",
        "rows => rows.map(row => [...row.children].map(cell => cell.textContent))",
    )
    assert shown == best.values.tolist()
    assert "of 1 hold" in viewer.text("#claims .equal summary")
    verdict = viewer.page.locator("#claims tbody .verdict").first
    assert verdict.is_visible()
    assert verdict.get_attribute("class").split() == ["verdict", best["verdict"].iloc[0]]
    assert viewer.page.get_attribute("#claims a", "href") == "figures/mine-quick/report.md"
    assert "quick budget: 30 rounds" in viewer.text("#claims")


def test_a_view_can_be_shared(viewer, browser, results):
    viewer.page.select_option("#x", "round")
    viewer.page.check("#logx")
    viewer.page.select_option("#y", "train_loss")
    viewer.page.uncheck("#methods input[value=plain]")
    viewer.page.uncheck("#seeds input[value='1']")
    with open_page(browser, results / "report.html", viewer.page.evaluate("location.hash")) as other:
        assert other.page.evaluate("read()") == viewer.page.evaluate("read()")
        assert other.traces(SECOND) == viewer.traces(SECOND)


def test_no_button_leads_out_of_the_page(viewer):
    """Every button that a panel has is pressed, with the network watched and windows counted."""
    page = viewer.page
    buttons = page.locator(".panel .modebar-btn")
    names = {buttons.nth(number).get_attribute("data-title") for number in range(buttons.count())}
    assert names == {"Download plot as a PNG", "Zoom", "Pan", "Zoom in", "Zoom out"}
    assert page.locator(".plotlyjsicon, .modebar a[href^='http'], a[href^='http']").count() == 0
    windows = len(page.context.pages)
    for number in range(buttons.count()):
        buttons.nth(number).dispatch_event("click")
    page.wait_for_timeout(200)
    assert page.locator(".plotly-cloud-dialog").count() == 0
    assert len(page.context.pages) == windows
    assert viewer.is_quiet()


@pytest.mark.parametrize(("scheme", "ground"), [("light", "255, 255, 255"), ("dark", "20, 24, 29")])
def test_on_a_phone_the_first_curve_is_on_the_first_screen_in_either_scheme(browser, results, scheme, ground):
    with open_page(browser, results / "report.html", "", 390, 844, color_scheme=scheme, has_touch=True) as phone:
        page = phone.page
        box = page.locator(f'.panel[data-task="{FIRST}"] .plot').bounding_box()
        assert box["y"] + box["height"] <= 844
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == f"rgb({ground})"
        color = {"light": "#cc0000", "dark": "#e68080"}[scheme]
        assert {line["line"]["color"] for line in phone.traces(FIRST) if line["method"] == "noisy"} == {color}
        assert not page.locator("#methods").is_visible()  # until asked for
        page.click("#choose > summary")
        page.uncheck("#methods input[value=plain]")
        assert phone.methods(FIRST) == {"noisy"}
        label = '[aria-label]:not([aria-label*="Plain"])'
        page.wait_for_selector(f'.panel[data-task="{SECOND}"] .plot{label}', state="attached")  # below the screen
        assert "noisy" in phone.methods(SECOND)
