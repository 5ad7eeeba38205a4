"""Shared by the tests of wandb: no login, a stand-in for the package, and the names of columns."""

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace

import pytest

GROUPS = {
    "comm": ("bits", "bits_up", "bits_down", "payload_bytes"),
    "progress": ("round", "epoch"),
    "time": ("seconds",),
    "compression": ("mean_norm", "aggregate_error", "signal_error", "second_moment"),
}
NAMES = {column: f"{group}/{column}" for group, columns in GROUPS.items() for column in columns}
NAMES |= {f"{part}_{what}": f"{what}/{part}" for part in ("train", "test") for what in ("loss", "accuracy")}
NAMES["grad_norm"] = "gradient/norm"
"""The name in wandb of each column of metrics.jsonl."""


def expected(rows: list[dict], trial: int = 0) -> list[dict]:
    """A trial's rows of metrics.jsonl under wandb's names."""
    mine = [row for row in rows if row["trial"] == trial]
    return [{NAMES[column]: row[column] for column in row.keys() & NAMES.keys()} for row in mine]


class Curve:
    """A run of the stand-in, with the arguments of its calls."""

    url = None

    def __init__(self, starting_step: int, **told: object) -> None:
        self.starting_step, self.told, self.id = starting_step, told, told["id"]
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
    """The package wandb without a service process or network. `curves` are the started runs."""

    Error, Settings, has_network = RuntimeError, dict, False

    def __init__(self) -> None:
        super().__init__("wandb")
        self.__spec__ = find_spec("wandb")
        self.curves: list[Curve] = []

    def setup(self, settings: dict) -> SimpleNamespace:
        return SimpleNamespace(settings=SimpleNamespace(mode=os.environ.get("WANDB_MODE", "online")))

    def login(self, **options: object) -> bool:
        return "WANDB_API_KEY" in os.environ

    def init(self, **told: object) -> Curve:
        is_online = told["mode"] == "online"
        if is_online and not self.has_network:
            raise RuntimeError("no network")
        known = sum(len(curve.rows) for curve in self.curves if is_online and curve.id == told["id"])
        self.curves.append(Curve(known, **told))
        return self.curves[-1]

    def teardown(self) -> None:
        self.curves.clear()


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> Iterator[pytest.MonkeyPatch]:
    """Log out whoever runs the tests, and set wandb offline."""
    for name in [*os.environ]:
        if name.startswith("WANDB_") or name == "NETRC":
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", f"{tmp_path}/home")
    monkeypatch.setenv("WANDB_MODE", "offline")
    yield monkeypatch
    if wandb := sys.modules.get("wandb"):  # its settings belong to the process
        wandb.teardown()


@pytest.fixture
def stand_in(nobody: pytest.MonkeyPatch) -> StandIn:
    """Replace wandb by the stand-in."""
    wandb = StandIn()
    nobody.setitem(sys.modules, "wandb", wandb)
    return wandb
