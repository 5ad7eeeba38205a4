"""A grid of step sizes that is extended: what is done is not done again, and its numbers are those of the whole."""

from pathlib import Path

import pytest
from run_support import RANDOM, SMALL, configuration, go, rows, where

from experiments.orchestration.extend import parts
from experiments.run import main as run
from plots.runs.find import find
from plots.runs.results import results as table_of

RANDOM_ONES = tuple(word for word in RANDOM if not word.startswith("lr="))
SAME = ["lr", "round", "bits", "bits_up", "train_loss", "grad_norm", "aggregate_error"]


@pytest.fixture
def results(tmp_path: Path) -> str:
    return f"results_dir={tmp_path}"


def grids(*overrides: str) -> list[tuple[float, ...]]:
    return [part.lr for part in parts(configuration(*SMALL, *overrides))]


def test_what_is_missing_is_a_run_of_its_own(results: str) -> None:
    assert grids("lr=[0.1,0.3]", results) == [(0.1, 0.3)]
    go(*SMALL, "lr=[0.1,0.3]", results)
    assert grids("lr=[0.03,0.1,0.3,1.0]", results) == [(0.1, 0.3), (0.03, 1.0)]
    assert grids("lr=[0.1,0.3]", results) == [(0.1, 0.3)]
    assert grids("lr=[0.1,1.0]", results) == [(0.1, 1.0)]  # what is done has a step size that was not asked for
    go(*SMALL, "lr=[0.03,1.0]", results)
    assert grids("lr=[0.03,0.1,0.3,1.0]", results) == [(0.03, 1.0), (0.1, 0.3)]


@pytest.mark.parametrize(
    ("other", "counts"),
    [
        ("seed=1", False),
        ("rounds=25", False),
        ("cluster.workers=5", False),
        ("study=mine", True),
        ("threads=1", True),
    ],
)
def test_a_run_with_other_numbers_counts_for_nothing(results: str, other: str, counts: bool) -> None:
    go(*SMALL, "lr=0.1", other, results)
    assert grids("lr=[0.1,0.3]", results) == ([(0.1,), (0.3,)] if counts else [(0.1, 0.3)])


def test_one_that_is_not_finished_counts_for_nothing(results: str) -> None:
    path = go(*SMALL, "lr=0.1", results)
    (path / "status.json").unlink()
    assert grids("lr=[0.1,0.3]", results) == [(0.1, 0.3)]


def test_a_run_that_was_begun_is_not_divided(results: str) -> None:
    go(*SMALL, "lr=0.1", results)
    where(*SMALL, "lr=[0.1,0.3]", results).mkdir()
    assert grids("lr=[0.1,0.3]", results) == [(0.1, 0.3)]


@pytest.mark.parametrize("settings", [("algorithm=cd_adam",), RANDOM_ONES], ids=["exact", "random"])
def test_the_numbers_are_those_of_the_whole_grid(results: str, tmp_path: Path, settings: tuple[str, ...]) -> None:
    first = [*SMALL, *settings, results]
    run([*first, "lr=[0.01,0.1]"])
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("metrics.jsonl")}
    run([*first, "lr=[0.01,0.03,0.1]"])
    assert {path: path.stat().st_mtime_ns for path in before} == before
    extended = table_of(find(tmp_path))
    assert len(extended["run"].unique()) == 2
    whole = rows(go(*SMALL, *settings, "lr=[0.01,0.03,0.1]", f"results_dir={tmp_path / 'whole'}"))
    extended = extended.sort_values(["round", "lr"])
    for name in SAME:
        found = [row.get(name) for row in whole]
        wanted = [float("nan") if value is None else value for value in found]
        # What is measured is a product with all trials at once, which may round otherwise in its last bit.
        exact = name in ("lr", "round", "bits", "bits_up")
        assert extended[name].tolist() == pytest.approx(wanted, rel=0 if exact else 1e-14, abs=0, nan_ok=True), name


@pytest.mark.slow
def test_the_plan_and_the_command_say_what_is_done(results: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = go(*SMALL, "lr=[0.1,0.3]", results)
    run([*SMALL, "lr=[0.1,0.3,1.0]", results, "dry_run=true"])
    said = capsys.readouterr()
    assert f"lr=[0.1, 0.3]: done in {path}" in said.err
    assert "2 runs, 1 of them to do" in said.out
    run([*SMALL, "lr=[0.1,0.3,1.0]", results])
    assert grids("lr=[0.1,0.3,1.0]", results) == [(0.1, 0.3), (1.0,)]


def test_no_step_size_is_taken_from_two_runs(results: str) -> None:
    go(*SMALL, "lr=[0.1,0.3]", results)
    where(*SMALL, "lr=[0.3,1.0]", results).mkdir()  # begun, so that it is not divided
    go(*SMALL, "lr=[0.3,1.0]", results)
    assert grids("lr=[0.1,0.3,1.0,3.0]", results) == [(0.1, 0.3), (1.0, 3.0)]
