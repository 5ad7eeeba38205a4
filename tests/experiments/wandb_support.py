"""What tests of wandb share: no login, a stand-in for the package, a server of its kind, and the names in it."""

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace

import pytest

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
"""The name in wandb of each column of metrics.jsonl."""


def expected(rows: list[dict], trial: int = 0) -> list[dict]:
    """A trial's rows of metrics.jsonl under wandb's names."""
    return [
        {NAMES[column]: row[column] for column in row.keys() & NAMES.keys()} for row in rows if row["trial"] == trial
    ]


class Curve:
    """A run of the stand-in: what it was told."""

    url, starting_step = None, 0

    def __init__(self, **told: object) -> None:
        self.told, self.id = told, told["id"]
        self.rows: list[dict] = []
        self.summary: dict = {}
        self.step_of: dict = {}
        self.exit_code: int | None = None

    def define_metric(self, name: str, step_metric: str | None = None) -> None:
        self.step_of[name] = step_metric

    def log(self, row: dict) -> None:
        self.rows.append(row)

    def finish(self, exit_code: int) -> None:
        self.exit_code = exit_code


class StandIn(ModuleType):
    """The package wandb without a service process or a network. `curves` are the runs that were begun."""

    Error, Settings = RuntimeError, dict

    def __init__(self) -> None:
        super().__init__("wandb")
        self.__spec__ = find_spec("wandb")
        self.curves: list[Curve] = []

    def setup(self, settings: dict) -> SimpleNamespace:
        return SimpleNamespace(settings=SimpleNamespace(mode=os.environ.get("WANDB_MODE", "online")))

    def login(self, **options: object) -> bool:
        return "WANDB_API_KEY" in os.environ

    def init(self, **told: object) -> Curve:
        if told["mode"] == "online":
            raise RuntimeError("no network")
        self.curves.append(Curve(**told))
        return self.curves[-1]

    def teardown(self) -> None:
        self.curves.clear()


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> Iterator[pytest.MonkeyPatch]:
    """Nobody is logged in, whoever runs the tests, and wandb is offline unless the test says otherwise."""
    for name in [*os.environ]:
        if name.startswith("WANDB_") or name == "NETRC":
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", f"{tmp_path}/home")
    monkeypatch.setenv("WANDB_MODE", "offline")
    yield monkeypatch
    if wandb := sys.modules.get("wandb"):  # whose settings are those of the process
        wandb.teardown()


@pytest.fixture
def stand_in(nobody: pytest.MonkeyPatch) -> StandIn:
    """The stand-in in the place of wandb."""
    wandb = StandIn()
    nobody.setitem(sys.modules, "wandb", wandb)
    return wandb


KEY = "0" * 40
"""An API key of valid form."""
