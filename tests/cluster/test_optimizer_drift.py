"""Ranks that train with CompressedOptimizer and do not agree: every fault is named on all of them.

One launch of three ranks goes through all cases; the group is whole after each, for all ranks raise.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from cluster_support import LR, call_within, results_of, small_shards, spawn, watch
from small_network import count_bits, gradients, loss, network, simulate, vector
from torch.nn.utils import vector_to_parameters

from algorithms.comm.consistency import BYTES, Disagreement, _verdict
from algorithms.compressors import Identity, RandomK, ScaledSign, TopK
from algorithms.compressors.base import payload_bytes
from algorithms.core.update_rules import SGD, AMSGrad
from algorithms.methods.amsgrad import amsgrad
from algorithms.methods.cd_adam import cd_adam
from algorithms.methods.error_feedback import error_feedback
from algorithms.methods.onebit_adam import onebit_adam
from algorithms.methods.quantized_adam import quantized_adam
from algorithms.optim.optimizer import CompressedOptimizer
from algorithms.optim.optimizer_state import round_state
from experiments.cluster.base import Simulated

RANKS, STEPS, AT, D = 3, 6, 4, 32  # the fault is before step AT
BESIDE = BYTES + 8  # flags of up to 63 parameters are a number
SIGN, DENSE = cd_adam(ScaledSign(), AMSGrad()), amsgrad(Identity(), AMSGrad())
ALGORITHMS = {
    "cd_adam": SIGN,
    "error_feedback": error_feedback(RandomK(k=4), SGD()),
    "onebit_adam": onebit_adam(ScaledSign("l2"), STEPS, warmup=3),
    "quantized_adam": quantized_adam(TopK(k=5)),
}


class Training:
    """A rank's training, in which `fault` may happen to one rank, or to all, before step AT."""

    def __init__(self, algorithm: object = SIGN, seed: int = 3, **options: object) -> None:
        alike, dtype = options.get("replicated"), torch.float64 if options.get("double") else torch.float32
        self.net = network(0 if alike else dist.get_rank(options.get("group")), dtype)
        named = [(f"{options.get('prefix')} {name}", param) for name, param in self.net.named_parameters()]
        parameters = named[:: -1 if options.get("reversed") else 1]
        more = {"replicated": self.net} if alike else {"process_group": options.get("group")}
        parameters = parameters[:2] if alike else parameters
        if options.get("grouped"):
            parameters = [{"params": parameters[:2]}, {"params": parameters[2:], "compressor": None, "lr": LR / 5}]
        self.optimizer = CompressedOptimizer(parameters, algorithm, LR, seed, **more)  # pyright: ignore

    def run(self, odd: int | None = None, fault: Callable = bool, scaler: object = None) -> dict:
        """Steps 1 to STEPS; what was raised, if anything, and what it left."""
        path, optimizer, rank = [], self.optimizer, dist.get_rank()
        scaling = scaler or torch.amp.GradScaler("cpu", enabled=False)
        for step in range(1, STEPS + 1):
            optimizer.zero_grad()
            scaling.scale(loss(self.net, rank, step)).backward()
            if step == AT and odd in (None, rank):
                fault(self)
            before = round_state(optimizer.state_dict())["digest"]
            try:
                scaling.step(optimizer)
            except (Disagreement, ValueError) as error:
                return told(error) | {"changed": round_state(optimizer.state_dict())["digest"] != before}
            scaling.update()
            path.append(vector(self.net))
        return {"x": torch.stack(path), "t": optimizer.t, "skipped": optimizer.skipped, "bits": optimizer.meter.bits}

    def traffic(self) -> dict:
        """A run without a fault, and every collective of it with its bytes."""
        messages = []
        with watch(lambda name, size: messages.append((name, size))):
            return self.run() | {"messages": messages}


def told(error: Exception) -> dict:
    """An error as it is compared."""
    known = {name: getattr(error, name) for name in ("rank", "step", "quantity") if hasattr(error, name)}
    return {"error": type(error).__name__, "text": str(error)} | known


def move(change: Callable[[torch.Tensor], object], training: Training) -> None:
    """Change this rank's parameters [32]."""
    x = vector(training.net)
    change(x)
    vector_to_parameters(x, training.net.parameters())


