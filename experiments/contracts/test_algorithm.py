"""The contract of algorithms (algorithms/core/algorithm.py), on a small quadratic.

The fixture `build_algorithm` is under test: one of the `cases` of a function.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from inspect import Parameter
from io import BytesIO
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from algorithms.comm.gather_broadcast import from_bytes, to_bytes
from algorithms.compressors import Blocks, Compressor, Identity, Natural, Payload, RandomK, ScaledSign, TopK, tensors
from algorithms.core import tiles
from algorithms.core.algorithm import Algorithm, ReplicaState, as_dicts, from_dicts, leaves
from algorithms.core.bit_counter import BitCounter
from algorithms.core.update_rules import SGD, Adam, AMSGrad
from algorithms.utils.layout import laid_out
from algorithms.utils.seeding import MessageKey
from experiments.cluster.base import ClusterState, Simulated
from experiments.contracts.assertions import (
    assert_bits,
    assert_close,
    assert_form,
    assert_pure,
    assert_same,
    assert_typed,
    note_input,
    tensors_in,
)

D, WORKERS, SEED, ROUNDS = 12, 4, 3, 12
LAYOUT = laid_out([("hidden", (4, 2), "matrix"), ("bias", (2,), "vector"), ("output", (1, 2), "head")])
LRS = torch.tensor([[0.02], [0.1]], dtype=torch.float64)  # [T, 1]
CHOICES = {
    "compressor": (TopK(k=2), RandomK(k=6), Natural(), Blocks(ScaledSign(), (7, 5))),
    "update": (SGD(momentum=0.5), Adam(), AMSGrad()),
}

_CURVATURES = torch.linspace(0.5, 2, D, dtype=torch.float64)
# No coordinate of x₁ is near its best, because methods with a frozen second moment would take wild steps there.
_NOISE = torch.randn(WORKERS, D, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
_CENTRES = _NOISE[0].sign() + 0.1 * _NOISE


def gradients(x: Tensor, ids: Tensor | slice = slice(None)) -> Tensor:
    """∇f_i(x_i) = a·(x_i − b_i) of workers at x [*T, W or 1, d], a between 1/2 and 2 and the b_i near one another."""
    return (_CURVATURES * (x.double() - _CENTRES[ids])).to(x.dtype)


def start(*trials: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return x₁ [*T, d]: 1/2 everywhere, which methods that quantize weights by their largest send exactly."""
    return torch.full((*trials, D), 0.5, dtype=dtype)


@dataclass(frozen=True, eq=False)
class Case:
    """A way to build an algorithm, anew at every call. Functions get the facts of a run that they have parameters
    for."""

    function: Callable[..., Algorithm]
    options: dict[str, Any]

    def __call__(self, rounds: int = ROUNDS) -> Algorithm:
        known = inspect.signature(self.function).parameters
        run = {"rounds": rounds, "workers": WORKERS, "seed": SEED, "d": D, "layout": LAYOUT}
        return self.function(**{name: value for name, value in run.items() if name in known} | self.options)

    def __str__(self) -> str:
        return ", ".join(str(self.options[name]) for name in CHOICES if name in self.options)


def cases(function: Callable[..., Algorithm], **options: Any) -> list[Case]:
    """Return cases with each compressor and update that a function accepts, once.

    A part among the options is the only one. Raises ValueError if the function accepts none, and TypeError if it
    cannot be called with these options.
    """
    hints = {name: one.annotation for name, one in inspect.signature(function, eval_str=True).parameters.items()}
    free = {name: _choose_parts(name, hints[name]) for name in CHOICES if name in hints and name not in options}
    made, covered = [], set[int]()
    refused = ValueError("none of the compressors and updates here has the type of its parameter")
    longest = max(map(len, free.values()), default=1) if all(free.values()) else 0
    # All combinations; the first ones cover every part.
    for shift, k in product(range(longest), repeat=2):
        parts = {name: all_[(k + shift * place) % len(all_)] for place, (name, all_) in enumerate(free.items())}
        if made and covered.issuperset(map(id, parts.values())):
            continue
        case = Case(function, parts | options)
        try:
            case()
        except ValueError as error:
            refused = error
        else:
            made.append(case)
            covered.update(map(id, parts.values()))
    if not made:
        raise refused
    return made


