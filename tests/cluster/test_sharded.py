"""A server in parts against the simulation in one process: the same rows and the same final state, bit for bit."""

import json
import os
from collections.abc import Sequence
from functools import partial
from itertools import cycle
from pathlib import Path

import pytest
import test_equality
import torch
from checkpoint_support import content
from cluster_support import assert_same, at_round, fine, interrupt, launched, run_each, variant
from run_support import timeless

from algorithms.comm import sharded_server as wire_sharded
from algorithms.comm.sharded_server import exchange
from algorithms.compressors import shard as module
from experiments.cluster.ranks import Ranks
from experiments.config.identity import folder
from experiments.config.schema import RunConfig
from experiments.run_store.checkpoint import rounds, verify
from experiments.training.build import build_algorithm, build_trainer

PIECE = 8  # so that vectors of 30 coordinates have some
WHOLE = {"demo", "dion", "ef21_muon", "powersgd", "sparseloco"}  # whose server needs vectors as a whole
NAMES = tuple(name for name in test_equality.VARIANTS if name not in WHOLE)
SOME = (  # every kind of message, memory, update and rhythm
    *("adam", "lamb", "signum", "distributed_lion", "diana", "marina", "econtrol", "ef21_bc", "onebit_adam", "qadam"),
    *("quantized_adam", "loco", "random_k", "random_k unbiased", "natural", "top_k", "layer", "uplink_only"),
    *("clipped cd_adam", "clipped onebit_lamb", "zero_one_adam", "diloco", "sparta", "dense_start"),
)
DIGITS = ("adam", "onebit_adam", "quantized_adam", "layer qadam", "layer top_k", "layer uplink_only", "layer clipped")
VARIANTS = test_equality.VARIANTS | {
    **{name: (f"algorithm={name}", "compressor.block=8") for name in ("diana", "loco")},  # of 64 there is one here
    "layer top_k": ("algorithm=ef21", "partition=layer", "compressor.ratio=0.1"),
    "layer uplink_only": ("algorithm=cd_adam", "partition=layer", "algorithm.uplink_only=true"),
    "layer clipped": ("algorithm=cd_adam", "partition=layer", "clip_aggregate=0.005"),
}


def in_small_pieces(runs: list[RunConfig]) -> None:
    module.LEAST = PIECE
    run_each(runs)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST", PIECE)


def runs(task: str, workers: int, names: Sequence[str], place: Path, *more: str) -> list[RunConfig]:
    common = (*test_equality.TASKS[task], f"cluster.workers={workers}", "device=cpu", "threads=1", "lr=[0.003,0.01]")
    return [variant(*common, "rounds=8", *more, *VARIANTS[name], results=place) for name in names]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "ranks", "workers", "names"),
    [
        ("logreg", 3, 5, SOME),  # of two, two and one worker
        pytest.param("logreg", 3, 5, NAMES, marks=pytest.mark.slow),
        pytest.param("digits", 3, 4, DIGITS, marks=pytest.mark.slow),
        pytest.param("logreg", 8, 8, NAMES, marks=pytest.mark.slow),  # of which four serve something
        pytest.param("language", 2, 4, ("adam", "cd_adam", "quantized_adam"), marks=pytest.mark.slow),
    ],
)
def test_ranks_that_share_the_server_equal_the_simulation(
    task: str, ranks: int, workers: int, names: Sequence[str], tmp_path: Path
) -> None:
    alone = runs(task, workers, names, tmp_path / "alone")
    together = runs(task, workers, names, tmp_path / "together", "cluster.server=sharded")
    run_each(alone)
    fine(launched(tmp_path, ranks, partial(in_small_pieces, together)))
    for expected, found in zip(map(folder, alone), map(folder, together), strict=True):
        assert len(timeless(expected)) >= 2 * 3
        assert timeless(found) == timeless(expected)
        one, server = joined(expected)
        other, shards = joined(found)
        assert 2 <= len(shards) <= ranks
        assert other == one
        for name, whole in server[0].items():
            assert whole is None or torch.equal(torch.cat([shard_of[name] for shard_of in shards], -1), whole)


def joined(path: Path) -> tuple[bytes, list[dict]]:
    """Of the last checkpoint every tensor but the server's, as bytes, and the parts of the server."""
    newest = path / "checkpoint" / str(rounds(path / "checkpoint")[0])
    files = {file.stem: content(file) for file in sorted(newest.iterdir())}
    server = files["shared"]["cluster"].pop("server", None)
    shards = [files.pop(name) for name in sorted(files) if name.startswith("server-")]
    tensors = [tensor for file in files.values() for tensor in leaves(file)]
    return b"".join(tensor.numpy().tobytes() for tensor in tensors), shards or [server]


def leaves(node: object) -> list[torch.Tensor]:
    if isinstance(node, dict):
        return [leaf for part in node.values() for leaf in leaves(part)]
    return [node] if isinstance(node, torch.Tensor) else []