def flip(bit: int, x: torch.Tensor, at: int = 17) -> None:
    """One bit of one coordinate."""
    x.view(torch.int32)[at] ^= (1 << bit) if bit < 31 else -(1 << 31)


def set_group(training: Training, group: int = 0, **values: object) -> None:
    training.optimizer.param_groups[group].update(values)


def advance(rounds: int, training: Training) -> None:
    """As after loading the state of another round."""
    training.optimizer.t += rounds


def poison(value: float, training: Training) -> None:
    """One coordinate of this rank's gradient."""
    [*_, last] = training.net.parameters()
    last.grad[1] = value  # pyright: ignore[reportOptionalSubscript]


def without_gradient(training: Training) -> None:
    """As where a batch does not reach the first layer."""
    for param in training.net[0].parameters():  # pyright: ignore[reportIndexIssue]
        param.grad = None


def freeze(training: Training) -> None:
    training.net[0].requires_grad_(False)  # pyright: ignore[reportIndexIssue]


def one_is_frozen(training: Training) -> None:
    """Rank 0 has no gradient of the second layer, and nobody has one of the first."""
    freeze(training)
    if dist.get_rank() == 0:
        training.net[2].zero_grad()  # pyright: ignore[reportIndexIssue]


def to_double(training: Training) -> None:
    training.net.double()


LOADS = {"into the warm-up": -2, "within the warm-up": -1, "out of the run": 3}  # messages of another length
DRIFTS = {
    "lr by one ulp": (partial(set_group, lr=LR * (1 + 2**-52)), "lr"),
    "lr negative": (partial(set_group, lr=-LR), "lr"),
    **{f"bit {bit} of x": (partial(move, partial(flip, bit)), "x") for bit in (0, 31)},
    "replicated": (partial(move, partial(flip, 0, at=31)), "replicated"),
    "round": (partial(advance, 1), "round"),
    "betas": (partial(set_group, betas=(0.9, 0.98)), "settings"),
    "weight_decay": (partial(set_group, weight_decay=0.1), "settings"),
    "lr of the second group": (partial(set_group, group=1, lr=LR), "settings"),
    **{name: (partial(advance, rounds), "round") for name, rounds in LOADS.items()},
}
WRONG = {  # on all ranks
    "betas": (partial(set_group, betas=(1.0, 0.99)), "beta1=1.0"),
    **{f"lr {lr}": (partial(set_group, lr=lr), f"lr={lr}") for lr in (-LR, float("inf"))},
    "held by the server": (freeze, f"step {AT}: some parameters have no gradient on any rank, and the server"),
}
STAYS = {  # what happens in step AT, and whose gradients of each layer count then
    "without gradient": (without_gradient, ([False] * RANKS, [True] * RANKS)),
    "frozen, and missing on one": (one_is_frozen, ([False] * RANKS, [False] + [True] * (RANKS - 1))),
}
SKIPS = {
    "nan": (partial(poison, float("nan")), None),
    "scaler": (partial(poison, float("inf")), torch.amp.GradScaler),  # pyright: ignore
}
STARTS = {"seed": {"seed": 4}, "algorithm": {"algorithm": DENSE}, "shapes": {"reversed": 1}, "dtype": {"double": 1}}
STARTS["names"] = {"prefix": 1}


def everything() -> dict:
    last, results = RANKS - 1, {}
    for name, (fault, _) in DRIFTS.items():
        algorithm = ALGORITHMS["onebit_adam"] if name in LOADS else SIGN
        for odd in (0, last):
            training = Training(algorithm, grouped="group" in name, replicated=name == "replicated")
            results[name, odd] = training.run(odd, fault)
    for name, (fault, _) in WRONG.items():
        algorithm = ALGORITHMS["quantized_adam"] if name == "held by the server" else SIGN  # the server has the model
        results["all", name] = Training(algorithm).run(None, fault)
    for name, (fault, kind) in SKIPS.items():
        for which, algorithm in ALGORITHMS.items():
            scaler = kind("cpu", init_scale=2.0**10) if kind else None
            results[name, which] = Training(algorithm).run(last, fault, scaler)
    for name, options in STARTS.items():
        try:
            Training(**(options if dist.get_rank() == last else {}))  # pyright: ignore[reportArgumentType]
        except Disagreement as error:
            results["start", name] = told(error)
    results["alike"] = Training().run(None, partial(move, lambda x: x.clamp_(-0.1, 0.1)))
    for name, (fault, _) in STAYS.items():
        results[name] = Training().run(None, fault)
    results["double"] = Training().run(last, to_double)
    results["all double"] = Training().run(None, to_double)
    group = dist.new_group([1, 2])
    try:
        results["subgroup"] = Training(group=group).run()
    except ValueError as error:
        results["subgroup"] = told(error)
    results["traffic"] = Training(ALGORITHMS["onebit_adam"]).traffic()
    results["groups"] = Training(grouped=True).traffic()
    return results


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory, context: Callable) -> list[dict]:
    """What every rank came to in every case, with one server and with several."""
    found = results_of(tmp_path_factory.mktemp("drift"), RANKS, partial(call_within, context, everything))
    for results in found:
        results["sharded"] = context is small_shards
    return found


