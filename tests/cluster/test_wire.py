"""What crosses between ranks: payloads as bytes, as many as are counted, and nothing else; and what they come to."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from cluster_support import assert_same, my_rank, outputs, run_all, spawn, variant, watch
from run_support import go, rows, timeless
from small_network import group_of_one
from torch import Tensor

from algorithms import CompressedOptimizer
from algorithms.comm import sharded_server
from algorithms.comm.gather_broadcast import GatherBroadcast, LostContact, from_bytes, to_bytes
from algorithms.comm.gather_broadcast import convert_collective_errors as convert_errors
from algorithms.compressors import Identity, shard
from algorithms.compressors.base import Vector, payload_bytes, tensors
from algorithms.core.algorithm import Algorithm
from algorithms.core.channels import Direct
from algorithms.core.update_rules import SGD
from experiments.cluster.torchrun import Torchrun
from experiments.config.identity import folder
from experiments.config.schema import RunConfig
from experiments.run_store.checkpoint import Checkpoint
from experiments.tasks.task import layout_of
from experiments.training.build import build_algorithm, build_task


def test_what_a_failed_collective_says() -> None:
    with pytest.raises(LostContact, match=r"^NCCL error, remote error: socket closed$"), convert_errors():
        raise RuntimeError("NCCL error, remote error\nncclRemoteError: a peer.\nLast error:\nsocket closed\n")
    with pytest.raises(torch.OutOfMemoryError), convert_errors():
        raise torch.OutOfMemoryError("CUDA out of memory")


class Mixed(NamedTuple):
    """A payload of every size of number, with an odd number of bytes before the larger ones."""

    codes: Tensor
    scale: Tensor
    index: Tensor
    values: Tensor
    halves: Tensor
    flags: Tensor


def mixed(*lead: int, nothing: bool = False) -> Mixed:
    """Numbers drawn for the leading axes; some tensors empty."""
    generator = torch.Generator().manual_seed(0)
    return Mixed(
        torch.randint(256, (*lead, 5), generator=generator, dtype=torch.uint8),
        torch.randn(lead, generator=generator, dtype=torch.float64),  # one number, without an axis of its own
        torch.randint(2**31 - 1, (*lead, 0 if nothing else 3), generator=generator, dtype=torch.int32),
        torch.randn(*lead, 3, 2, generator=generator, dtype=torch.float32).mT,  # which do not lie side by side
        torch.randn((), generator=generator).to(torch.bfloat16).expand(*lead, 0 if nothing else 1),  # of stride 0
        torch.randint(2, (*lead, 0 if nothing else 7), generator=generator).bool(),
    )


def nested(*lead: int) -> tuple:
    """Blocks within blocks."""
    return (mixed(*lead), (mixed(*lead, nothing=True), (mixed(*lead),)))


@pytest.mark.parametrize("lead", [(), (3,), (1, 1), (2, 3)])
@pytest.mark.parametrize("make", [mixed, partial(mixed, nothing=True), nested])
def test_bytes_there_and_back(make: Callable, lead: tuple[int, ...]) -> None:
    payload = make(*lead)
    message = to_bytes(payload, len(lead))
    assert (message.dtype, message.shape[:-1]) == (torch.uint8, lead)
    assert message.nbytes == sum(tensor.nbytes for tensor in tensors(payload))
    back = from_bytes(message, payload, len(lead))
    assert _shape(back) == _shape(payload)
    for one, other in zip(tensors(back), tensors(payload), strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)
    message.zero_()  # is memory of its own
    assert all(torch.equal(one, other) for one, other in zip(tensors(make(*lead)), tensors(payload), strict=True))


def _shape(payload: object) -> object:
    """The nesting of a payload and its named tuples."""
    return None if isinstance(payload, Tensor) else (type(payload), *map(_shape, payload))


class Ragged(Identity):
    """A message is a number too long if the vector is positive, and too short if it is negative."""

    def encode_shard(self, x: Tensor, shard: object, key: object = None) -> Vector:
        return Vector(torch.cat([x, x], -1)[..., : x.shape[-1] + int(x.sum().sign())])


@group_of_one()
@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("ends", [(Ragged(), Identity()), (Identity(), Ragged())])
def test_a_message_of_another_size_is_not_sent(ends: tuple, sign: int) -> None:
    param = torch.nn.Parameter(torch.zeros(9))
    optimizer = CompressedOptimizer([param], Algorithm(*map(Direct, ends), SGD()), lr=0.1)
    param.grad = torch.full_like(param, sign)
    with pytest.raises(ValueError, match=rf"Ragged\(\).* a message of {36 + 4 * sign} bytes, but .* expect 36"):
        optimizer.step()


RUNS = {
    "cd_adam": ("algorithm=cd_adam",),
    "onebit_adam": ("algorithm=onebit_adam", "algorithm.warmup=2"),
    "quantized_adam": ("algorithm=quantized_adam",),
    "ef21": ("algorithm=ef21", "algorithm.dense_start=true", "compressor.k=3"),
    "naive": ("algorithm=naive", "compressor=random_k", "compressor.k=4", "algorithm.uplink_only=true"),
    "adamw bf16": ("algorithm=adamw", "compressor=bf16"),
    "layer": (
        *("algorithm=cd_adam", "partition=layer", "task=digits", "task.model.width=2", "task.rows=64"),
        *("task.batch_size=4", "task.evaluation_rows=16"),
    ),
}
SHARDED = {
    "sharded cd_adam": ("algorithm=cd_adam",),
    "sharded natural": ("algorithm=naive", "compressor=natural"),
    "sharded fp8": ("algorithm=adamw", "compressor=fp8", "compressor.block=8", "compressor.stochastic=true"),
    "sharded clipped": ("algorithm=quantized_adam", "clip_worker=0.05", "clip_aggregate=0.005"),
}
ALL = (*RUNS, *SHARDED)
RANKS, WORKERS, TRIALS, ROUNDS = 2, 4, 2, 5
COMMON = (
    *("task=logreg/breast_cancer", f"rounds={ROUNDS}", "eval_every=2", "checkpoint_every=2", "lr=[0.003,0.01]"),
    *(f"cluster.workers={WORKERS}", "threads=1"),
)


def observed(target: Path, runs: list[RunConfig]) -> None:
    """The runs, with every message of this rank written to a file."""
    messages, now = [], {"run": -1, "for": "agreement", "t": 0}

    def note(name: str, size: int, **more: object) -> None:
        messages.append({**now, "by": name, "bytes": size, **more})

    def mark(owner: type, name: str, what: str) -> None:
        method = getattr(owner, name)

        def marking(self: object, *arguments: object) -> object:
            now.update({"for": what} | ({"t": arguments[-1]} if what == "round" else {}))
            try:
                return method(self, *arguments)
            finally:
                now["for"] = "agreement"

        setattr(owner, name, marking)

    def begin(self: Torchrun, *arguments: object, start: Callable = Torchrun.__init__) -> None:
        now.update(run=now["run"] + 1, t=0)
        start(self, *arguments)

    def swapped(*arguments: Any, exchange: Callable = sharded_server.swap_messages) -> list[Tensor]:
        arrived = exchange(*arguments)
        note("swapped", sum(one.nbytes for one in arrived))
        return arrived

    mark(GatherBroadcast, "exchange", "round")
    mark(sharded_server.ShardedServer, "exchange", "round")
    mark(sharded_server._Served, "all_gather", "question")
    mark(Torchrun, "mean", "measurement")
    mark(Checkpoint, "save", "checkpoint")
    mark(Checkpoint, "load", "checkpoint")
    Torchrun.__init__ = begin
    sharded_server.swap_messages = swapped
    shard.LEAST = 8
    with watch(note):
        run_all(runs)
    (target / f"messages-{my_rank()}.json").write_text(json.dumps(messages))


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, RunConfig], list[list[dict]]]:
    """The runs, and every rank's messages."""
    place = tmp_path_factory.mktemp("traffic")
    runs = {name: variant(*COMMON, *overrides, results=place / "results") for name, overrides in RUNS.items()}
    for name, overrides in SHARDED.items():
        runs[name] = variant(*COMMON, *overrides, "cluster.server=sharded", results=place / "sharded")
    outputs(spawn(place, RANKS, partial(observed, place, list(runs.values()))))
    return runs, [json.loads((place / f"messages-{rank}.json").read_text()) for rank in range(RANKS)]


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("name", ALL)
def test_ranks_come_to_what_the_simulation_comes_to(name: str, traffic: tuple, tmp_path: Path) -> None:
    found = folder(traffic[0][name])
    expected = go(*COMMON, *(RUNS | SHARDED)[name], f"results_dir={tmp_path}")
    assert timeless(found) == timeless(expected)
    if name in RUNS:
        assert_same(found, expected)


