"""What a reader does with a page of many runs: choose, isolate, filter, zoom, go back, sort and take along."""

import csv
import io
import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pandas as pd
import pytest
from folder_support import folder
from page_support import Viewer, browser, opened

from experiments.report import main
from plots.runs.find import find
from plots.runs.levels import bits_to_reach
from plots.runs.variants import settled, tell_apart

__all__ = ["browser"]

TASK = "a/first"
OTHERS = ("b", "c", "d", "e", "f")
HOSTILE = '"><img src=x onerror=alert(1)>'
FASTER = {"plain": 0.03, "noisy": 0.02}


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    """A study: two methods with two batch sizes, two numbers of rounds and two step sizes, on one task of six."""
    place = tmp_path_factory.mktemp("afternoon")
    for number, (method, batch, rounds, lr) in enumerate(product(FASTER, (8, 16), (100, 200), (0.5, 1.0))):
        rate = FASTER[method] * lr * batch / 8
        folder(place, f"{number:012x}", task=TASK, algorithm=method, lrs=(lr,), rounds=rounds, task__batch_size=batch,
               norm=lambda t, _, seed, rate=rate: (1 - rate) ** t, study="mine")  # fmt: skip
    for task in OTHERS:
        folder(place, task, task=task, study="mine", note=HOSTILE)
    folder(place, "again", task="f", study="mine", note="=2+3")
    return place


@pytest.fixture(scope="module")
def report(browser, results) -> Iterator[Viewer]:
    main([f"results_dir={results}"])
    with opened(browser, results / "report.html") as viewer:
        viewer.page.set_default_timeout(10_000)
        yield viewer


@pytest.fixture
def viewer(report) -> Iterator[Viewer]:
    """The page as it is at first."""
    report.show()
    yield report
    assert report.is_quiet()


def curves(viewer: Viewer, task: str = TASK) -> set[str]:
    """The names of the curves in a panel."""
    return {trace["curve"] for trace in viewer.traces(task)}


ALL = {f"{method}, rounds={rounds}, task.batch_size={batch}" for method, rounds, batch in
       product(FASTER, (100, 200), (8, 16))}  # fmt: skip


def test_a_method_has_one_entry_and_settings_are_filters(viewer):
    entries = (
        "legend => [legend.textContent, [...legend.parentElement.querySelectorAll('.only')].map(b => b.textContent)]"
    )
    fields = dict(viewer.page.eval_on_selector_all("#choose legend", f"all => all.map({entries})"))
    assert fields["Methods"] == ["Noisy", "Plain"]
    assert (fields["rounds"], fields["task.batch_size"]) == (["100", "200"], ["8", "16"])
    assert curves(viewer) == ALL
    viewer.page.uncheck("[id='with.task.batch_size'] input[value='8']")
    assert curves(viewer) == {name for name in ALL if name.endswith("=16")}
    assert len(viewer.traces("b")) == 1  # which has no such setting
    rows = viewer.page.locator(f'#targets [data-task="{TASK}"] tbody th').all_text_contents()
    assert sorted(row.strip().lower() for row in rows) == sorted(name for name in ALL if name.endswith("=16"))


def test_a_click_on_a_name_isolates_and_a_double_click_shows_all(viewer):
    page = viewer.page
    page.click("#methods .only >> text=Plain")
    assert curves(viewer) == {name for name in ALL if name.startswith("plain")}
    page.dblclick("#methods .only >> text=Plain")
    assert curves(viewer) == ALL
    legend = page.locator(f'.panel[data-task="{TASK}"] .legend button')
    one = legend.get_by_text("Noisy, rounds=200, task.batch_size=8")
    one.click()
    assert curves(viewer) == {"noisy, rounds=200, task.batch_size=8"}
    pressed = {entry.get_attribute("value"): entry.get_attribute("aria-pressed") for entry in legend.all()}
    assert pressed == {name: str(name in curves(viewer)).lower() for name in ALL}
    one.dblclick()
    assert curves(viewer) == ALL
    assert page.evaluate("location.hash") == ""


def test_the_filter_is_words_that_a_run_has_all_of(viewer):
    viewer.page.fill("#filter", "PLAIN batch_size=16")
    assert curves(viewer) == {name for name in ALL if name.startswith("plain") and name.endswith("=16")}
    viewer.page.fill("#filter", "no such run")
    assert curves(viewer) == set()
    assert viewer.text("#drawn").startswith("Drawn: 0 of 6 tasks")


def test_what_is_not_drawn_is_said(viewer):
    said = viewer.text("#drawn")
    assert "4 of 6 tasks (not E, F)" in said
    assert "2 of 2 methods" in said
    assert "11 of 22 runs" in said  # eight curves of the first task and one of each of three more
    assert "(3 not chosen, 8 with step sizes other than the best)" in said
    viewer.page.uncheck("#methods input[value=noisy]")
    assert "1 of 2 methods (not Noisy)" in viewer.text("#drawn")