@pytest.mark.parametrize("name", DRIFTS)
def test_what_differs_is_named_on_every_rank_and_nothing_has_changed(name: str, ranks: list[dict]) -> None:
    quantity = DRIFTS[name][1]
    for odd in (0, RANKS - 1):
        found = [results[name, odd] for results in ranks]
        assert {one["error"] for one in found} == {"Disagreement"}
        assert len({one["text"] for one in found}) == 1
        assert (found[0]["rank"], found[0]["step"], found[0]["quantity"]) == (odd, AT, quantity)
        assert found[0]["text"].startswith(f"step {AT}: rank {odd} differs from the others in {quantity}: ")
        assert name != "lr negative" or "-0.05 instead of 0.05;" in found[0]["text"]
        assert not any(one["changed"] for one in found)


@pytest.mark.parametrize("name", STAYS)
def test_a_layer_without_a_gradient_on_any_rank_stays_and_one_missing_on_some_counts_as_zero(
    name: str, ranks: list[dict]
) -> None:
    """As in a simulation whose x is put back there. Memories go on as with a gradient of zeros."""
    cluster, counting = Simulated(SIGN, RANKS, seed=3), torch.tensor(STAYS[name][1]).T
    state = cluster.start(vector(network()))
    for step in range(1, STEPS + 1):
        before, found = state.replica.x, gradients(state.replica.x, RANKS, step)
        counts = counting if step == AT or (step > AT and "frozen" in name) else torch.ones_like(counting)
        if step > AT:  # the other ranks' gradients are back
            counts = torch.where(counting.any(0), True, counts)
        of_coordinates = counts.repeat_interleave(torch.tensor((20, 12)), dim=1)
        state = cluster.round(torch.where(of_coordinates, found, 0.0), state, LR, step)
        x = torch.where(of_coordinates.any(0), state.replica.x, before)
        state = replace(state, replica=replace(state.replica, x=x))
        for results in ranks:
            assert torch.equal(results[name]["x"][step - 1], x), step


def test_a_rank_that_cannot_step_ends_the_step_of_all(ranks: list[dict]) -> None:
    for rank, results in enumerate(ranks):
        one, all_ranks = results["double"], results["all double"]
        assert "parameter 0 was (5, 3) torch.float32 cpu and is (5, 3) torch.float64" in all_ranks["text"]
        assert (one["changed"], all_ranks["changed"]) == (False, False)
        if rank == RANKS - 1:
            assert one["text"] == all_ranks["text"]
        else:
            assert (one["error"], one["rank"], one["quantity"]) == ("Disagreement", RANKS - 1, "parameters")
            assert "it cannot step; see the error of that rank" in one["text"]


def test_ranks_of_a_group_train_together_and_others_are_refused(ranks: list[dict]) -> None:
    expected = simulate(SIGN, RANKS - 1, STEPS, gradients=lambda x, _, step: gradients(x, RANKS, step)[1:])
    for results in ranks[1:]:
        assert torch.equal(results["subgroup"]["x"], expected)
    assert "this rank is not in process_group=" in ranks[0]["subgroup"]["text"]


def test_of_two_ranks_the_server_counts_as_right() -> None:
    assert _verdict([[4, 70, 5, 0, 4], [4, 71, 5, 0, 4]])[1:4] == [1, 71, 70]
    assert _verdict([[4, 70, 5, 0, 4], [4, 71, 5, 0, 4], [4, 71, 5, 0, 4]])[1:4] == [0, 70, 71]


