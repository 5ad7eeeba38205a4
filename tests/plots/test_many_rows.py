"""What a run with many rows needs of memory, and that rows read one by one say what they say read at once."""

import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from folder_support import folder

from experiments.run_store.folder import RunFolder
from experiments.training.runner import summarise
from plots.runs.checksums import as_json
from plots.runs.columns import higher_is_better
from plots.runs.read import open_run, verified

LAST = 30_000  # the last round; there is a row every ten


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a megabyte of rows, of which status.json counts on the first half."""
    place = folder(tmp_path_factory.mktemp("results"), "long", rounds=LAST, status="interrupted")
    status = {"status": "interrupted", "time": "2026-01-01T00:00:00+00:00", "metrics_size": 500_000}
    (place / "status.json").write_bytes(as_json(status, "long"))
    return place


def summarized(place: Path) -> None:
    assert summarise(RunFolder(place).rows(), [0.1])["trials"][0]["final"]["round"] == LAST


def peak(act: Callable[[], object]) -> int:
    """The most bytes that Python held at a time."""
    act()  # what is imported and kept in any case
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("act", [summarized, open_run, verified])
def test_rows_are_never_all_in_memory(act: Callable[[Path], object], long: Path) -> None:
    assert peak(lambda: act(long)) < (long / "metrics.jsonl").stat().st_size / 4


@pytest.mark.parametrize("seed", range(5))
def test_a_summary_is_what_all_rows_say(seed: int) -> None:
    dice, lrs = random.Random(seed), [0.1, 0.2, 0.3]
    rows = [
        {"round": t, "trial": trial, "lr": lr, "bits": 8 * t, "payload_bytes": t, "seconds": t / 10,
         "train_loss": dice.choice([dice.random(), 0.0, -0.0]), "test_accuracy": dice.random(), "mine": dice.random(),
         **({"signal_error": dice.random()} if t else {})}
        for t in range(0, 100, 7) for trial, lr in enumerate(lrs)
    ]  # fmt: skip
    found = summarise(iter(rows), lrs)
    assert (found["bits"], found["payload_bytes"], found["seconds"]) == (784, 98, 9.8)
    for trial, lr in enumerate(lrs):
        mine, said = [row for row in rows if row["trial"] == trial], found["trials"][trial]
        assert (said["lr"], said["final"]) == (lr, mine[-1])
        assert said["ends_above_its_start"] == (mine[-1]["train_loss"] > mine[0]["train_loss"])
        assert list(said["best"]) == ["train_loss", "test_accuracy", "mine"]
        for name, value in said["best"].items():
            assert repr(value) == repr((max if higher_is_better(name) else min)(row[name] for row in mine))
