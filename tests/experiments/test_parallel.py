"""How many runs `jobs: auto` has at once."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from run_support import SMALL, configuration, rows, small
from sweep_support import linux

from experiments.cluster.launch import Launch as Place
from experiments.cluster.ranks import Ranks
from experiments.config.schema import LaunchConfig, RunConfig
from experiments.orchestration import resources
from experiments.orchestration.resources import BESIDES, at_once, count_jobs
from experiments.run import main as run_command
from experiments.training.build import build_trainer
from experiments.training.memory import vectors


@pytest.mark.parametrize(
    ("missing", "cores", "threads", "ranks", "fit", "expected"),
    [
        (16, 4, 1, 1, 99, 4),
        (16, 1, 1, 1, 99, 1),
        (3, 64, 1, 1, 99, 3),
        (16, 8, 2, 1, 99, 4),
        (16, 8, 1, 4, 99, 2),
        (16, 8, 3, 2, 99, 1),
        (16, 8, 16, 1, 99, 1),
        (16, 64, 1, 1, 5, 5),
        (16, 64, 1, 1, 0, 1),
        (16, 64, 1, 1, sys.maxsize, 16),
    ],
)
def test_the_rule(missing: int, cores: int, threads: int, ranks: int, fit: int, expected: int) -> None:
    assert at_once(missing, cores, threads, ranks, fit) == expected


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight cores, a terabyte, and nobody who said how many threads."""
    monkeypatch.setattr(resources, "cores", lambda: 8)
    monkeypatch.setattr(resources, "free_memory", lambda: 2**40)
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


def test_memory_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = ("task=logreg/synthetic", "task.dataset.rows=40", "task.dataset.features=5000", "cluster.workers=4")
    trainer = build_trainer(runs(tmp_path, 1, *wide, "lr=[0.1,0.2]")[0], Ranks())
    run = vectors(trainer.cluster, 5000, torch.float64, trials=2) + trainer.task.nbytes(4) + BESIDES
    for free, expected in ((5 * run, 5), (5 * run - 1, 4), (run, 1), (1, 1), (99 * run, 8)):
        monkeypatch.setattr(resources, "free_memory", lambda free=free: free)
        assert jobs(runs(tmp_path, 20, *wide, "lr=[0.1,0.2]")) == expected


def test_data_that_cannot_be_had_stop_no_other_run(tmp_path: Path) -> None:
    odd = [replace(run, data_dir=str(tmp_path / "none")) for run in runs(tmp_path, 3, "cluster.workers=10000")]
    assert jobs([*odd, *runs(tmp_path, 3)]) == 6


def test_a_gpu_has_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = [replace(small("task=digits", f"results_dir={tmp_path}"), seed=seed) for seed in range(9)]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for gpus, ranks, expected in ((1, 1, 1), (3, 1, 3), (4, 2, 2), (99, 1, 8)):
        monkeypatch.setattr(torch.cuda, "device_count", lambda gpus=gpus: gpus)
        assert jobs(images, ranks=ranks) == expected


@linux
@pytest.mark.slow
def test_a_sweep_with_as_many_as_there_are_cores_is_the_same(tmp_path: Path) -> None:
    """Folder by folder and row by row."""
    sweep = ["-m", *SMALL, "algorithm=cd_adam,ef21", "lr=0.01,0.1", "study=any"]
    for name, launch in (("one", "jobs=1"), ("auto", "jobs=auto")):
        run_command([*sweep, launch, f"results_dir={tmp_path / name}"])
    one, auto = (
        {
            path.parent.relative_to(tmp_path / name): [row | {"seconds": 0} for row in rows(path.parent)]
            for path in (tmp_path / name).rglob("metrics.jsonl")
        }
        for name in ("one", "auto")
    )
    assert len(one) == 4
    assert one == auto
    assert len(list((tmp_path / "auto").glob("sweeps/any/jobs/*.log"))) == 4
