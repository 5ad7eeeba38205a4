"""How many runs `jobs: null` has at once."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from run_support import SMALL, configuration, small

from experiments.cluster.launch import Launch as Place
from experiments.config.schema import LaunchConfig, RunConfig
from experiments.orchestration import job as resources
from experiments.orchestration.job import count_jobs


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight cores, and nobody who said how many threads."""
    monkeypatch.setattr(resources, "cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


def runs(results: Path, count: int, *overrides: str) -> list[RunConfig]:
    run = configuration(*SMALL, *overrides, f"results_dir={results}")
    return [replace(run, seed=seed) for seed in range(count)]


def jobs(some: Sequence[RunConfig], **launch: int) -> int | None:
    return count_jobs(LaunchConfig(**launch), some).jobs


def test_cores_are_filled_by_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert jobs(runs(tmp_path, 20)) == 8
    assert jobs(runs(tmp_path, 20), ranks=3) == 2
    assert jobs(runs(tmp_path, 20, "threads=4")) == 2
    assert jobs(runs(tmp_path, 20), jobs=5) == 5
    assert jobs(runs(tmp_path, 3)) == 3
    assert jobs(runs(tmp_path, 1)) == jobs([]) == 1
    monkeypatch.setattr(resources, "place_of", lambda: Place(0, 2, 0, 2, address="", port=0))
    assert jobs(runs(tmp_path, 20)) == 1


def test_threads_that_the_user_asked_for_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)  # as torch has it from there
    assert jobs(runs(tmp_path, 20)) == 2
    assert jobs(runs(tmp_path, 20, "threads=1")) == 8


def test_a_gpu_has_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = [replace(small("task=digits", f"results_dir={tmp_path}"), seed=seed) for seed in range(9)]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for gpus, ranks, expected in ((1, 1, 1), (3, 1, 3), (4, 2, 2), (99, 1, 8)):
        monkeypatch.setattr(torch.cuda, "device_count", lambda gpus=gpus: gpus)
        assert jobs(images, ranks=ranks) == expected
