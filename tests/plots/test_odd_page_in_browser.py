"""The page of results that are unlike those of a published figure."""

from collections.abc import Iterator

import pytest
from folder_support import folder, rewrite
from page_support import Viewer, browser, opened

from experiments.report import main

__all__ = ["browser"]

LABEL = "<i>%{y}</i> & " + "a" * 300


@pytest.fixture(scope="module")
def odd_report(browser, tmp_path_factory) -> Iterator[Viewer]:
    """A method without compression and with a name of its own, and one whose seeds did not send the same bits."""
    place = tmp_path_factory.mktemp("odd")
    look = {"label": LABEL, "color": "#111111", "marker": "o"}
    path = folder(place, "a", lrs=(0.01, 0.1), algorithm__display=look)
    rewrite(path, lambda row: row | {"aggregate_error": 0.0, "second_moment": 1.0 + row["round"]})
    for seed in (0, 1):
        path = folder(place, str(seed), algorithm="noisy", seed=seed, lrs=(0.001,))
        rewrite(path, lambda row, times=1 + seed: row | {"aggregate_error": 1.0, "bits": times * row["bits"]})
    main([f"results_dir={place}"])
    with opened(browser, place / "report.html") as viewer:
        yield viewer


@pytest.fixture
def odd(odd_report) -> Iterator[Viewer]:
    odd_report.show()
    yield odd_report
    assert odd_report.is_quiet()


def test_every_metric_can_be_chosen_with_the_bits_to_reach_it(odd):
    options = odd.page.eval_on_selector_all("#y option", "options => options.map(o => [o.value, o.textContent])")
    assert "aggregate_error" in dict(options)  # which is 0 without compression
    for both in (False, True):
        odd.page.set_checked("#methods input[value=noisy]", both)
        for value, label in options:
            odd.page.select_option("#y", value)
            assert odd.text("#targets-title") == f"Bits to reach a {label}"
            assert odd.page.evaluate("document.getElementById('targets').children.length") == 1
    odd.page.select_option("#y", "second_moment")  # which grows
    assert odd.text("#targets").endswith("no level lies between start and best")


def test_seeds_that_sent_other_bits_have_no_mean_over_bits(odd):
    assert odd.methods("toy") == {"plain"}
    assert "Not drawn: Noisy, whose seeds were not evaluated at the same" in odd.text(".panel .note")
    for x in ("round", "seconds"):
        odd.page.select_option("#x", x)
        assert "noisy" in odd.methods("toy")
    odd.show(seeds="1")
    assert "noisy" in odd.methods("toy")
    assert "Not drawn" not in odd.text(".panel .note")


def test_where_no_step_size_is_best_each_is_drawn(odd):
    lines = odd.page.evaluate(
        "() => linesOf({ ...data.tasks[0], best: {} }, read()).map(({ curve, lr }) => [curve.name, lr])"
    )
    assert sorted(map(tuple, lines)) == [("noisy", 0.001), ("plain", 0.01), ("plain", 0.1)]


def test_long_names_are_shown_as_they_are_and_do_not_widen_the_page(odd):
    odd.page.evaluate(
        """() => { const plot = document.querySelector(".plot");
            const curve = plot.data.findIndex(trace => trace.meta.kind === "line");
            Plotly.Fx.hover(plot, [{ curveNumber: curve, pointNumber: 1 }]); }"""
    )
    odd.page.wait_for_selector(".hoverlayer .hovertext")
    assert LABEL in odd.text(".hoverlayer .hovertext")
    for width in (1366, 700):
        odd.page.set_viewport_size({"width": width, "height": 900})
        odd.page.reload()
        assert odd.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_page_of_no_runs_says_how_to_start_some(browser, tmp_path, capsys):
    main([f"results_dir={tmp_path}", f"out={tmp_path / 'page.html'}"])
    assert "0 runs" in capsys.readouterr().out
    with opened(browser, tmp_path / "page.html") as viewer:
        assert "No runs yet" in viewer.text("#summary")
        assert "python -m experiments.reproduce figure=demo" in viewer.text("#content")
