"""Ranks over gloo against the simulation in one process: the same rows and the same final state, bit for bit."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
import torch
from cluster_support import assert_same, at_round, interrupt, outputs, run_all, spawn, variant
from run_support import read_checkpoint, timeless

from algorithms.compressors import shard
from algorithms.core.algorithm import leaves
from experiments.config.compose import CONF
from experiments.config.identity import folder
from experiments.config.schema import RunConfig
from experiments.run_store.checkpoint import rounds, verify

pytestmark = pytest.mark.slow  # test_wire.py has some of each in fast tests

METHODS = sorted(path.stem for path in (CONF / "algorithm").glob("*.yaml"))

LOCAL = ("local_sgd", "local_adamw", "diloco", "muloco")
FORMED = ("clip_worker=0.05", "clip_aggregate=0.005", "warmup_rounds=2", "lr_schedule=cosine")

VARIANTS = {name: (f"algorithm={name}",) for name in METHODS} | {
    "random_k": ("algorithm=ef21", "compressor=random_k", "compressor.k=5", "algorithm.dense_start=true"),
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
    **{name: (f"algorithm={name}", "compressor.block=8") for name in ("diana", "loco")},  # of 64 there is one here
    "layer top_k": ("algorithm=ef21", "partition=layer", "compressor.ratio=0.1"),
    "layer uplink_only": ("algorithm=cd_adam", "partition=layer", "algorithm.uplink_only=true"),
    "layer clipped": ("algorithm=cd_adam", "partition=layer", "clip_aggregate=0.005"),
}
FRAGMENTS = {  # of models of several tensors
    "muloco in fragments": (
        *("algorithm=muloco", "algorithm.period=2", "algorithm.fragments=2", "algorithm.delay=1"),
        *("algorithm.mixing=0.5", "algorithm.uplink_only=false"),
    ),
}
# Their server, or IntSGD's replicas, need vectors whole.
WHOLE = {"demo", "dion", "ef21_muon", "int_sgd", "powersgd", "sparseloco", "sparseloco senders"}
# The image task has no full gradients.
ON_IMAGES = tuple(name for name in VARIANTS if name != "vr_marina")

TASKS = {
    "logreg": ("task=logreg/breast_cancer", "eval_every=2"),
    "batches": ("task=logreg/breast_cancer", "eval_every=2", "task.batch_size=3"),
    "digits": (
        *("task=digits", "eval_every=4", "task.model.width=4", "task.rows=136", "task.batch_size=4"),
        "task.evaluation_rows=32",
    ),
    "language": (
        *("task=text/markov", "eval_every=4", "task.model.width=8", "task.model.layers=1", "task.batch_size=2"),
        *("task.dataset.length=2000", "task.evaluation_windows=8", "task.model.dropout=0.2", "warmup_rounds=2"),
    ),
}

LANGUAGE = ("adam", "cd_adam", "quantized_adam")
# The model of logistic regression is one layer, and layers are not cut.
PARTED = tuple(name for name in VARIANTS if name not in WHOLE and not name.startswith("layer"))
LAYERS = ("adam", "onebit_adam", "quantized_adam", "layer qadam", "layer top_k", "layer uplink_only", "layer clipped")
SHARDED = "cluster.server=sharded"


def runs(task: str, workers: int, names: Sequence[str], place: Path, *more: str) -> list[RunConfig]:
    common = (*TASKS[task], f"cluster.workers={workers}", "device=cpu", "threads=1", "lr=[0.003,0.01]", "rounds=8")
    return [variant(*common, *more, *(VARIANTS | FRAGMENTS)[name], results=place) for name in names]


@pytest.mark.parametrize(
    ("task", "ranks", "workers", "names", "groups"),
    [
        *(
            (*setting, tuple(VARIANTS), None)
            for setting in [
                *(("logreg", 1, 4), ("logreg", 2, 4), ("logreg", 2, 8), ("logreg", 4, 4), ("logreg", 4, 8)),
                *(("batches", 2, 8), ("batches", 4, 4)),
            ]
        ),
        *(("digits", *shared, ON_IMAGES, None) for shared in ((2, 8), (4, 4))),
        ("language", 2, 4, (*LANGUAGE, "diloco", *FRAGMENTS), None),
        ("batches", 2, 6, tuple(VARIANTS), 3),  # of two groups and of one
        ("batches", 4, 6, tuple(VARIANTS), 2),  # of two workers of a group and of one
        ("language", 4, 8, (*LANGUAGE, "diloco", *FRAGMENTS), 2),
    ],
)
def test_ranks_equal_the_simulation(
    task: str, ranks: int, workers: int, names: tuple[str, ...], groups: int | None, tmp_path: Path
) -> None:
    """All variants simulated, and all on so many ranks in one launch."""
    more = [f"cluster.groups={groups}"] if groups else []
    alone, together = (runs(task, workers, names, tmp_path / place, *more) for place in ("alone", "together"))
    run_all(alone)
    outputs(spawn(tmp_path, ranks, partial(run_all, together)))
    for expected, found in zip(map(folder, alone), map(folder, together), strict=True):
        assert len(timeless(expected)) >= 2 * 3
        assert_same(found, expected)


# A sharded server, of vectors of 30 coordinates


def in_small_pieces(runs: list[RunConfig]) -> None:
    shard.LEAST = 8
    run_all(runs)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize(
    ("task", "ranks", "workers", "names"),
    [
        ("logreg", 3, 5, PARTED),  # of two, two and one worker
        ("digits", 3, 4, LAYERS),
        ("logreg", 8, 8, PARTED),  # of which four serve something
        ("language", 2, 4, LANGUAGE),
    ],
)
def test_ranks_that_share_the_server_equal_the_simulation(
    task: str, ranks: int, workers: int, names: Sequence[str], tmp_path: Path
) -> None:
    alone = runs(task, workers, names, tmp_path / "alone")
    together = runs(task, workers, names, tmp_path / "together", SHARDED)
    run_all(alone)
    outputs(spawn(tmp_path, ranks, partial(in_small_pieces, together)))
    for expected, found in zip(map(folder, alone), map(folder, together), strict=True):
        assert len(timeless(expected)) >= 2 * 3
        assert timeless(found) == timeless(expected)
        one, server = joined(expected)
        other, shards = joined(found)
        assert 2 <= len(shards) <= ranks
        assert other == one
        for name, whole in server[0].items():
            assert whole is None or torch.equal(torch.cat([shard_of[name] for shard_of in shards], -1), whole)
    checkpoints = found / "checkpoint"
    for file in checkpoints.glob("*/server-*.pt"):
        file.rename(file.with_suffix(".gone"))
        with pytest.raises(ValueError, match=rf"{file.name}: missing"):
            verify(checkpoints, workers)
        file.with_suffix(".gone").rename(file)
    verify(checkpoints, workers)


def joined(path: Path) -> tuple[bytes, list[dict]]:
    """Of the last checkpoint every tensor but the server's, as bytes, and the parts of the server."""
    newest = path / "checkpoint" / str(rounds(path / "checkpoint")[0])
    files = {file.stem: read_checkpoint(file) for file in sorted(newest.iterdir())}
    server = files["shared"]["cluster"].pop("server", None)
    shards = [files.pop(name) for name in sorted(files) if name.startswith("server-")]
    tensors = [leaf for _, leaf in leaves(files) if isinstance(leaf, torch.Tensor)]
    return b"".join(tensor.numpy().tobytes() for tensor in tensors), shards or [server]


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("name", ["quantized_adam", "cd_adam", "random_k"])
def test_a_run_goes_on_on_other_ranks_with_another_server(name: str, tmp_path: Path) -> None:
    """3 ranks that share the server, then 2 with the server on one, then 5 that share it, then none."""
    seldom = "eval_every=5"  # a row is due, and all wait for each other, in round 5 and at the end
    [whole] = runs("logreg", 5, [name], tmp_path / "whole", seldom)
    run_all([whole])
    for ranks, server, stop in ((3, "sharded", 3), (2, "rank0", 5), (5, "sharded", 7)):
        part = runs("logreg", 5, [name], tmp_path / "parts", f"cluster.server={server}", seldom)
        act = partial(at_round, stop - 1, 1, interrupt, partial(in_small_pieces, part))
        ended = spawn(tmp_path / server / str(ranks), ranks, act)
        assert [rank.code for rank in ended] == [130] * ranks, ended[0].said
        assert f"stopped after round {stop}" in ended[0].said
    [rest] = runs("logreg", 5, [name], tmp_path / "parts", seldom)
    run_all([rest])
    assert_same(folder(rest), folder(whole))