def test_back_undoes_a_choice(viewer):
    page = viewer.page
    views = []
    for choose in (
        lambda: page.select_option("#x", "round"),
        lambda: page.uncheck("#methods input[value=plain]"),
        lambda: page.locator("#filter").press_sequentially("noisy"),  # one step, however many letters
        lambda: page.uncheck("[id='with.rounds'] input[value='100']"),
    ):
        views.append(page.evaluate("read()"))
        choose()
    last = page.evaluate("read()")
    for view in reversed(views):
        page.go_back()
        page.wait_for_function("view => JSON.stringify(read()) === view", arg=json.dumps(view, separators=(",", ":")))
    for _ in views:
        page.go_forward()
    page.wait_for_function("view => JSON.stringify(read()) === view", arg=json.dumps(last, separators=(",", ":")))
    assert curves(viewer) == {name for name in ALL if name.startswith("noisy, rounds=200")}


def ranges(viewer: Viewer) -> list[float]:
    return viewer.page.evaluate(
        """task => {
            const { xaxis, yaxis } = document.querySelector(`.panel[data-task="${task}"] .plot`)._fullLayout;
            return [...xaxis.range, ...yaxis.range];
        }""",
        TASK,
    )


def test_a_zoom_is_in_the_address(viewer, browser, results):
    page = viewer.page
    whole = ranges(viewer)
    box = page.locator(f'.panel[data-task="{TASK}"] .nsewdrag').bounding_box()
    place = [(box["x"] + share * box["width"], box["y"] + share * box["height"]) for share in (0.25, 0.75)]
    page.mouse.move(*place[0])
    page.mouse.down()
    page.mouse.move(*place[1], steps=4)
    page.mouse.up()
    page.wait_for_function("location.hash.includes('zoom')")
    zoomed = ranges(viewer)
    for (low, high), (inner_low, inner_high) in ((whole[:2], zoomed[:2]), (whole[2:], zoomed[2:])):
        assert inner_low == pytest.approx(low + 0.25 * (high - low), abs=0.02 * (high - low))
        assert inner_high == pytest.approx(low + 0.75 * (high - low), abs=0.02 * (high - low))
    with opened(browser, results / "report.html", page.evaluate("location.hash")) as other:
        assert ranges(other) == pytest.approx(zoomed, rel=1e-4)
        other.page.click(f'.panel[data-task="{TASK}"] .whole')
        assert ranges(other) == pytest.approx(whole)
    page.go_back()
    page.wait_for_function("!location.hash.includes('zoom')")
    assert ranges(viewer) == pytest.approx(whole)
    viewer.show(zoom=f"1,2,x,4,{TASK}")  # which means nothing
    assert ranges(viewer) == pytest.approx(whole)


def test_runs_can_be_sorted_and_lead_to_their_folders(viewer, results):
    page = viewer.page
    page.click("#runs-summary")
    rows = page.locator("#runs tbody tr")
    rows.nth(22 - 3 - 1).wait_for()
    assert rows.count() == 22 - 3  # of two tasks nothing is chosen
    heads = page.locator("#runs thead button").all_text_contents()
    assert {"rounds", "task.batch_size", "note"} <= set(heads)
    assert len(set(heads)) == len(heads)
    column = heads.index("last gradient norm")
    button = page.locator("#runs thead button").nth(column)
    button.focus()
    for order, direction in (("ascending", 1), ("descending", -1)):
        page.keyboard.press("Enter")  # the heading keeps the focus
        assert page.locator("#runs thead th").nth(column).get_attribute("aria-sort") == order
        values = page.eval_on_selector_all(
            "#runs tbody tr", f"rows => rows.map(row => +row.cells[{column}].textContent)"
        )
        assert values == sorted(values)[::direction]
        assert len(set(values)) > 5
    for link in page.locator("#runs tbody a").all():
        place = Path(unquote(urlsplit(link.evaluate("link => link.href")).path))
        assert (place / "metrics.jsonl").exists()
        assert place.name == link.text_content()
    page.click("#runs-summary")


def test_a_panel_can_be_taken_along_as_csv(viewer, results):
    with viewer.page.expect_download() as begun:
        viewer.page.click(f'.panel[data-task="{TASK}"] .csv')
    assert begun.value.suggested_filename == "grad_norm a first.csv"
    table = pd.read_csv(begun.value.path())
    drawn = {trace["curve"]: trace for trace in viewer.traces(TASK)}
    assert len(drawn) == 8
    for name, trace in drawn.items():
        method, rounds, batch = (part.rpartition("=")[2] for part in name.split(", "))
        rows = table[
            (table["method"] == method) & (table["rounds"] == int(rounds)) & (table["task.batch_size"] == int(batch))
        ]
        assert rows["lr"].unique().tolist() == [trace["lr"]]
        assert (
            rows["grad_norm"].tolist()[1:] == trace["y"]
        )  # the first is at no bits, which has no place on this axis
        assert rows["x: bits"].tolist()[1:] == trace["x"]
        assert rows["round"].tolist() == list(range(0, int(rounds) + 1, 10))