def _choose_parts(name: str, kind: Any) -> list[Any]:
    """Return the parts that fit an annotation, or else an object of that class of compressors."""
    parts = [part for part in CHOICES[name] if kind is Parameter.empty or isinstance(part, kind)]
    if not parts and inspect.isclass(kind) and issubclass(kind, Compressor):
        parts = [Identity() if issubclass(Identity, kind) else kind()]
    return parts


class TestAlgorithm:
    def test_has_typed_options(self, build_algorithm: Case) -> None:
        """Every parameter has an annotation, by which configurations are checked, and `compressor` is one."""
        assert_typed(build_algorithm.function, "compressor")

    def test_is_distributed_as_simulated(self, build_algorithm: Case) -> None:
        """Two ranks hold the simulation's model, and the same signal and moments, bit for bit in every round."""
        simulated = simulate(build_algorithm)
        for t, (_, _, (first, second)) in enumerate(two_ranks(build_algorithm), 1):
            with note_input(f"round {t}"):
                assert_same(first.x, simulated[t].replica.x, "x on two ranks and simulated")
                assert_same(second, first, "the second rank and the first")

    def test_resumes(self, build_algorithm: Case) -> None:
        """A run resumed from a checkpoint, in a new process, equals the uninterrupted one, bit for bit."""
        whole, half = simulate(build_algorithm), ROUNDS // 2
        file = BytesIO()
        torch.save(as_dicts(whole[half]), file)
        file.seek(0)
        cluster = Simulated(build_algorithm(), WORKERS, SEED)
        state = from_dicts(torch.load(file, weights_only=True), cluster.start(start(2)))
        for t in range(half + 1, ROUNDS + 1):
            state = cluster.round(seen_gradients(cluster.algorithm, state, t), state, LRS, t)
            assert_same(state.replica.x, whole[t].replica.x, f"x of round {t}, resumed and uninterrupted")

    def test_goes_in_tiles(self, build_algorithm: Case) -> None:
        """If all parts are `is_coordinatewise`, rounds by tiles of a few coordinates equal those of whole vectors."""
        algorithm, x = build_algorithm(), start()
        if not tiles.supports_tiles(algorithm, x.device):
            pytest.skip("a part of it does not say that it is coordinatewise")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tiles, "TILE", 4)
            patch.setattr("algorithms.compressors.shard.LEAST", 4)  # sums are of pieces
            for t, (whole, parts) in enumerate(
                run_whole_and_tiled(algorithm, x, [partial(gradients, ids=slice(1))] * ROUNDS, SEED), 1
            ):
                assert_close(parts, whole, 1e-9, f"x of round {t}, by tiles of 4 coordinates and whole")

    def test_keeps_shapes_and_dtypes(self, build_algorithm: Case) -> None:
        """State is tensors in the dtype of x: [T, W, …] of workers, else [T, …]. Worker messages are [T, W, d], and
        vectors of replicas [T, d]."""
        algorithm = build_algorithm()
        single = states(algorithm, start(2, dtype=torch.float32), LRS.float(), rounds=3)[-1]
        for state in (single, simulate(build_algorithm)[-2]):
            for name, leaf in leaves(as_dicts(state)):
                tensor = leaf is None or isinstance(leaf, Tensor)
                assert tensor, f"{name}: state must be a tensor, for checkpoints; saw {leaf!r}"
            dtype = state.replica.x.dtype
            wanted, _ = algorithm.worker_message(
                seen_gradients(algorithm, state, ROUNDS), state.workers, state.replica, LRS.to(dtype), ROUNDS
            )
            whole = ("workers.worker_message", "replica.x", "replica.signal", "replica.previous")
            for name, tensor in {**tensors_in(state), "workers.worker_message": wanted}.items():
                if name != "workers.ids":
                    lead = (2, WORKERS) if name.startswith("workers") else (2,)
                    assert_form(tensor, (*lead, D if name in whole else tensor.shape[-1]), dtype, name)

    def test_leaves_gradients_and_state(self, build_algorithm: Case) -> None:
        """A round is the same at every call, and changes neither the gradients nor the state before it in place."""
        algorithm = build_algorithm()
        for t in (4, ROUNDS):
            state = simulate(build_algorithm)[t - 1]
            with note_input(f"round {t}"):
                a_round = partial(Simulated(algorithm, WORKERS, SEED).round, lr=LRS, t=t)
                seen = seen_gradients(algorithm, state, t)
                assert_pure(a_round, (seen, state), (gradients(start(2).unsqueeze(-2)), state))

    def test_takes_trials_apart(self, build_algorithm: Case) -> None:
        """A trial of a batch gives, up to rounding, the result of x [d] and a number as step size."""
        together = simulate(build_algorithm)[-1].replica.x
        alone = states(build_algorithm(), start(), float(LRS[1]))[-1].replica.x
        assert_close(alone, together[1], 1e-9, "x of trial 1 alone and in a batch")

    def test_uses_lr_and_update(self, build_algorithm: Case) -> None:
        """Another step size gives another x, and so does another update if `update` is a parameter."""
        first, second = simulate(build_algorithm)[-1].replica.x
        if torch.equal(first, start()):
            pytest.skip(f"it moves x later than in round {ROUNDS}")
        assert not torch.equal(first, second), (
            f"x after {ROUNDS} rounds: expected another by another lr, saw the same"
        )
        if (update := build_algorithm.options.get("update")) is None:
            return
        with suppress(ValueError):  # some refuse weight decay
            options = {**build_algorithm.options, "update": replace(update, weight_decay=0.5)}
            decayed = states(replace(build_algorithm, options=options)(), start(2), LRS)[-1].replica.x[0]
            text = f"x after {ROUNDS} rounds: expected another by an update with weight_decay=0.5, saw the same"
            assert not torch.equal(first, decayed), text

    def test_stays_at_rest(self, build_algorithm: Case) -> None:
        """Zero gradients leave x unchanged, or finite with weight decay or a compressor that has no zero."""
        algorithm = build_algorithm()
        x = states(algorithm, start(2), LRS, slope=0)[-1].replica.x
        assert_form(x, (2, D), torch.float64, f"x after {ROUNDS} rounds")
        rests = algorithm.uplink.compressor.keeps_zero and algorithm.downlink.compressor.keeps_zero
        if rests and not (algorithm.update.weight_decay or getattr(algorithm, "weight_decay", 0)):
            assert_same(x, start(2), f"x after {ROUNDS} rounds and before")

    def test_counts_its_bits(self, build_algorithm: Case) -> None:
        """Counted bits and bytes equal the sent ones, up and down, in every round."""
        algorithm = build_algorithm()
        for t, (up, down, _) in enumerate(two_ranks(build_algorithm), 1):
            meter = BitCounter()
            meter.count(algorithm, D, t, torch.float64)
            ups, downs = tuple(part[0, 0] for part in tensors(up)), tuple(part[0] for part in tensors(down))
            for way, counted, payload in (("up", meter.bits_up, ups), ("down", meter.bits_down, downs)):
                with note_input(f"round {t}, {way}"):
                    assert_bits(counted, payload, torch.float64)
            sent = sum(part.nbytes for part in (*ups, *downs))
            assert meter.payload_bytes == sent, f"expected {sent} payload_bytes, saw {meter.payload_bytes}"

    def test_descends(self, build_algorithm: Case) -> None:
        """Some step size brings a small quadratic down to a tenth within 150 rounds."""
        grid = [10 ** (-k / 2) for k in range(7)]
        lrs = torch.tensor(grid).double().unsqueeze(-1)
        algorithm = build_algorithm(rounds=150)
        cluster = Simulated(algorithm, WORKERS, SEED)
        state = cluster.start(start(len(grid)))
        first = last = suboptimality(cluster, state)
        for t in range(1, 151):
            state = cluster.round(seen_gradients(algorithm, state, t), state, lrs, t)
            if t % 10 == 0 and ((last := suboptimality(cluster, state)) <= 0.1 * first).any():
                return
        reached = {f"{lr:.2g}": f"{left:.2g}" for lr, left in zip(grid, (last / first).tolist(), strict=True)}
        raise AssertionError(f"expected a tenth of f(x₁) − min f, saw by step size {reached} of it")