@pytest.mark.slow
def test_a_missing_part_of_a_server_is_noticed(tmp_path: Path) -> None:
    [run] = runs("logreg", 5, ["cd_adam"], tmp_path / "results", "cluster.server=sharded")
    fine(launched(tmp_path / "ranks", 2, partial(in_small_pieces, [run])))
    checkpoints = folder(run) / "checkpoint"
    verify(checkpoints, 5)
    for file in checkpoints.glob("*/server-*.pt"):
        file.rename(file.with_suffix(".gone"))
        with pytest.raises(ValueError, match=rf"{file.name}: missing"):
            verify(checkpoints, 5)
        file.with_suffix(".gone").rename(file)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["quantized_adam", *(pytest.param(name, marks=pytest.mark.slow) for name in ("cd_adam", "random_k"))]
)
def test_a_run_goes_on_on_other_ranks_with_another_server(name: str, tmp_path: Path) -> None:
    """3 ranks that share the server, then 2 with the server on one, then 5 that share it, then none."""
    seldom = "eval_every=5"  # a row is due, and all wait for each other, in round 5 and at the end
    [whole] = runs("logreg", 5, [name], tmp_path / "whole", seldom)
    run_each([whole])
    for ranks, server, stop in ((3, "sharded", 3), (2, "rank0", 5), (5, "sharded", 7)):
        part = runs("logreg", 5, [name], tmp_path / "parts", f"cluster.server={server}", seldom)
        act = partial(at_round, stop - 1, 1, interrupt, partial(in_small_pieces, part))
        ended = launched(tmp_path / server / str(ranks), ranks, act)
        assert [rank.code for rank in ended] == [130] * ranks, ended[0].said
        assert f"stopped after round {stop}" in ended[0].said
    [rest] = runs("logreg", 5, [name], tmp_path / "parts", seldom)
    run_each([rest])
    assert_same(folder(rest), folder(whole))


def counted(target: Path, runs: list[RunConfig]) -> None:
    """The runs, with the bytes that reached this rank, its own among them, in the two exchanges of their rounds
    written to a file, and how often messages crossed one after the other."""
    found, directions, everything = {"up": 0, "down": 0, "times": 0}, cycle(("up", "down")), wire_sharded.swapped

    def watching(messages: Sequence[torch.Tensor], sizes: Sequence[int], *servers: object) -> list[torch.Tensor]:
        arrived = everything(messages, sizes, *servers)  # pyright: ignore[reportArgumentType]: as they came
        found["times"] += 1
        if not servers:  # who tell one another what they must know of whole vectors
            found[next(directions)] += sum(one.nbytes for one in arrived)
        return arrived

    wire_sharded.swapped = watching
    in_small_pieces(runs)
    (target / f"bytes-{os.environ['RANK']}.json").write_text(json.dumps(found))


@pytest.mark.parametrize(
    ("name", "scale"),
    [("cd_adam", 8), pytest.param("natural", 0, marks=pytest.mark.slow)],  # bytes of a scale
)
def test_messages_are_sent_in_parts_that_have_what_is_counted(name: str, scale: int, tmp_path: Path) -> None:
    """But that every server gets the scale of a message."""
    [run] = runs("logreg", 5, [name], tmp_path, "cluster.server=sharded")
    fine(launched(tmp_path, 3, partial(counted, tmp_path, [run])))
    algorithm, trials, servers = build_algorithm(run), 2, 3
    up, down = (
        sum(channel.payload_bytes(30, t, torch.float64) + (servers - 1) * scale for t in range(1, 9))
        for channel in (algorithm.uplink, algorithm.downlink)
    )
    for rank in range(3):
        found = json.loads((tmp_path / f"bytes-{rank}.json").read_text())
        assert found["down"] == trials * down
        assert found["times"] == 8 * exchange(algorithm, 30, torch.float64).exchanges
    received = [json.loads((tmp_path / f"bytes-{rank}.json").read_text())["up"] for rank in range(3)]
    assert sum(received) == trials * 5 * up
    assert max(received) < 0.6 * sum(received)  # no rank gets nearly all


@pytest.mark.slow
@pytest.mark.parametrize("name", ["clipped quantized_adam", "layer top_k"])
def test_as_many_exchanges_as_are_said(name: str, tmp_path: Path) -> None:
    task = "digits" if "layer" in name else "logreg"
    more = ("algorithm.dense_start=false",) if "layer" in name else ()  # a dense round has fewer
    [run] = runs(task, 4, [name], tmp_path, "cluster.server=sharded", *more)
    fine(launched(tmp_path, 2, partial(counted, tmp_path, [run])))
    trainer = build_trainer(run, Ranks())
    expected = exchange(trainer.cluster.algorithm, trainer.task.d, trainer.task.dtype).exchanges
    for rank in range(2):
        assert json.loads((tmp_path / f"bytes-{rank}.json").read_text())["times"] == 8 * expected