def test_text_of_a_run_is_neither_markup_nor_a_formula(viewer):
    assert viewer.page.locator("img").count() == 0
    assert set(viewer.page.locator("[id='with.note'] .only").all_text_contents()) == {HOSTILE, "=2+3"}
    viewer.show(tasks="f")
    with viewer.page.expect_download() as begun:
        viewer.page.click(".csv")
    text = Path(begun.value.path()).read_text()
    notes = {row["note"] for row in csv.DictReader(io.StringIO(text))}
    assert notes == {HOSTILE, "'=2+3"}


def test_title_and_first_line_say_the_study_and_what_was_found(viewer, results):
    variants = [variant for variant in settled(tell_apart(find(results))) if variant.run.task == TASK]
    frame = pd.concat([variant.frame() for variant in variants], ignore_index=True)
    found = bits_to_reach(frame, "grad_norm", [0.001, 1e-4]).dropna()
    assert set(found["level"]) == {0.001, 1e-4}  # of which plain alone reached the harder one
    assert set(found[found["level"] == 1e-4]["algorithm"].str.partition(",")[0]) == {"plain"}
    found = found.assign(method=found["algorithm"].str.partition(",")[0])[found["level"] == 0.001]
    found = found.groupby("method")["bits"].min()
    assert set(found.index) == {"noisy", "plain"}
    assert viewer.page.title() == f"mine: Plain: {found['noisy'] / found['plain']:.3g}× fewer bits than Noisy"
    assert viewer.text("h1") == "mine"
    line = viewer.text("#finding")
    assert f"{found['plain'] / 1000:.3g} kbit to a gradient norm of 0.001" in line
    assert f"{found['noisy'] / found['plain']:.3g}× fewer bits than Noisy" in line


def test_tables_are_there_for_keyboard_and_screen_reader(viewer):
    page = viewer.page
    panel = page.locator(f'.panel[data-task="{TASK}"]')
    panel.locator(".values summary").focus()
    page.keyboard.press("Enter")
    panel.locator(".values tbody tr").first.wait_for()
    rows = panel.locator(".values tbody tr").all()
    assert len(rows) == 8
    traces = {trace["name"].rpartition(", step")[0]: trace for trace in viewer.traces(TASK)}
    for row in rows:
        name, *_, last = row.locator("th, td").all_text_contents()
        assert float(last) == pytest.approx(traces[name]["y"][-1], rel=5e-3)
    page.uncheck("#methods input[value=plain]")
    assert panel.locator(".values tbody tr").count() == 4  # it goes with the view
    assert page.eval_on_selector_all(
        "table", "all => all.every(table => table.closest('[tabindex=\"0\"][role=region][aria-label]'))"
    )
    panel.locator(".values summary").press("Enter")


def contrast(some: list[float], other: list[float]) -> float:
    """As in WCAG 2, of two colours in red, green and blue up to 255."""

    def luminance(color: list[float]) -> float:
        linear = [c / 3294.6 if c <= 10.3 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in color]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    low, high = sorted((luminance(some), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_the_first_curve_is_on_the_first_screen_in_either_scheme(browser, results, report, scheme):
    with opened(browser, results / "report.html", "", 390, 844, color_scheme=scheme, has_touch=True) as viewer:
        page = viewer.page
        box = page.locator(f'.panel[data-task="{TASK}"] .plot').bounding_box()
        assert box["y"] + box["height"] <= 844
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        ground = page.evaluate("channels(getComputedStyle(document.body).backgroundColor)")
        assert (sum(ground) < 200) == (scheme == "dark")
        for trace in viewer.traces(TASK):
            assert contrast(page.evaluate("color => channels(color)", trace["line"]["color"]), ground) >= 4.5
        for text in (
            "#finding",
            "#summary",
            "#drawn",
            "a, #reading",
            ".legend button",
            ".values summary",
            "#choose > summary",
        ):
            ink = page.evaluate("place => channels(getComputedStyle(document.querySelector(place)).color)", text)
            assert contrast(ink, ground) >= 4.5
        plot = page.evaluate("document.querySelector('.plot')._fullLayout.paper_bgcolor")
        assert page.evaluate("color => channels(color)", plot) == ground
        assert not page.locator("#methods").is_visible()  # until asked for
        page.click("#choose > summary")
        page.click("#methods .only >> text=Noisy")
        assert viewer.methods(TASK) == {"noisy"}
