"""What the tests of wandb import from each other: no login, and how to read the files that it leaves."""

from __future__ import annotations

import json
import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from wandb.proto import wandb_internal_pb2 as protocol

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
    "aggregate_error": "compression/aggregate_error",
    "signal_error": "compression/signal_error",
    "second_moment": "compression/second_moment",
}
"""What a user finds in wandb for each column of metrics.jsonl."""

BLOCK = 32768  # bytes, of a log as LevelDB defines it


def records(file: Path) -> Iterator[protocol.Record]:
    """What a .wandb file holds: seven bytes of its own, then blocks of pieces, each behind a checksum, its length and
    whether it is a whole record, or the first, a middle or the last piece of one."""
    content = file.read_bytes()
    assert content.startswith(b":W&B")
    position, message = 7, b""
    while position + 7 <= len(content):
        if BLOCK - position % BLOCK < 7:
            position += BLOCK - position % BLOCK
            continue
        _, length, kind = struct.unpack("<IHB", content[position : position + 7])
        message += content[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):
            record = protocol.Record()
            record.ParseFromString(message)
            yield record
            message = b""


def values(items: object) -> dict:
    """Names and values of a record's items; a nested name is the path to it."""
    return {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in items}


class Segment:
    """One .wandb file: what is known of its run, and the rows, definitions and summary in it."""

    def __init__(self, file: Path) -> None:
        self.file, self.rows, self.summary, self.step_of = file, [], {}, {}
        self.exit_code = None
        for record in records(file):
            kind = record.WhichOneof("record_type")
            if kind == "run":
                self.run, self.config = record.run, values(record.run.config.update)
            elif kind == "history":
                self.rows.append(values(record.history.item))
            elif kind == "summary":
                self.summary |= values(record.summary.update)
            elif kind == "metric":
                self.step_of[record.metric.name or record.metric.glob_name] = record.metric.step_metric
            elif kind == "exit":
                self.exit_code = record.exit.exit_code


def segments(folder: Path) -> list[Segment]:
    """Every .wandb file of a run's folder, by name."""
    return [Segment(file) for file in sorted(folder.glob("wandb/*/*.wandb"), key=lambda file: file.name)]


def expected(rows: list[dict], trial: int = 0) -> list[dict]:
    """A trial's rows of metrics.jsonl under wandb's names."""
    return [
        {NAMES[column]: row[column] for column in row.keys() & NAMES.keys()} for row in rows if row["trial"] == trial
    ]


def logged(rows: list[dict]) -> list[dict]:
    """Rows of wandb without what it adds itself; its steps must count them."""
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
    if "wandb" in sys.modules:  # whose settings are those of the process
        import wandb

        wandb.teardown()


def to_send(path: Path) -> str:
    """How to send a run that was mirrored offline."""
    return f"to send it: python -m experiments.upload {path} (once: wandb sync {path}/wandb/offline-run-*)"
