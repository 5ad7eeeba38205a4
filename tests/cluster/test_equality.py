"""Ranks over gloo against the simulation in one process: the same rows and the same final state, bit for bit."""

from functools import partial
from pathlib import Path

import pytest
from cluster_support import assert_same, fine, launched, run_each, variant
from run_support import timeless

from experiments.config.compose import CONF
from experiments.config.identity import folder

METHODS = sorted(path.stem for path in (CONF / "algorithm").glob("*.yaml"))

LOCAL = ("local_sgd", "local_adamw", "diloco", "muloco")
FORMED = ("clip_worker=0.05", "clip_aggregate=0.005", "warmup_rounds=2", "lr_schedule=cosine")

VARIANTS = {name: (f"algorithm={name}",) for name in METHODS} | {
    "random_k": ("algorithm=ef21", "compressor=random_k", "compressor.k=5", "algorithm.dense_start=true"),
    "random_k unbiased": ("algorithm=naive", "compressor=random_k", "compressor.k=5", "compressor.unbiased=true"),
    "qsgd": ("algorithm=naive", "compressor=qsgd"),
    "natural": ("algorithm=naive", "compressor=natural"),
    "top_k": ("algorithm=error_feedback", "compressor=top_k", "compressor.ratio=0.1", "update=sgd"),
    "layer": ("algorithm=cd_adam", "partition=layer", "weight_decay=0.01"),
    "layer qadam": ("algorithm=qadam", "partition=layer"),
    "uplink_only": ("algorithm=quantized_adam", "algorithm.uplink_only=true"),
    "clipped cd_adam": ("algorithm=cd_adam", *FORMED),
    "clipped onebit_adam": ("algorithm=onebit_adam", *FORMED),
    "clipped onebit_lamb": ("algorithm=onebit_lamb", "algorithm.warmup=3", *FORMED),
    "clipped quantized_adam": ("algorithm=quantized_adam", *FORMED),
    **{name: (f"algorithm={name}", "algorithm.period=3") for name in LOCAL},
    "zero_one_adam": ("algorithm=zero_one_adam", "algorithm.warmup=3", "algorithm.kappa=1", "algorithm.stretch=1"),
    "sparta": ("algorithm=sparta", "compressor.ratio=0.2"),
    "sparseloco": ("algorithm=sparseloco", "algorithm.period=3", "compressor.k=1", "compressor.chunk=8"),
    "sparseloco senders": (
        *("algorithm=sparseloco", "algorithm.period=3", "algorithm.aggregate=senders"),
        *("compressor=chunk_top_k", "compressor.k=4", "compressor.chunk=8"),
    ),
    "diloco top_k": ("algorithm=diloco", "algorithm.period=2", "compressor=top_k", "compressor.ratio=0.1"),
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

TASKS["language"] = (
    *("task=text/markov", "eval_every=4", "task.model.width=8", "task.model.layers=1", "task.batch_size=2"),
    *("task.dataset.length=2000", "task.evaluation_windows=8", "task.model.dropout=0.2", "warmup_rounds=2"),
)

SOME = (
    *("adam", "local_adamw", "zero_one_adam", "onebit_adam", "onebit_lamb", "ef21", "quantized_adam"),
    *("layer", "layer qadam"),
)

FAST = (
    *("adam", "cd_adam", "onebit_lamb", "ef21", "quantized_adam", "marina", "powersgd", "local_adamw"),
    *("zero_one_adam", "random_k", "layer qadam", "clipped cd_adam", "sparseloco"),
)

SETTINGS = [  # task, ranks, workers, variants
    ("logreg", 2, 4, FAST),
    *(
        pytest.param(*setting, tuple(VARIANTS), marks=pytest.mark.slow)
        for setting in [
            ("logreg", 2, 4),
            *(("logreg", 1, 4), ("logreg", 2, 8), ("logreg", 4, 4), ("logreg", 4, 8), ("batches", 2, 8)),
            *(("batches", 4, 4), ("digits", 4, 4), ("digits", 2, 8), ("digits", 4, 8)),
        ]
    ),
    pytest.param("digits", 2, 4, SOME, marks=pytest.mark.slow),
    pytest.param("language", 2, 4, ("adam", "cd_adam", "quantized_adam", "diloco"), marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("task", "ranks", "workers", "names"), SETTINGS)
def test_ranks_equal_the_simulation(
    task: str, ranks: int, workers: int, names: tuple[str, ...], tmp_path: Path
) -> None:
    """All variants simulated, and all on so many ranks in one launch."""
    common = (*TASKS[task], "rounds=8", "lr=[0.003,0.01]", f"cluster.workers={workers}", "device=cpu", "threads=1")
    alone, together = (
        [variant(*common, *VARIANTS[name], results=tmp_path / place) for name in names]
        for place in ("alone", "together")
    )
    run_each(alone)
    fine(launched(tmp_path, ranks, partial(run_each, together)))
    for expected, found in zip(map(folder, alone), map(folder, together), strict=True):
        assert len(timeless(expected)) >= 2 * 3
        assert_same(found, expected)
