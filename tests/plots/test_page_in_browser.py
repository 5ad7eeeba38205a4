"""The page of `python -m experiments.report` in a browser that is cut off from the network."""

import csv
import io
import json
from collections.abc import Iterator
from itertools import cycle, product
from pathlib import Path
from statistics import geometric_mean, mean
from urllib.parse import unquote, urlsplit

import pandas as pd
import pytest
from curve_support import claim
from folder_support import change, folder
from page_support import Viewer, browser, opened

from experiments.report import main
from plots.claims.claims import judge
from plots.runs.best import mark_best
from plots.runs.find import find
from plots.runs.levels import bits_to_reach
from plots.runs.network import FORMS, Network, is_uncompressed, modelled_seconds
from plots.runs.variants import distinguish, latest, variant_rows

__all__ = ["browser"]

FIRST, SECOND = "group/first", "second"
METHODS = {"plain": (0.001, 0.003, 0.01), "noisy": (0.01, 0.03)}
CLAIM = claim("4", "Plain is as low as noisy, to a factor", "reaches_level", subject="plain",
              reference="noisy", within=2.0)  # fmt: skip

TASK = "a/first"
OTHERS = ("b", "c", "d", "e", "f")
HOSTILE = '"><img src=x onerror=alert(1)>'
FASTER = {"plain": 0.03, "noisy": 0.02}
SCHEMES = {"light": "color", "dark": "dark"}


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
    variants = latest(distinguish(find(place)))
    return variant_rows([variant for variant in variants if variant.run.task == task])


def of(results: Path, algorithm: str, task: str, lr: float) -> list[list[dict]]:
    """The rows of the runs with seeds 0 and 1, as they lie on disk."""
    files = [results / task / algorithm / seed / "metrics.jsonl" for seed in "01"]
    return [[row for row in map(json.loads, file.read_text().splitlines()) if row["lr"] == lr] for file in files]


