"""What report and plot write, by the ending of out=, and how a page is named."""

from pathlib import Path

import pandas as pd
import pytest
from folder_support import change, folder

from experiments import report
from plots import out, plot
from plots.runs.find import find
from plots.runs.results import results as table_of

COMMANDS = {"report": report.main, "plot": plot.main}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two step sizes and two seeds of one method with a setting that differs, and another method."""
    place = tmp_path / "results"
    for ratio in (25, 5):
        for seed in (0, 1):
            folder(place, f"r{ratio}{seed}", seed=seed, lrs=(0.1, 0.2), compressor__ratio=ratio / 100, study="mine")
    folder(place, "other", algorithm="noisy", lrs=(0.1,))
    return place


BEGINS = {
    ".html": b"<!doctype html>", ".pdf": b"%PDF", ".png": b"\x89PNG", ".svg": b"<?xml",
    ".jpg": b"\xff\xd8", ".csv": b"task,algorithm,", ".tex": b"% needs \\usepackage{booktabs}",
}  # fmt: skip


@pytest.mark.parametrize(
    ("command", "ending"),
    [
        ("report", ".html"),
        ("report", ".csv"),
        ("report", ".tex"),
        ("plot", ".pdf"),
        ("plot", ".svg"),
        ("plot", ".jpg"),
    ],
)
def test_the_ending_says_what_is_written(results, tmp_path, command, ending):
    target = tmp_path / f"it{ending}"
    COMMANDS[command]([f"results_dir={results}", f"out={target}"])
    assert target.read_bytes().lower().startswith(BEGINS[ending].lower())


def test_rows_are_those_of_load(results, tmp_path):
    report.main([f"results_dir={results}", f"out={tmp_path / 'rows.csv'}"])
    read, whole = pd.read_csv(tmp_path / "rows.csv"), table_of(find(results))
    assert set(read) == {*whole, "modelled_seconds"} - set(out.LOOKS)
    for name in ("grad_norm", "compressor.ratio", "lr", "bits"):
        pd.testing.assert_series_equal(read[name], whole[name], check_index_type=False)


def test_beside_a_picture_lie_its_curves_and_its_caption(results, tmp_path, capsys):
    plot.main([f"results_dir={results}", "algorithm=plain", f"out={tmp_path / 'it.png'}"])
    plot.main([f"results_dir={results}", "algorithm=plain", f"out={tmp_path / 'alone.csv'}"])
    rows = pd.read_csv(tmp_path / "it.csv")
    assert set(rows["lr"]) == {0.2}  # the best
    assert set(rows["algorithm"]) == {"plain, compressor.ratio=0.25", "plain, compressor.ratio=0.05"}
    assert len(rows) == 4 * 10  # round 0 has no place over bits
    assert len(pd.read_csv(tmp_path / "alone.csv")) == 4 * 11
    assert "Bits are those of one worker, both directions." in (tmp_path / "it.txt").read_text()


def test_a_page_is_named_after_what_it_shows(results, capsys):
    for request, name in (
        ([], "report.html"),
        (["study=mine"], "report-study=mine.html"),
        (["task=toy", "algorithm=plain,noisy", "seed=0"], "report-toy-plain,noisy-0.html"),
    ):
        report.main([f"results_dir={results}", *request])
        assert capsys.readouterr().out.endswith(f"{results / name}\n")
        assert (results / name).exists()


def test_another_ending_is_refused(results, capsys):
    with pytest.raises(SystemExit) as stop:
        report.main([f"results_dir={results}", "out=it.doc"])
    assert stop.value.code == 2
    assert "out=it.doc: no such kind of file; Valid: .html, .csv, .tex" in capsys.readouterr().err


def test_tasks_have_tables_of_what_they_select_by(results, tmp_path):
    path = folder(results, "image", task="image")
    change(path, "environment.json", lambda facts: facts | {"metric": "train_loss"})
    report.main([f"results_dir={results}", f"out={tmp_path / 'it.tex'}"])
    text = (tmp_path / "it.tex").read_text()
    assert "The gradient norm at the last" in text
    assert "The training loss at the last" in text
