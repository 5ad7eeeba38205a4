"""deterministic=true: what it asks of torch, and that it changes no number on a CPU."""

import os
from collections.abc import Iterator

import pytest
import torch
from run_support import SMALL, go, small, timeless

from experiments.config import identity
from experiments.training.trainer import Trainer

IMAGES = (
    "task=digits", "rounds=3", "eval_every=1", "cluster.workers=2", "device=cpu", "task.batch_size=8",
    "task.rows=64", "task.precision=float32",
)  # fmt: skip


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Torch's and the environment's settings are put back after each test."""
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    before = torch.backends.cudnn.benchmark
    yield
    torch.backends.cudnn.benchmark = before
    torch.use_deterministic_algorithms(False)
    os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)


@pytest.mark.parametrize("command", [SMALL, pytest.param(IMAGES, marks=pytest.mark.slow)], ids=["logreg", "images"])
def test_it_changes_no_number_on_a_cpu(command: tuple[str, ...], results: str) -> None:
    one, other = (timeless(go(*command, results, f"deterministic={value}")) for value in ("false", "true"))
    assert one == other
    assert len(one) > 2


def test_it_is_asked_of_torch_while_its_run_computes(results: str, monkeypatch: pytest.MonkeyPatch) -> None:
    step, seen = Trainer.step, []

    def watched(trainer: Trainer, diagnose: bool = False) -> None:
        enabled, config = torch.are_deterministic_algorithms_enabled(), os.environ.get("CUBLAS_WORKSPACE_CONFIG")
        seen.append((enabled, config, torch.backends.cudnn.benchmark))
        step(trainer, diagnose)

    monkeypatch.setattr(Trainer, "step", watched)
    torch.backends.cudnn.benchmark = True
    go(*SMALL, results, "rounds=1")
    go(*SMALL, results, "rounds=1", "deterministic=true")
    assert seen == [(False, None, True), (True, ":4096:8", False)]
    go(*SMALL, results, "rounds=1", "seed=1")
    assert seen[2][0] is False


def test_a_variable_of_the_users_stays(results: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    go(*SMALL, results, "rounds=1", "deterministic=true")
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"


def test_it_is_part_of_the_id() -> None:
    plain, off, on = small(), small("deterministic=false"), small("deterministic=true")
    assert identity.of(plain) == identity.of(off) != identity.of(on)