def _of(name: str, messages: list[dict]) -> list[dict]:
    return [message for message in messages if message["run"] == ALL.index(name)]


@pytest.mark.parametrize("name", RUNS)
def test_a_round_is_two_messages_of_the_bytes_that_are_counted(name: str, traffic: tuple) -> None:
    runs, ranks = traffic
    task = build_task(runs[name])
    algorithm = build_algorithm(runs[name], layout_of(task))
    up, down = (
        [payload_bytes(channel.codec(t), task.d, task.dtype) for t in range(1, ROUNDS + 1)]
        for channel in (algorithm.uplink, algorithm.downlink)
    )
    for messages in ranks:
        mine = [m for m in _of(name, messages) if m["for"] == "round"]
        expected = []
        for t, (sent, received) in enumerate(zip(up, down, strict=True), 1):
            expected += [(t, "gather", TRIALS * WORKERS // RANKS * sent), (t, "broadcast", TRIALS * received)]
        assert [(m["t"], m["by"], m["bytes"]) for m in mine] == expected
    assert rows(folder(runs[name]))[-1]["payload_bytes"] == sum(up) + sum(down)


@pytest.mark.parametrize("name", RUNS)
def test_what_else_crosses_is_for_measurements_checkpoints_and_to_agree(name: str, traffic: tuple) -> None:
    runs, ranks = traffic
    task = build_task(runs[name])
    for messages, by in zip(ranks, ("recv", "send"), strict=True):
        measured = [m for m in _of(name, messages) if m["for"] == "measurement"]
        assert [(m["t"], m["by"]) for m in measured] == [(2, by), (4, by), (5, by)]
        assert {m["bytes"] for m in measured} == {TRIALS * WORKERS // RANKS * task.d * task.dtype.itemsize}
        agreed = [m for m in _of(name, messages) if m["for"] == "agreement"]
        assert {m["by"] for m in agreed} <= {"broadcast", "allreduce", "allgather"}
        assert max(m["bytes"] for m in agreed if m["by"] != "allgather") <= 56  # a flag
        assert len(agreed) <= 6 * ROUNDS + 6  # a word on stopping a round
        saved = [m for m in _of(name, messages) if m["for"] == "checkpoint"]
        assert {(m["t"], m["by"]) for m in saved if m["bytes"] > 8} >= {(2, by), (4, by), (5, by)}


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("name", SHARDED)
def test_messages_to_a_sharded_server_are_as_many_as_said_of_the_bytes_that_are_counted(
    name: str, traffic: tuple
) -> None:
    """But that every server gets the scale of a message."""
    runs, ranks = traffic
    task = build_task(runs[name])
    algorithm, received = build_algorithm(runs[name], layout_of(task)), []
    for messages in ranks:
        mine = [m for m in _of(name, messages) if m["by"] == "swapped"]
        assert len(mine) == ROUNDS * sharded_server.describe_exchange(algorithm, task.d, task.dtype).exchanges
        sizes = [m["bytes"] for m in mine if m["for"] != "question"]
        received.append((sum(sizes[::2]), sum(sizes[1::2])))
    if name in ("sharded cd_adam", "sharded natural"):
        scale = 8 * (name == "sharded cd_adam") * (RANKS - 1)
        up, down = (
            TRIALS * sum(channel.payload_bytes(task.d, t, task.dtype) + scale for t in range(1, ROUNDS + 1))
            for channel in (algorithm.uplink, algorithm.downlink)
        )
        assert [down_here for _, down_here in received] == [down] * RANKS
        assert sum(up_here for up_here, _ in received) == WORKERS * up
        assert max(up_here for up_here, _ in received) < 0.6 * WORKERS * up  # no rank gets nearly all