class Stored:
    """A vector that is read and written in slices."""

    def __init__(self, vector: Tensor) -> None:
        self.vector = vector.clone()

    def read(self, begin: int, end: int) -> Tensor:
        return self.vector[begin:end]

    def write(self, begin: int, values: Tensor) -> None:
        self.vector[begin : begin + len(values)] = values


def run_whole_and_tiled(
    algorithm: Algorithm, x: Tensor, gradients: Iterable[Callable[[Tensor], Tensor]], seed: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield x [d] of one worker after every round, on whole vectors and by tiles in place; gradients of x [1, d]."""

    def begin() -> tiles.States:
        start = algorithm.start_workers(x, torch.tensor([0])), algorithm.start_server(x), algorithm.start_replica(x)
        return tiles.States(*start)

    worker, server, replica = begin()
    stored, states = Stored(x), begin()
    states = states._replace(replica=replace(states.replica, x=x.new_empty(0)))
    in_place = tiles.TiledStates(algorithm, states, len(x))
    for t, gradient_of in enumerate(gradients, 1):
        gradient = gradient_of(replica.x)
        up, worker = algorithm.worker(gradient, worker, replica, 0.01, t, seed)
        down, server = algorithm.server(up, server, t, seed)
        replica = algorithm.replica(down, replica, 0.01, t)
        in_place.round(algorithm, Stored(gradient[0]), stored, 0.01, t, seed)
        yield replica.x, stored.vector


def suboptimality(cluster: Simulated, state: ClusterState) -> Tensor:
    """Return f(x) − min f [T] at the model that is evaluated."""
    x = cluster.model(state)
    assert x is not None, "no model"
    return (_CURVATURES * (x - _CENTRES.mean(0)) ** 2).sum(-1)


@cache
def simulate(build: Case) -> list[ClusterState]:
    """Simulate the run that several checks share."""
    torch.manual_seed(0)  # methods may not draw from torch's generator
    return states(build(), start(2), LRS)


def states(
    algorithm: Algorithm, x: Tensor, lr: float | Tensor, rounds: int = ROUNDS, slope: float = 1
) -> list[ClusterState]:
    """Return the states after 0, 1, …, `rounds` rounds from x, simulated, on `slope` times the quadratic."""
    cluster = Simulated(algorithm, WORKERS, SEED)
    states = [cluster.start(x)]
    for t in range(1, rounds + 1):
        states.append(cluster.round(slope * seen_gradients(algorithm, states[-1], t), states[-1], lr, t))
    return states


def seen_gradients(algorithm: Algorithm, state: ClusterState, t: int) -> Tensor:
    """Return the gradients that the algorithm sees in round t, at the workers' models."""
    workers, previous = state.workers, state.replica.previous
    own = gradients(state.replica.x.unsqueeze(-2) if workers.x is None else workers.x, workers.ids)
    if previous is None or algorithm.takes_full_gradient(t):
        return own
    return algorithm.variance_reduced_gradient(own, gradients(previous.unsqueeze(-2), workers.ids), workers, t)


@cache
def two_ranks(build: Case) -> list[tuple[Payload, Payload, list[ReplicaState]]]:
    """Return the messages up and down and the replicas of two ranks, after every round. The first rank also serves.

    Each rank has its own algorithm object, and messages between ranks are bytes.
    """
    torch.manual_seed(1)
    ranks, states, rounds = (build(), build()), [], []
    for algorithm, ids in zip(ranks, torch.arange(WORKERS).split(WORKERS // 2), strict=True):
        workers, server = algorithm.start_workers(start(2), ids), algorithm.start_server(start(2))
        states.append(ClusterState(workers, server, algorithm.start_replica(start(2))))
    for t in range(1, ROUNDS + 1):
        seen = [seen_gradients(*pair, t).contiguous() for pair in zip(ranks, states, strict=True)]
        for algorithm, state, own in zip(ranks, states, seen, strict=True):
            state.workers = algorithm.local_step(own, state.workers, state.replica, LRS, t)
        ups, downs = [], []
        for stages in zip(*(algorithm.stages(t, LRS) for algorithm in ranks), strict=True):
            sent = []
            for stage, state, own in zip(stages, states, seen, strict=True):
                payload, state.workers = stage.worker(own, state.workers, state.replica, LRS, t, SEED)
                sent.append(payload)
            ups.append(from_bytes(torch.cat([to_bytes(payload, 2) for payload in sent], 1), sent[0], 2))
            down, states[0].server = stages[0].server(ups[-1], states[0].server, t, SEED)
            downs.append(down)
            zeros = torch.zeros(2, stages[1].message_size(D), dtype=torch.float64)
            like = stages[1].downlink.codec(t).encode(zeros, MessageKey.none())
            arrived = from_bytes(to_bytes(down, 1), like, 1)
            for stage, state, message in zip(stages, states, (down, arrived), strict=True):
                state.replica = stage.replica(message, state.replica, LRS, t)
        for algorithm, state in zip(ranks, states, strict=True) if ups else ():
            state.workers = algorithm.sync_workers(state.workers, state.replica, t)
        rounds.append((tuple(ups), tuple(downs), [state.replica for state in states]))
    return rounds
