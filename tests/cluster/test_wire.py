"""What crosses between ranks: payloads as bytes, as many as are counted, and nothing else."""

import json
import math
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
import torch.distributed as dist
from cluster_support import fine, launched, run_each, variant
from run_support import rows
from torch import Tensor

from algorithms.comm.gather_broadcast import GatherBroadcast, from_bytes, to_bytes
from algorithms.compressors import (
    Blocks,
    Identity,
    LogQuantize,
    MinMaxUint8,
    Natural,
    Qsgd,
    RandomK,
    ScaledSign,
    TopK,
)
from algorithms.compressors.base import payload_bytes, tensors
from algorithms.utils.seeding import MessageKey
from experiments.cluster.ranks import Group
from experiments.cluster.torchrun import Torchrun
from experiments.config.identity import folder
from experiments.config.schema import RunConfig
from experiments.tasks.task import layout_of
from experiments.training.build import build_algorithm, build_task

LEADING = [(), (3,), (2, 3)]


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
        torch.randn(*lead, 2, 3, generator=generator, dtype=torch.float32),
        torch.randn(*lead, 0 if nothing else 1, generator=generator).to(torch.bfloat16),
        torch.randint(2, (*lead, 0 if nothing else 7), generator=generator).bool(),
    )


def nested(*lead: int) -> tuple:
    """Blocks within blocks."""
    return (mixed(*lead), (mixed(*lead, nothing=True), (mixed(*lead),)))


