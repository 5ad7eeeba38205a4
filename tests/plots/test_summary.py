"""A run's summary, made row by row, says what all rows say."""

import random

import pytest

from experiments.training.runner import summarise
from plots.runs.columns import higher_is_better


@pytest.mark.parametrize("seed", range(3))
def test_a_summary_is_what_all_rows_say(seed: int) -> None:
    dice, lrs = random.Random(seed), [0.1, 0.2, 0.3]
    rows = [
        {"round": t, "trial": trial, "lr": lr, "bits": 8 * t, "payload_bytes": t, "seconds": t / 10,
         "train_loss": dice.choice([dice.random(), 0.0, -0.0]), "test_accuracy": dice.random(),
         "undeclared": dice.random(),
         **({"signal_error": dice.random()} if t else {})}
        for t in range(0, 100, 7) for trial, lr in enumerate(lrs)
    ]  # fmt: skip
    found = summarise(iter(rows), lrs)
    assert (found["bits"], found["payload_bytes"], found["seconds"]) == (784, 98, 9.8)
    for trial, lr in enumerate(lrs):
        mine, said = [row for row in rows if row["trial"] == trial], found["trials"][trial]
        assert (said["lr"], said["final"]) == (lr, mine[-1])
        assert said["ends_above_its_start"] == (mine[-1]["train_loss"] > mine[0]["train_loss"])
        assert list(said["best"]) == ["train_loss", "test_accuracy"]
        for name, value in said["best"].items():
            assert repr(value) == repr((max if higher_is_better(name) else min)(row[name] for row in mine))
