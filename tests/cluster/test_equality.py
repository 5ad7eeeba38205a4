"""Ranks over gloo against the simulation in one process: the same rows and the same final state, bit for bit."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
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
        pytest.param(setting, marks=pytest.mark.slow)
        for setting in [
            *(("logreg", 1, 4), ("logreg", 2, 4), ("logreg", 2, 8), ("logreg", 4, 4)),
            *(("batches", 2, 8), ("batches", 4, 4), ("digits", 4, 4), ("digits", 2, 8), ("digits", 4, 8)),
        ]
    ),
]


def _runs(task: str, workers: int, results: Path) -> dict[str, Run]:
    common = (*TASKS[task], "rounds=8", "lr=[0.003,0.01]", "device=cpu", "threads=1")
    cluster = Cluster(workers=workers)  # set here, because a run takes longer to compose than to do
    return {
        name: replace(variant(*common, *overrides, results=results), cluster=cluster)
        for name, overrides in VARIANTS.items()
    }


@pytest.fixture(scope="module", params=SETTINGS, ids=lambda setting: "{}-{}-{}".format(*setting))
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, dict]:
    """The folders of all variants, simulated, and on so many ranks in one launch."""
    task, ranks, workers = request.param
    alone, place = _runs(task, workers, tmp_path_factory.mktemp("alone")), tmp_path_factory.mktemp("together")
    with Display(sum(run.rounds for run in alone.values())) as display:
        expected = {name: bring_to_end(run, display).path for name, run in alone.items()}
    runs = _runs(task, workers, place / "results")
    fine(launched(place, ranks, partial(run_each, list(runs.values()))))
    return expected, {name: folder(run) for name, run in runs.items()}


@pytest.mark.parametrize("name", VARIANTS)
def test_ranks_equal_the_simulation(name: str, both: tuple[dict[str, Path], dict[str, Path]]) -> None:
    expected, path = (folders[name] for folders in both)
    assert len(timeless(expected)) >= 2 * 3
    assert_same(path, expected)