@pytest.mark.parametrize("lead", LEADING)
@pytest.mark.parametrize("make", [mixed, partial(mixed, nothing=True), nested])
def test_bytes_there_and_back(make: Callable, lead: tuple[int, ...]) -> None:
    payload = make(*lead)
    message = to_bytes(payload, len(lead))
    assert message.dtype == torch.uint8
    assert message.shape[:-1] == lead
    assert message.nbytes == sum(tensor.nbytes for tensor in tensors(payload))
    back = from_bytes(message, payload, len(lead))
    assert _shape(back) == _shape(payload)
    for one, other in zip(tensors(back), tensors(payload), strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


def _shape(payload: object) -> object:
    """The nesting of a payload and its named tuples."""
    return None if isinstance(payload, Tensor) else (type(payload), *map(_shape, payload))


def test_bytes_are_in_memory_of_their_own() -> None:
    payload = (torch.arange(4, dtype=torch.uint8),)
    message = to_bytes(payload, 0)
    message.zero_()
    assert payload[0].tolist() == [0, 1, 2, 3]
    back = from_bytes(message, payload, 0)
    message.fill_(9)
    assert back[0].tolist() == [0, 0, 0, 0]


def test_numbers_that_do_not_lie_side_by_side_cross_too() -> None:
    values = torch.arange(24.0).view(4, 3, 2).permute(2, 1, 0)  # [2, 3, 4]
    message = to_bytes((values,), 2)
    assert torch.equal(from_bytes(message, (values,), 2)[0], values)


@pytest.mark.parametrize("lead", LEADING)
@pytest.mark.parametrize(
    "compressor",
    [
        *(Identity(), ScaledSign(), TopK(k=3), RandomK(k=3), MinMaxUint8(), LogQuantize(), Qsgd(), Natural()),
        *(Blocks(ScaledSign(), (10, 3)), Blocks(TopK(k=2), (2, 11))),
    ],
    ids=str,
)
def test_the_parts_of_two_ranks_are_the_payload_of_all_workers(compressor: object, lead: tuple[int, ...]) -> None:
    d, workers = 13, 4
    w = torch.randn(*lead, workers, d, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    parts = []
    for ids in ((0, 1), (2, 3)):
        payload = compressor.encode(w[..., ids, :], MessageKey(5, "up", 2, ids))
        parts.append(to_bytes(payload, len(lead) + 1))
    arrived = from_bytes(torch.cat(parts, -2), payload, len(lead) + 1)
    assert torch.equal(compressor.decode(arrived, d), compressor(w, MessageKey(5, "up", 2, tuple(range(workers)))))
    messages = workers * math.prod(lead)
    assert sum(part.nbytes for part in parts) == messages * payload_bytes(compressor, d, torch.float64)


# What follows is counted in the ranks of real runs.

RUNS = {
    "cd_adam": ("algorithm=cd_adam",),
    "onebit_adam": ("algorithm=onebit_adam", "algorithm.warmup=2"),
    "quantized_adam": ("algorithm=quantized_adam",),
    "ef21": ("algorithm=ef21", "algorithm.dense_start=true", "compressor.k=3"),
    "naive": ("algorithm=naive", "compressor=random_k", "compressor.k=4", "algorithm.uplink_only=true"),
    "amsgrad": ("algorithm=amsgrad",),
    "natural": ("algorithm=naive", "compressor=natural"),
    "layer": (
        *("algorithm=cd_adam", "partition=layer", "task=digits", "task.model.width=2", "task.rows=64"),
        *("task.batch_size=4", "task.evaluation_rows=16"),
    ),
}
COMMON = ("task=logreg/breast_cancer", "rounds=5", "eval_every=2", "checkpoint_every=2", "lr=[0.003,0.01]")
RANKS, WORKERS, TRIALS, ROUNDS = 2, 4, 2, 5
COUNTED = ("gather", "broadcast", "all_reduce", "send", "recv")
OTHERS = (
    *("all_gather", "all_gather_into_tensor", "all_to_all", "all_to_all_single", "barrier", "batch_isend_irecv"),
    *("irecv", "isend", "monitored_barrier", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter"),
    *("all_gather_object", "broadcast_object_list", "gather_object", "recv_object_list"),
    *("scatter_object_list", "send_object_list"),
)


def watched(target: Path, runs: list[RunConfig]) -> None:
    """The runs, with every message of this rank written to a file."""
    messages, run, purpose = [], -1, ["agreement", 0]

    def watch(name: str) -> None:
        collective = getattr(dist, name)

        def watching(tensor: Tensor, *arguments: object, **options: object) -> object:
            messages.append({"run": run, "for": purpose[0], "t": purpose[1], "by": name, "bytes": tensor.nbytes})
            return collective(tensor, *arguments, **options)

        setattr(dist, name, watching)

    def forbid_in_rounds(name: str) -> None:
        collective = getattr(dist, name)

        def outside_rounds(*arguments: object, **options: object) -> None:
            if purpose[0] == "round":
                raise AssertionError(f"dist.{name} was called")
            messages.append({"run": run, "for": purpose[0], "t": purpose[1], "by": name, "bytes": 0})
            collective(*arguments, **options)

        setattr(dist, name, outside_rounds)

    def mark(owner: type, name: str, what: str) -> None:
        method = getattr(owner, name)

        def marking(self: object, *arguments: object) -> object:
            purpose[:] = what, arguments[-1] if what == "round" else purpose[1]
            try:
                return method(self, *arguments)
            finally:
                purpose[0] = "agreement"

        setattr(owner, name, marking)

    def begin(self: Torchrun, *arguments: object, start: Callable = Torchrun.__init__) -> None:
        nonlocal run
        run += 1
        purpose[1] = 0
        start(self, *arguments)

    for name in COUNTED:
        watch(name)
    for name in OTHERS:
        forbid_in_rounds(name)
    mark(GatherBroadcast, "exchange", "round")
    mark(Torchrun, "mean", "measurement")
    mark(Group, "agree", "start")
    Torchrun.__init__ = begin
    run_each(runs)
    (target / f"messages-{os.environ['RANK']}.json").write_text(json.dumps(messages))


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, RunConfig], list[list[dict]]]:
    """The runs, and every rank's messages."""
    place = tmp_path_factory.mktemp("traffic")
    common = (*COMMON, f"cluster.workers={WORKERS}", "threads=1")
    runs = {name: variant(*common, *overrides, results=place / "results") for name, overrides in RUNS.items()}
    fine(launched(place, RANKS, partial(watched, place, list(runs.values()))))
    return runs, [json.loads((place / f"messages-{rank}.json").read_text()) for rank in range(RANKS)]


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
        mine = [m for m in messages if m["run"] == list(RUNS).index(name) and m["for"] == "round"]
        assert [(m["t"], m["by"], m["bytes"]) for m in mine] == [
            message
            for t in range(1, ROUNDS + 1)
            for message in (
                (t, "gather", TRIALS * WORKERS // RANKS * up[t - 1]),
                (t, "broadcast", TRIALS * down[t - 1]),
            )
        ]
    last = rows(folder(runs[name]))[-1]
    gathered = sum(m["bytes"] for m in mine if m["by"] == "gather")
    received = sum(m["bytes"] for m in mine if m["by"] == "broadcast")
    assert last["payload_bytes"] == sum(up) + sum(down)
    assert last["payload_bytes"] == gathered // (TRIALS * WORKERS // RANKS) + received // TRIALS


@pytest.mark.parametrize("name", RUNS)
def test_what_else_crosses_is_for_measurements_and_to_agree(name: str, traffic: tuple) -> None:
    runs, ranks = traffic
    task = build_task(runs[name])
    for messages, by in zip(ranks, ("recv", "send"), strict=True):
        mine = [m for m in messages if m["run"] == list(RUNS).index(name)]
        measured = [m for m in mine if m["for"] == "measurement"]
        assert [(m["t"], m["by"]) for m in measured] == [(2, by), (4, by), (5, by)]
        assert {m["bytes"] for m in measured} == {TRIALS * WORKERS // RANKS * task.d * task.dtype.itemsize}
        agreed = [m for m in mine if m["for"] == "agreement"]
        assert {m["by"] for m in agreed} <= {"broadcast", "all_reduce", "all_gather_object"}
        assert max(m["bytes"] for m in agreed) <= 56  # of tensors: a flag, or a checksum
        assert len(agreed) <= 2 * ROUNDS + 8  # a word on stopping a round, and one on each checkpoint
        assert {m["by"] for m in mine if m["for"] == "start"} == {"all_gather_object"}
