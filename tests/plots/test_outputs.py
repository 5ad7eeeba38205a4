"""What report and plot write, by the ending of out=."""

import csv
from pathlib import Path

import pandas as pd
import pytest
from folder_support import folder

from common import tables
from experiments import report
from plots import plot
from plots.runs.find import find
from plots.runs.results import results as table_of


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two step sizes and two seeds of one method with a setting that differs, and another method."""
    place = tmp_path / "results"
    for ratio in (25, 5):
        for seed in (0, 1):
            folder(place, f"r{ratio}{seed}", seed=seed, lrs=(0.1, 0.2), compressor__ratio=ratio / 100, study="mine")
    folder(place, "other", algorithm="noisy", lrs=(0.1,))
    return place


@pytest.mark.parametrize(
    ("ending", "begin"), [(".html", b"<!doctype html>"), (".tex", b"% needs \\usepackage{booktabs}")]
)
def test_the_ending_says_what_is_written(results, tmp_path, ending, begin):
    report.main([f"results_dir={results}", f"out={tmp_path / 'it'}{ending}"])
    assert (tmp_path / f"it{ending}").read_bytes().startswith(begin)


def test_no_page_is_written_through_a_link_in_the_results(results, tmp_path, capsys):
    outside, link = tmp_path / "outside", results / "report.html"
    outside.write_text("mine")
    link.symlink_to(outside)
    with pytest.raises(SystemExit, match="2"):
        report.main([f"results_dir={results}"])
    assert f"error: {link}: a link, " in capsys.readouterr().err
    assert outside.read_text() == "mine"
    report.main([f"results_dir={results}", f"out={link}"])
    assert outside.read_text().startswith("<!doctype html>")


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
    looks = {"label", "color", "marker", "task_label", "selected_by"}
    assert set(read) == {*whole, "modelled_seconds"} - looks
    for name in ("grad_norm", "compressor.ratio", "lr", "bits"):
        pd.testing.assert_series_equal(read[name], whole[name], check_index_type=False)


def test_beside_a_picture_lie_its_curves(results, tmp_path, capsys):
    plot.main([f"results_dir={results}", "algorithm=plain", f"out={tmp_path / 'it.svg'}"])
    assert (tmp_path / "it.svg").read_text().startswith("<?xml")
    rows = pd.read_csv(tmp_path / "it.csv")
    assert set(rows["lr"]) == {0.2}  # the best
    assert set(rows["algorithm"]) == {"plain, compressor.ratio=0.25", "plain, compressor.ratio=0.05"}
    assert len(rows) == 4 * 10  # round 0 has no place over bits
    assert "seeds 0, 1. Bits count what one worker sends and receives." in capsys.readouterr().out
