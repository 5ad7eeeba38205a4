"""Ranks over gloo against the simulation in one process: the same rows and the same final state, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import pytest
from cluster_support import assert_same, fine, launched, run_each, variant
from run_support import timeless

from common.progress import Display
from experiments.config.compose import CONF
from experiments.config.identity import folder
from experiments.config.schema import Cluster, Run
from experiments.training.runner import bring_to_end

METHODS = sorted(path.stem for path in (CONF / "algorithm").glob("*.yaml"))

VARIANTS = {name: (f"algorithm={name}",) for name in METHODS} | {
    "random_k": ("algorithm=ef21", "compressor=random_k", "compressor.k=5", "algorithm.dense_start=true"),
    "random_k unbiased": ("algorithm=naive", "compressor=random_k", "compressor.k=5", "compressor.unbiased=true"),
    "qsgd": ("algorithm=naive", "compressor=qsgd"),
    "natural": ("algorithm=naive", "compressor=natural"),
    "top_k": ("algorithm=error_feedback", "compressor=top_k", "compressor.ratio=0.1", "update=sgd"),
    "layer": ("algorithm=cd_adam", "partition=layer", "weight_decay=0.01"),
    "layer qadam": ("algorithm=qadam", "partition=layer"),
    "uplink_only": ("algorithm=quantized_adam", "algorithm.uplink_only=true"),
    "dense_start": ("algorithm=cd_adam", "algorithm.dense_start=true", "algorithm.uplink_only=true"),
}

TASKS = {
    "logreg": ("task=logreg/breast_cancer", "eval_every=2"),
    "batches": ("task=logreg/breast_cancer", "eval_every=2", "task.batch_size=3"),
    "digits": (
        *("task=digits", "eval_every=4", "task.model.width=4", "task.rows=136", "task.batch_size=4"),
        "task.evaluation_rows=32",
    ),
}

SETTINGS = [  # task, ranks, workers
    ("logreg", 4, 8),
    ("digits", 2, 4),
    *(
        pytest.param(*setting, marks=pytest.mark.slow)
        for setting in [
            *(("logreg", 1, 4), ("logreg", 2, 4), ("logreg", 2, 8), ("logreg", 4, 4)),
            *(("batches", 2, 8), ("batches", 4, 4), ("digits", 4, 4), ("digits", 2, 8), ("digits", 4, 8)),
        ]
    ),
]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], dict[str, Path]]:
    """The folders of all variants, simulated."""

    @cache
    def simulate(task: str, workers: int) -> dict[str, Path]:
        runs = _runs(task, workers, tmp_path_factory.mktemp("alone"))
        with Display(sum(run.rounds for run in runs.values())) as display:
            return {name: bring_to_end(run, display).path for name, run in runs.items()}

    return simulate


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int, int], dict[str, Path]]:
    """The folders of all variants, on so many ranks, in one launch."""

    @cache
    def launch(task: str, ranks: int, workers: int) -> dict[str, Path]:
        place = tmp_path_factory.mktemp("together")
        runs = _runs(task, workers, place / "results")
        fine(launched(place, ranks, partial(run_each, list(runs.values()))))
        return {name: folder(run) for name, run in runs.items()}

    return launch


def _runs(task: str, workers: int, results: Path) -> dict[str, Run]:
    common = (*TASKS[task], "rounds=8", "lr=[0.003,0.01]", "device=cpu", "threads=1")
    cluster = Cluster(workers=workers)  # set here, because a run takes longer to compose than to do
    return {
        name: replace(variant(*common, *overrides, results=results), cluster=cluster)
        for name, overrides in VARIANTS.items()
    }


@pytest.mark.parametrize(("task", "ranks", "workers"), SETTINGS)
@pytest.mark.parametrize("name", VARIANTS)
def test_ranks_equal_the_simulation(
    name: str, task: str, ranks: int, workers: int, alone: Callable, together: Callable
) -> None:
    expected, path = alone(task, workers)[name], together(task, ranks, workers)[name]
    assert len(timeless(expected)) >= 2 * 3
    assert_same(path, expected)
