"""What the tests of wandb import from each other: no login, a stand-in for it, and how to read what that was told."""

import json
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from experiments.loggers import mirror

STAND_INS = Path(__file__).with_name("stand_ins")

NAMES = {
    "bits": "comm/bits",
    "bits_up": "comm/bits_up",
    "bits_down": "comm/bits_down",
    "payload_bytes": "comm/payload_bytes",
    "round": "progress/round",
    "epoch": "progress/epoch",
    "seconds": "time/seconds",
    "train_loss": "loss/train",
    "test_loss": "loss/test",
    "train_accuracy": "accuracy/train",
    "test_accuracy": "accuracy/test",
    "grad_norm": "gradient/norm",
    "mean_norm": "compression/mean_norm",
    "aggregate_error": "compression/aggregate_error",
    "signal_error": "compression/signal_error",
    "second_moment": "compression/second_moment",
}
"""What a user finds in wandb for each column of metrics.jsonl."""


def curves(folder: Path) -> list[SimpleNamespace]:
    """What the stand-in was told of the curves of a run, by id: `told`, `rows`, `step_of`, `summary`, `exit_code`."""
    return [SimpleNamespace(**json.loads(file.read_text())) for file in sorted(folder.glob("wandb/*.json"))]


def expected(rows: list[dict], trial: int = 0) -> list[dict]:
    """A trial's rows of metrics.jsonl under wandb's names."""
    return [
        {NAMES[column]: row[column] for column in row.keys() & NAMES.keys()} for row in rows if row["trial"] == trial
    ]


def logged(rows: list[dict]) -> list[dict]:
    """Rows that a server has, without what wandb adds itself; its steps must count them."""
    assert [row["_step"] for row in rows] == list(range(len(rows)))
    return [{name: value for name, value in row.items() if not name.startswith("_")} for row in rows]


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    """Nobody is logged in, whoever runs the tests, and wandb is offline unless the test says otherwise."""
    for name in [*os.environ]:
        if name.startswith("WANDB_") or name == "NETRC":
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WANDB_MODE", "offline")
    yield monkeypatch
    if wandb := sys.modules.get("wandb"):  # whose settings are those of the process
        wandb.teardown()


@pytest.fixture
def stand_in(nobody: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """wandb is the stand-in, in this process and in those that it starts."""
    nobody.syspath_prepend(STAND_INS)
    nobody.delitem(sys.modules, "wandb")
    nobody.setattr(mirror, "wandb", import_module("wandb"))
    nobody.setenv("PYTHONPATH", str(STAND_INS))
    return nobody


def to_send(path: Path) -> str:
    """How to send a run that was mirrored offline."""
    return f"to send it: python -m experiments.upload {path} (once: wandb sync {path}/wandb/offline-run-*)"
