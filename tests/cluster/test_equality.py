"""Ranks over gloo against the simulation in one process: the same rows and the same final state, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import pytest
from cluster_support import configurations, final_state, fine, launched, run_each, same
from run_support import timeless

from common.progress import Display
from experiments.config.compose import CONF
from experiments.config.identity import folder
from experiments.training.runner import run

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
        configs = _configurations(task, workers, tmp_path_factory.mktemp("alone"))
        paths = {}
        for name, config in configs.items():
            with Display(config["rounds"]) as display:
                paths[name] = run(config, display).path
        return paths

    return simulate


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int, int], dict[str, Path]]:
    """The folders of all variants, on so many ranks, in one launch."""

    @cache
    def launch(task: str, ranks: int, workers: int) -> dict[str, Path]:
        place = tmp_path_factory.mktemp("together")
        configs = _configurations(task, workers, place / "results")
        fine(launched(place, ranks, partial(run_each, list(configs.values()))))
        return {name: folder(config) for name, config in configs.items()}

    return launch


def _configurations(task: str, workers: int, results: Path) -> dict[str, dict]:
    common = (*TASKS[task], "rounds=8", "lr=[0.003,0.01]", "device=cpu", "threads=1")
    configs = configurations(VARIANTS, *common, results=results)
    for config in configs.values():  # set here, because a configuration takes longer to compose than to run
        config["cluster"]["workers"] = workers
    return configs


@pytest.mark.parametrize(("task", "ranks", "workers"), SETTINGS)
@pytest.mark.parametrize("name", VARIANTS)
def test_ranks_equal_the_simulation(
    name: str, task: str, ranks: int, workers: int, alone: Callable, together: Callable
) -> None:
    expected, path = alone(task, workers)[name], together(task, ranks, workers)[name]
    assert len(timeless(expected)) >= 2 * 3
    assert timeless(path) == timeless(expected)
    assert same(final_state(path), final_state(expected))