def test_lines_are_drawn_with_their_colours(viewer):
    assert viewer.page.title() == "Results"  # of two tasks, each with a finding of its own
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
    assert viewer.page.locator("#methods .only > span").all_text_contents() == ["Noisy", "Plain"]


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
            return overSeeds([seed(1), seed(2)], "bits", "y", true, true, null).map(({ x }) => x);
        }"""
    )
    assert places == [120, 240]


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


def test_the_axis_can_be_switched(viewer, results):
    for axis, title in (("round", "rounds"), ("epoch", "epochs"), ("seconds", "seconds of training")):
        viewer.page.select_option("#x", axis)
        assert viewer.titles(FIRST)[0] == title
        line = viewer.line(FIRST, "plain")
        seeds = of(results, "plain", FIRST, line["lr"])
        assert line["x"] == pytest.approx([mean(row[axis] for row in pair) for pair in zip(*seeds, strict=True)])
        assert line["x"][0] == 0  # which a linear axis has a place for
    viewer.page.check("#logx")
    assert min(viewer.line(FIRST, "plain")["x"]) > 0


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
            """rows => rows.map(row => [row.querySelector("th span").childNodes[1].data.trim(),
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


def test_modelled_seconds_are_those_of_python(viewer, results):
    viewer.page.select_option("#x", "modelled_seconds")
    viewer.page.fill("#bandwidth", "0.25")
    viewer.page.fill("#latency", "3.5")
    for topology, (overlap, computing) in zip(FORMS, cycle(product((True, False), ("", "40"))), strict=False):
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
    viewer.page.fill("#levels", "0.6 0.5")
    with opened(browser, results / "report.html", viewer.page.evaluate("location.hash")) as other:
        assert other.page.evaluate("read()") == viewer.page.evaluate("read()")
        assert other.traces(SECOND) == viewer.traces(SECOND)


def test_controls_have_labels_and_work_from_the_keyboard(viewer):
    unlabelled = "fields => fields.filter(field => !field.labels.length && !field.ariaLabel).map(field => field.id)"
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


# a study, in which one chooses


@pytest.fixture(scope="module")
def study_runs(tmp_path_factory) -> Path:
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
def study_report(browser, study_runs) -> Iterator[Viewer]:
    main([f"results_dir={study_runs}"])
    with opened(browser, study_runs / "report.html") as viewer:
        viewer.page.set_default_timeout(10_000)
        yield viewer


@pytest.fixture
def study(study_report) -> Iterator[Viewer]:
    """The page as it is at first."""
    study_report.show()
    yield study_report
    assert study_report.is_quiet()


def curves(study: Viewer, task: str = TASK) -> set[str]:
    """The names of the curves in a panel."""
    return {trace["curve"] for trace in study.traces(task)}


ALL = {f"{method}, rounds={rounds}, task.batch_size={batch}" for method, rounds, batch in
       product(FASTER, (100, 200), (8, 16))}  # fmt: skip


def test_a_method_has_one_entry_and_settings_are_filters(study):
    entries = """legend => [legend.textContent,
        [...legend.parentElement.querySelectorAll('.only > span')].map(name => name.textContent)]"""
    fields = dict(study.page.eval_on_selector_all("#choose legend", f"all => all.map({entries})"))
    assert fields["Methods"] == ["Noisy", "Plain"]
    assert (fields["rounds"], fields["task.batch_size"]) == (["100", "200"], ["8", "16"])
    assert curves(study) == ALL
    study.page.uncheck("[id='with.task.batch_size'] input[value='8']")
    assert curves(study) == {name for name in ALL if name.endswith("=16")}
    assert len(study.traces("b")) == 1  # which has no such setting
    rows = study.page.locator(f'#targets [data-task="{TASK}"] tbody th').all_text_contents()
    assert sorted(row[1:].strip().lower() for row in rows) == sorted(name for name in ALL if name.endswith("=16"))


def test_a_click_on_a_name_isolates_and_a_double_click_shows_all(study):
    page = study.page
    page.click("#methods .only >> text=Plain")
    assert curves(study) == {name for name in ALL if name.startswith("plain")}
    page.dblclick("#methods .only >> text=Plain")
    assert curves(study) == ALL
    legend = page.locator(f'.panel[data-task="{TASK}"] .legend button')
    one = legend.get_by_text("Noisy, rounds=200, task.batch_size=8")
    one.click()
    assert curves(study) == {"noisy, rounds=200, task.batch_size=8"}
    pressed = {entry.get_attribute("value"): entry.get_attribute("aria-pressed") for entry in legend.all()}
    assert pressed == {name: str(name in curves(study)).lower() for name in ALL}
    one.dblclick()
    assert curves(study) == ALL
    assert page.evaluate("location.hash") == ""


def test_the_filter_is_words_that_a_run_has_all_of(study):
    study.page.fill("#filter", "PLAIN batch_size=16")
    assert curves(study) == {name for name in ALL if name.startswith("plain") and name.endswith("=16")}
    study.page.fill("#filter", "no such run")
    assert curves(study) == set()
    assert study.text("#drawn").startswith("Drawn: 0 of 6 tasks")


def test_of_every_method_those_that_end_best_are_drawn(study):
    """Of 43 lines of one method, the later the better, and three of another that all end worse."""
    kept = study.page.evaluate(
        """() => {
            const line = (method, end) => ({ curve: { method }, points: [{ mean: end }] });
            const lines = [...Array(43).keys()].map(i => line("plain", 1 - i / 100));
            return mostTelling([...lines, ...[2, 3, 4].map(end => line("noisy", end))], "grad_norm")
                .map(({ curve, points }) => [curve.method, points[0].mean]);
        }"""
    )
    assert [method for method, _ in kept] == ["plain"] * 37 + ["noisy"] * 3
    assert max(end for method, end in kept if method == "plain") == pytest.approx(1 - 6 / 100)


def test_back_undoes_a_choice(study):
    page = study.page
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
    assert curves(study) == {name for name in ALL if name.startswith("noisy, rounds=200")}


def test_runs_can_be_sorted_and_lead_to_their_folders(study, study_runs):
    page = study.page
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


def test_a_panel_can_be_taken_along_as_csv(study, study_runs):
    with study.page.expect_download() as begun:
        study.page.click(f'.panel[data-task="{TASK}"] .csv')
    assert begun.value.suggested_filename == "grad_norm a first.csv"
    table = pd.read_csv(begun.value.path())
    drawn = {trace["curve"]: trace for trace in study.traces(TASK)}
    assert len(drawn) == 8
    for name, trace in drawn.items():
        method, rounds, batch = (part.rpartition("=")[2] for part in name.split(", "))
        rows = table[
            (table["method"] == method) & (table["rounds"] == int(rounds)) & (table["task.batch_size"] == int(batch))
        ]
        assert rows["lr"].unique().tolist() == [trace["lr"]]
        assert rows["grad_norm"].tolist() == trace["y"]
        assert rows["x: bits"].tolist() == trace["x"]
        assert rows["round"].tolist() == list(range(10, int(rounds) + 1, 10))  # no bits have no place on this axis


def test_text_of_a_run_is_neither_markup_nor_a_formula(study):
    assert study.page.locator("img").count() == 0
    assert set(study.page.locator("[id='with.note'] .only").all_text_contents()) == {HOSTILE, "=2+3"}
    study.show(tasks="f")
    with study.page.expect_download() as begun:
        study.page.click(".csv")
    text = Path(begun.value.path()).read_text()
    notes = {row["note"] for row in csv.DictReader(io.StringIO(text))}
    assert notes == {HOSTILE, "'=2+3"}


def test_title_and_first_line_say_the_study_and_what_was_found(study, study_runs):
    variants = [variant for variant in latest(distinguish(find(study_runs))) if variant.run.task == TASK]
    frame = variant_rows(variants)
    found = bits_to_reach(frame, "grad_norm", [0.001, 1e-4]).dropna()
    assert set(found["level"]) == {0.001, 1e-4}  # of which plain alone reached the harder one
    assert set(found[found["level"] == 1e-4]["algorithm"].str.partition(",")[0]) == {"plain"}
    found = found.assign(method=found["algorithm"].str.partition(",")[0])[found["level"] == 0.001]
    found = found.groupby("method")["bits"].min()
    assert set(found.index) == {"noisy", "plain"}
    assert study.page.title() == f"mine: Plain: {found['noisy'] / found['plain']:.3g}× fewer bits than Noisy"
    assert study.text("h1") == "mine"
    line = study.text("#finding")
    assert f"{found['plain'] / 1000:.3g} kbit to a gradient norm of 0.001" in line
    assert f"{found['noisy'] / found['plain']:.3g}× fewer bits than Noisy" in line


@pytest.mark.parametrize("scheme", SCHEMES)
def test_on_a_phone_the_first_curve_is_on_the_first_screen_in_either_scheme(
    browser, study_runs, study_report, scheme
):
    with opened(browser, study_runs / "report.html", "", 390, 844, color_scheme=scheme, has_touch=True) as study:
        page = study.page
        box = page.locator(f'.panel[data-task="{TASK}"] .plot').bounding_box()
        assert box["y"] + box["height"] <= 844
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 29)"}[scheme]
        color = page.evaluate("color => data.methods.find(({ name }) => name === 'noisy')[color]", SCHEMES[scheme])
        assert {line["line"]["color"] for line in study.traces(TASK) if line["method"] == "noisy"} == {color}
        plot = page.evaluate("document.querySelector('.plot')._fullLayout.paper_bgcolor")
        assert plot == {"light": "#ffffff", "dark": "#14181d"}[scheme]
        assert not page.locator("#methods").is_visible()  # until asked for
        page.click("#choose > summary")
        page.click("#methods .only >> text=Noisy")
        assert study.methods(TASK) == {"noisy"}
