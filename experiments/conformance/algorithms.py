"""What every algorithm keeps."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from algorithms.compressors import tensors
from algorithms.meter import Meter
from algorithms.protocol import Algorithm, as_dicts, from_dicts
from experiments.cluster.ranks import Ranks
from experiments.cluster.simulated import Simulated
from experiments.config.classes import parameter_types
from experiments.conformance.findings import demand, expect, expect_close, expect_same, given
from experiments.conformance.methods import ROUNDS, Build, Method, in_every_case
from experiments.conformance.payloads import expect_bits
from experiments.conformance.quadratic import (
    LRS,
    SEED,
    WORKERS,
    D,
    Parted,
    column,
    excess,
    flat,
    quadratic,
    simulated,
    start,
)
from experiments.record.checkpoint import Checkpoint

LONG_ENOUGH = 150
"""Rounds after which f is to be a tenth, with one of GRID's step sizes."""

GRID = tuple(10 ** (-k / 2) for k in range(7))
"""1 down to 0.001."""


def check_algorithm(function: Callable[..., Algorithm], **options: Any) -> None:
    """Raise Violation with every promise of an algorithm (algorithms/protocol.py) that this function's breaks.

    It is tried on a small quadratic with every compressor and update of this project that it takes, or with the
    `compressor` and the `update` that are given among its options.
    """
    demand(CHECKS, Method(function, **options))


def has_typed_options(method: Method) -> None:
    """Every parameter has an annotation, by which configurations are checked, and `compressor` is one."""
    hints = parameter_types(method.function)
    names = list(inspect.signature(method.function).parameters)
    expect("compressor" in names, "a parameter compressor", names)
    bare = [name for name in names if name not in hints]
    expect(not bare, "annotations", f"none at {', '.join(bare)}")


@in_every_case
def runs_on_the_wire_as_simulated(build: Build) -> None:
    """What is sent as bytes between two ranks gives the simulation's model, bit for bit in every round."""
    for (t, ranks), state in zip(_parted(build), simulated(build(), ROUNDS)[1:], strict=True):
        with given(f"round {t}"):
            expect_same(ranks.ranks[0].replica.x, state.replica.x, "the simulation's x")


@in_every_case
def keeps_replicas_equal(build: Build) -> None:
    """Both ranks hold the same model, signal and moments."""
    for t, ranks in _parted(build):
        with given(f"round {t}"):
            first, second = (dict(_tensors(rank.replica)) for rank in ranks.ranks)
            for name, tensor in first.items():
                expect_same(second[name], tensor, f"{name} of the second rank to be the first's")


@in_every_case
def is_deterministic(build: Build) -> None:
    """Two runs of a seed are the same, bit for bit."""
    torch.manual_seed(0)
    first = simulated(build(), ROUNDS)[-1]
    torch.manual_seed(1)
    expect_same(simulated(build(), ROUNDS)[-1].replica.x, first.replica.x, "x of the first run")


@in_every_case
def resumes(build: Build) -> None:
    """A run that goes on from a checkpoint, in a new process, is the uninterrupted one, bit for bit."""
    states = simulated(build(), ROUNDS)
    half = ROUNDS // 2
    nothing = torch.zeros(len(LRS), WORKERS, 0)
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Checkpoint(Path(folder), Ranks())
        content = {"t": half, "cluster": as_dicts(states[half]), "statistics": nothing}
        checkpoint.save(content, range(WORKERS))
        loaded = checkpoint.load(range(WORKERS), torch.device("cpu"))
    state, cluster = from_dicts(loaded["cluster"], states[half]), Simulated(build(), WORKERS, SEED)
    for t in range(half + 1, ROUNDS + 1):
        state = cluster.round(quadratic(state.replica.x), state, column(LRS), t)
        expect_same(state.replica.x, states[t].replica.x, f"the uninterrupted run's x of round {t}")


@in_every_case
def keeps_shapes_and_dtypes(build: Build) -> None:
    """All state of workers is [T, W, d], all other [T, d], in the dtype of x; so is what workers want to send."""
    for dtype in (torch.float32, torch.float64):
        algorithm = build()
        state = simulated(algorithm, 3, dtype=dtype)[-1]
        wanted, _ = algorithm.outgoing(
            quadratic(state.replica.x), state.workers, state.replica, column(LRS, dtype), ROUNDS
        )
        one, each = (len(LRS), D), (len(LRS), WORKERS, D)
        for name, tensor in (*_tensors(state), ("workers: outgoing", wanted)):
            shape = each if name.startswith("workers") else one
            seen = f"{list(tensor.shape)}, {tensor.dtype}"
            expect((tuple(tensor.shape), tensor.dtype) == (shape, dtype), f"{name} {list(shape)}, {dtype}", seen)