@pytest.mark.parametrize("name", WRONG)
def test_what_no_rank_can_do_is_refused_on_all(name: str, ranks: list[dict]) -> None:
    for results in ranks:
        found = results["all", name]
        assert (found["error"], found["changed"]) == ("ValueError", False)
        assert WRONG[name][1] in found["text"]


def test_groups_cross_in_two_messages_and_equal_simulations_of_their_own(ranks: list[dict]) -> None:
    """Where each simulation has the gradients of the whole network and keeps the coordinates of its group."""
    split, algorithms, lrs = (20, 12), (SIGN, DENSE), (LR, LR / 5)  # weight and bias of either layer
    clusters = [Simulated(algorithm, RANKS, seed=3) for algorithm in algorithms]
    states = [cluster.start(part) for cluster, part in zip(clusters, vector(network()).split(split), strict=True)]
    for step in range(1, STEPS + 1):
        parts = gradients(torch.cat([state.replica.x for state in states]), RANKS, step).split(split, 1)
        states = [
            cluster.round(part, state, lr, step)
            for cluster, part, state, lr in zip(clusters, parts, states, lrs, strict=True)
        ]
        expected = torch.cat([state.replica.x for state in states])
        assert all(torch.equal(results["groups"]["x"][step - 1], expected) for results in ranks)
    length = BESIDE + sum(
        payload_bytes(algorithm.uplink.codec(1), d, torch.float32)
        for algorithm, d in zip(algorithms, split, strict=True)
    )
    for results in ranks:
        if not results["sharded"]:
            assert results["groups"]["messages"] == [("gather", length), ("broadcast", length)] * STEPS


@pytest.mark.parametrize("which", ALGORITHMS)
@pytest.mark.parametrize("name", SKIPS)
def test_a_gradient_that_is_not_finite_leaves_the_round_out_on_all_ranks(
    name: str, which: str, ranks: list[dict]
) -> None:
    expected = simulate(ALGORITHMS[which], RANKS, STEPS, left_out=AT)
    bits = count_bits(ALGORITHMS[which], D, STEPS - 1).bits
    for results in ranks:
        found = results[name, which]
        assert (found["t"], found["skipped"], found["bits"]) == (STEPS - 1, 1, bits)
        assert torch.equal(found["x"], expected)


@pytest.mark.parametrize("name", STARTS)
def test_ranks_that_start_differently_do_not_start(name: str, ranks: list[dict]) -> None:
    for results in ranks:
        found = results["start", name]
        assert (found["error"], found["rank"]) == ("Disagreement", RANKS - 1)
        assert (found["step"], found["quantity"]) == (0, name)


def test_parameters_may_be_changed_alike(ranks: list[dict]) -> None:
    paths = [results["alike"]["x"] for results in ranks]
    assert all(torch.equal(path, paths[0]) for path in paths)
    assert paths[0][AT - 1].abs().max() < 0.1 + 3 * LR < paths[0][AT - 2].abs().max()


def test_a_step_is_two_messages_of_the_bytes_that_are_counted_and_a_fixed_header(ranks: list[dict]) -> None:
    algorithm = ALGORITHMS["onebit_adam"]
    for results in ranks if not ranks[0]["sharded"] else ():
        assert results["traffic"]["messages"] == [
            (name, payload_bytes(channel.codec(t), D, torch.float32) + BESIDE)
            for t in range(1, STEPS + 1)
            for name, channel in (("gather", algorithm.uplink), ("broadcast", algorithm.downlink))
        ]


def leaving() -> None:
    """One rank refuses a state of something else and goes; what the other one then meets."""
    dist.init_process_group("gloo")
    training = Training()
    try:
        training.run(1, lambda training: training.optimizer.load_state_dict({"state": {}, "param_groups": []}))
    finally:
        if dist.get_rank() == 1:
            os._exit(3)


@pytest.mark.slow
def test_a_rank_that_refused_its_state_is_not_waited_for(tmp_path: Path) -> None:
    stayed, left = spawn(tmp_path, 2, leaving)
    assert (stayed.code, left.code) == (1, 3)
    assert "LostContact" in stayed.said
