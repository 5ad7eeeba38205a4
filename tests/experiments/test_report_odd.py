"""The report's page of results that are unlike those of a published figure, in a browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from page_support import Viewer, browsing, opened
from run_support import go

from experiments.report import main
from plots.runs.find import find
from plots.runs.read import Run

TASK = "logreg/breast_cancer"
LABEL = "<i>%{y}</i> & " + "a" * 300


def relabel(run: Run) -> None:
    config = run.config
    config["algorithm"]["display"]["label"] = LABEL
    (run.folder / "config.yaml").write_text(yaml.safe_dump(config))


def double_bits(run: Run) -> None:
    file = run.folder / "metrics.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(row | {"bits": 2 * row["bits"]}) + "\n" for row in rows))


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    """A method without compression and with a name of its own, and one whose seeds did not send the same bits."""
    place = tmp_path_factory.mktemp("odd")
    common = (f"task={TASK}", "rounds=12", "eval_every=3", "cluster.workers=2", "threads=1", f"results_dir={place}")
    go("algorithm=amsgrad", "lr=[0.01,0.1]", *common)
    for seed in (0, 1):
        go("algorithm=cd_adam", f"seed={seed}", *common)
    for run in find(place):
        if run.algorithm == "amsgrad":
            relabel(run)
        elif run.config["seed"] == 1:
            double_bits(run)
    main([f"results_dir={place}"])
    return place / "report.html"


@pytest.fixture(scope="module")
def browser() -> Iterator:
    with browsing() as browser:
        yield browser


@pytest.fixture
def viewer(browser, page) -> Iterator[Viewer]:
    viewer = opened(browser, page)
    yield viewer
    assert (viewer.asked, viewer.complaints) == ([], [])
    viewer.page.close()


def test_every_metric_can_be_chosen_with_the_bits_to_reach_it(viewer):
    options = viewer.page.eval_on_selector_all("#y option", "options => options.map(o => [o.value, o.textContent])")
    assert "aggregate_error" in dict(options)  # which is 0 without compression
    viewer.page.uncheck("#methods input[value=cd_adam]")
    for show in ("the uncompressed alone", "both"):
        viewer.page.set_checked("#methods input[value=cd_adam]", show == "both")
        for value, label in options:
            viewer.page.select_option("#y", value)
            assert viewer.page.text_content("#targets-title") == f"Bits to reach a {label}"
            assert viewer.page.evaluate("[document.getElementById('targets').children.length]") == [1]
    viewer.page.select_option("#y", "second_moment")  # which grows
    assert viewer.page.text_content("#targets").endswith("no level lies between start and best")


def test_seeds_that_sent_other_bits_have_no_mean_over_bits(viewer):
    assert {trace["meta"]["method"] for trace in viewer.traces(TASK)} == {"amsgrad"}
    assert "Not drawn: CD-Adam, whose seeds were not evaluated at the same" in viewer.page.text_content(
        ".panel .note"
    )
    for x in ("round", "seconds"):
        viewer.page.select_option("#x", x)
        assert "cd_adam" in {trace["meta"]["method"] for trace in viewer.traces(TASK)}
    viewer.show(seeds="1")
    assert "cd_adam" in {trace["meta"]["method"] for trace in viewer.traces(TASK)}
    assert "Not drawn" not in viewer.page.text_content(".panel .note")


def test_where_no_step_size_is_best_each_is_drawn(viewer):
    lines = viewer.page.evaluate(
        "() => linesOf({ ...data.tasks[0], best: {} }, read()).map(({ method, lr }) => [method.name, lr])"
    )
    assert sorted(map(tuple, lines)) == [("amsgrad", 0.01), ("amsgrad", 0.1), ("cd_adam", 0.001)]


def test_long_names_are_shown_as_they_are_and_do_not_widen_the_page(viewer):
    viewer.page.evaluate(
        """() => { const plot = document.querySelector(".plot");
            const curve = plot.data.findIndex(trace => trace.meta.kind === "line");
            Plotly.Fx.hover(plot, [{ curveNumber: curve, pointNumber: 1 }]); }"""
    )
    viewer.page.wait_for_selector(".hoverlayer .hovertext")
    assert LABEL in viewer.page.text_content(".hoverlayer .hovertext")
    for width in (1366, 700):
        viewer.page.set_viewport_size({"width": width, "height": 900})
        viewer.page.reload()
        assert viewer.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_page_of_no_runs_says_how_to_start_some(browser, tmp_path, capsys):
    main([f"results_dir={tmp_path}", f"out={tmp_path / 'page.html'}"])
    assert "0 runs" in capsys.readouterr().out
    viewer = opened(browser, tmp_path / "page.html")
    assert "No runs yet" in viewer.page.text_content("#summary")
    assert "python -m experiments.reproduce figure=demo" in viewer.page.text_content("#content")
    assert (viewer.asked, viewer.complaints) == ([], [])
    viewer.page.close()