@in_every_case
def leaves_gradients_and_state(build: Build) -> None:
    """A round changes neither the gradients nor the state before it in place."""
    algorithm = build()
    cluster, state = Simulated(algorithm, WORKERS, SEED), simulated(algorithm, 3)[-1]
    gradients = quadratic(state.replica.x)
    before = {name: tensor.clone() for name, tensor in (*_tensors(state), ("gradients", gradients))}
    for t in (4, ROUNDS):
        cluster.round(gradients, state, column(LRS), t)
        algorithm.outgoing(gradients, state.workers, state.replica, column(LRS), t)
        for name, tensor in (*_tensors(state), ("gradients", gradients)):
            expect_same(tensor, before[name], f"{name} as before round {t}")


@in_every_case
def takes_trials_apart(build: Build) -> None:
    """A trial of a batch is what it is alone, up to rounding."""
    together = simulated(build(), ROUNDS)[-1].replica.x
    for trial, lr in enumerate(LRS):
        alone = simulated(build(), ROUNDS, lrs=(lr,))[-1].replica.x
        expect_close(together[trial], alone[0], 1e-9, f"trial {trial} as alone")


@in_every_case
def takes_a_number_and_no_trials(build: Build) -> None:
    """It takes x [d], gradients [W, d] and a number as step size, as a training loop of one's own has them."""
    cluster = Simulated(build(), WORKERS, SEED)
    state = cluster.start(start()[0])
    for t in range(1, ROUNDS + 1):
        state = cluster.round(quadratic(state.replica.x), state, LRS[0], t)
    expect_close(state.replica.x, simulated(build(), ROUNDS)[-1].replica.x[0], 1e-9, "x as that of a trial")


@in_every_case
def stays_at_rest(build: Build) -> None:
    """Gradients of zero leave x where it is, and where there is weight decay finite."""
    algorithm = build()
    x = simulated(algorithm, ROUNDS, flat)[-1].replica.x
    expect(x.isfinite().all(), "finite numbers", x[~x.isfinite()][:1].tolist())
    if not (algorithm.update.weight_decay or getattr(algorithm, "weight_decay", 0)):
        expect_same(x, start(), f"x₁ after {ROUNDS} rounds")


@in_every_case
def counts_its_bits(build: Build) -> None:
    """Bits and bytes counted are those of what is sent, up and down, in every round."""
    algorithm = build()
    for t, ranks in _parted(build):
        meter = Meter()
        meter.count(algorithm, D, t, torch.float64)
        up = tuple(part[0, 0] for part in tensors(ranks.up))
        down = tuple(part[0] for part in tensors(ranks.down))
        for way, counted, payload in (("up", meter.bits_up, up), ("down", meter.bits_down, down)):
            with given(f"round {t}, {way}"):
                expect_bits(counted, payload, torch.float64)
        sent = sum(part.nbytes for part in (*up, *down))
        expect(meter.payload_bytes == sent, f"payload_bytes of {sent}", meter.payload_bytes)


@in_every_case
def descends(build: Build) -> None:
    """Some step size brings a small quadratic down to a tenth in 150 rounds."""
    states = simulated(build(rounds=LONG_ENOUGH), LONG_ENOUGH, lrs=GRID)
    share = excess(states[-1].replica.x) / excess(states[0].replica.x)
    reached = {f"{lr:.2g}": f"{s:.2g}" for lr, s in zip(GRID, share.tolist(), strict=True)}
    expect((share <= 0.1).any(), "a tenth of f(x₁) − min f", f"these shares of it by step size: {reached}")


CHECKS = (
    has_typed_options,
    runs_on_the_wire_as_simulated,
    keeps_replicas_equal,
    is_deterministic,
    resumes,
    keeps_shapes_and_dtypes,
    leaves_gradients_and_state,
    takes_trials_apart,
    takes_a_number_and_no_trials,
    stays_at_rest,
    counts_its_bits,
    descends,
)
"""In the order in which they are reported."""


def _parted(build: Build) -> Iterator[tuple[int, Parted]]:
    """Two ranks after every round."""
    ranks = Parted(build, start())
    for t in range(1, ROUNDS + 1):
        ranks.round(quadratic(ranks.ranks[0].replica.x), column(LRS), t)
        yield t, ranks


def _tensors(node: object, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """The names and tensors of nested state, but for the numbers of workers."""
    if isinstance(node, Tensor) and not name.endswith("ids"):
        yield name, node
    elif isinstance(parts := as_dicts(node), dict):
        for part, content in parts.items():
            yield from _tensors(content, f"{name}.{part}".lstrip("."))
