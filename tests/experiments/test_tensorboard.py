"""Runs written for TensorBoard, read back by its own reader."""

from pathlib import Path

import pytest
from run_support import SMALL, go, record, rows
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from wandb_support import NAMES

from experiments import check
from experiments.loggers import tensorboard_logger
from experiments.loggers.tensorboard_logger import TensorboardLogger

WRITTEN = (*SMALL, "logger=tensorboard")


def curve(folder: Path) -> dict[str, list[tuple[int, float, float]]]:
    """Every scalar's (step, value, time) in a folder of event files."""
    reader = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    return {
        name: [(event.step, event.value, event.wall_time) for event in reader.Scalars(name)]
        for name in reader.Tags()["scalars"]
    }


def expected(written: list[dict], trial: int = 0) -> dict[str, list]:
    """What TensorBoard is to show of a trial's rows, whose values it keeps in float32."""
    found: dict[str, list] = {}
    for row in written:
        for column in row.keys() & NAMES.keys():
            if row["trial"] == trial and row[column] is not None:
                for prefix, axis in (("", "round"), ("bits/", "bits")):
                    point = (row[axis], pytest.approx(row[column], rel=1e-6), row["seconds"])
                    found.setdefault(prefix + NAMES[column], []).append(point)
    return found


def test_every_row_stands_over_rounds_and_over_bits(results: str) -> None:
    path = go(*WRITTEN, results)
    assert curve(path / "tensorboard") == expected(rows(path))
    check.main([str(path)])  # what lies beside a run's own files does not make it a damaged one


def test_a_curve_for_every_step_size(results: str) -> None:
    path = go(*WRITTEN, results, "lr=[0.1,0.01]")
    for trial, lr in enumerate(("0.1", "0.01")):
        assert curve(path / "tensorboard" / f"lr{lr}") == expected(rows(path), trial)


@pytest.mark.slow
def test_a_run_that_was_finished_without_it_is_written_whole(results: str) -> None:
    path = go(*SMALL, results)
    assert go(*WRITTEN, results) == path
    assert curve(path / "tensorboard") == expected(rows(path))


def test_a_fault_of_it_costs_a_line_and_nothing_else(
    results: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(folder: Path) -> None:
        raise OSError("no room")

    monkeypatch.setattr(tensorboard_logger, "open_run", broken)
    path = go(*WRITTEN, results)
    assert "tensorboard: incomplete (no room)" in capfd.readouterr().err
    assert record(path, "status")["status"] == "finished"


def test_without_the_package_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorboard_logger, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="pip install tensorboard"):
        TensorboardLogger()
