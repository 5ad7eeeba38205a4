"""Ranks that train with CompressedOptimizer and do not agree: every fault is named on all of them.

One launch of two ranks and one of three go through all cases; the group is whole after each, for all ranks raise.
"""

import os
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from cluster_support import fine, launched, loss, network
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch.optim.lr_scheduler import ReduceLROnPlateau

from algorithms.comm.consistency import BYTES, Disagreement
from algorithms.compressors import Identity, RandomK, ScaledSign, TopK
from algorithms.compressors.base import payload_bytes
from algorithms.core.bit_counter import BitCounter
from algorithms.core.update_rules import SGD, AMSGrad
from algorithms.methods.amsgrad import amsgrad
from algorithms.methods.cd_adam import cd_adam
from algorithms.methods.error_feedback import error_feedback
from algorithms.methods.onebit_adam import onebit_adam
from algorithms.methods.quantized_adam import quantized_adam
from algorithms.optim.optimizer import CompressedOptimizer
from experiments.cluster.simulated import Simulated

SIZES = (2, pytest.param(3, marks=pytest.mark.slow))
STEPS, AT, LR, D = 6, 4, 0.05, 32  # the fault is before step AT
SIGN = cd_adam(ScaledSign(), AMSGrad())
ALGORITHMS = {
    "cd_adam": SIGN,
    "error_feedback": error_feedback(RandomK(k=4), SGD()),
    "onebit_adam": onebit_adam(ScaledSign("l2"), STEPS, warmup=3),
    "quantized_adam": quantized_adam(TopK(k=5)),
}


class Training:
    """A rank's training, in which `fault` may happen to one rank, or to all, before step AT."""

    def __init__(self, algorithm: object = SIGN, seed: int = 3, **options: object) -> None:
        self.rank, self.net, self.scaler = dist.get_rank(), network(dist.get_rank()), None
        if options.get("double"):
            self.net.double()
        parameters = list(self.net.parameters())
        if options.get("reversed"):
            parameters.reverse()
        if options.get("grouped"):
            parameters = [{"params": parameters[:2]}, {"params": parameters[2:], "compressor": None, "lr": LR / 5}]
        self.optimizer = CompressedOptimizer(parameters, algorithm, LR, seed)  # pyright: ignore[reportArgumentType]

    def run(self, odd: int | None, fault: Callable[["Training"], None], scaler: object = None) -> dict:
        """Steps 1 to STEPS; what was raised, if anything, and what it left."""
        path, optimizer = [], self.optimizer
        for step in range(1, STEPS + 1):
            optimizer.zero_grad()
            value = loss(self.net, self.rank, step)
            (scaler.scale(value) if scaler else value).backward()  # pyright: ignore[reportAttributeAccessIssue]
            if step == AT and odd in (None, self.rank):
                fault(self)
            before = optimizer.state_dict()["digest"]
            try:
                scaler.step(optimizer) if scaler else optimizer.step()  # pyright: ignore[reportAttributeAccessIssue]
            except (Disagreement, ValueError) as error:
                return told(error) | {"changed": optimizer.state_dict()["digest"] != before}
            if scaler:
                scaler.update()  # pyright: ignore[reportAttributeAccessIssue]
            path.append(parameters_to_vector(self.net.parameters()).detach().clone())
        self.path = torch.stack(path)
        return {"x": self.path, "t": optimizer.t, "skipped": optimizer.skipped, "bits": optimizer.meter.bits}


def told(error: Exception) -> dict:
    """An error as it is compared."""
    known = {name: getattr(error, name) for name in ("rank", "step", "quantity") if hasattr(error, name)}
    return {"error": type(error).__name__, "text": str(error)} | known


def move(change: Callable[[torch.Tensor], object], training: Training) -> None:
    """Change this rank's parameters [32]."""
    x = parameters_to_vector(training.net.parameters()).detach()
    change(x)
    vector_to_parameters(x, training.net.parameters())


def flip(bit: int, x: torch.Tensor) -> None:
    """One bit of one coordinate."""
    x.view(torch.int32)[17] ^= (1 << bit) if bit < 31 else -(1 << 31)


def set_lr(value: float, training: Training) -> None:
    """The step size."""
    training.optimizer.param_groups[0]["lr"] = value


def set_group(training: Training, **values: object) -> None:
    """What else a group may set."""
    training.optimizer.param_groups[-1].update(values)


def plateau(training: Training) -> None:
    """A scheduler that is fed with this rank's own losses, which do not fall."""
    scheduler = ReduceLROnPlateau(training.optimizer, patience=1, factor=0.5)
    for _ in range(4):
        scheduler.step(1.0)


def advance(rounds: int, training: Training) -> None:
    """As after loading the state of another round."""
    training.optimizer.t += rounds


def poison(value: float, training: Training) -> None:
    """One coordinate of this rank's gradient."""
    [*_, last] = training.net.parameters()
    assert last.grad is not None
    last.grad[1] = value


DRIFTS = {
    "lr by one ulp": (partial(set_lr, LR * (1 + 2**-52)), "lr"),
    "lr negative": (partial(set_lr, -LR), "lr"),
    "plateau": (plateau, "lr"),
    **{f"bit {bit} of x": (partial(move, partial(flip, bit)), "x") for bit in (0, 31)},
    "round": (partial(advance, 1), "round"),
    "betas": (partial(set_group, betas=(0.9, 0.98)), "settings"),
    "weight_decay": (partial(set_group, weight_decay=0.1), "settings"),
}
GROUPED = {"lr of the second group": partial(set_group, lr=LR)}
LOADS = {"into the warm-up": -2, "within the warm-up": -1, "out of the run": 3}
SKIPS = {
    "nan": (partial(poison, float("nan")), None),
    "scaler": (partial(poison, float("inf")), "step alone"),
    "scaler with unscale_": (partial(poison, float("nan")), "unscale_ before"),
}
STARTS = {
    "seed": {"seed": 4},
    "algorithm": {"algorithm": amsgrad(Identity(), AMSGrad())},
    "shapes": {"reversed": True},
    "dtype": {"double": True},
}


class Unscaling(torch.amp.GradScaler):  # pyright: ignore[reportPrivateImportUsage]
    """As scripts do that clip."""

    def step(self, optimizer: torch.optim.Optimizer) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.unscale_(optimizer)
        super().step(optimizer)


def everything(target: Path) -> None:
    """All cases, one after the other."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    rank, size = dist.get_rank(), dist.get_world_size()
    results: dict[tuple, dict] = {}
    for name, (fault, _) in DRIFTS.items():
        for odd in (0, size - 1):
            results[name, odd] = Training().run(odd, fault)
    for name, fault in GROUPED.items():
        for odd in (0, size - 1):
            results[name, odd] = Training(grouped=True).run(odd, fault)
    results[("betas of all",)] = Training().run(None, partial(set_group, betas=(1.0, 0.99)))
    results[("groups",)] = {"messages": watched(training := Training(grouped=True)), "x": training.path}
    for name, rounds in LOADS.items():
        for odd in (0, size - 1):
            results[name, odd] = Training(ALGORITHMS["onebit_adam"]).run(odd, partial(advance, rounds))
    for name, (fault, scaling) in SKIPS.items():
        for which, algorithm in ALGORITHMS.items():
            kind = Unscaling if scaling == "unscale_ before" else torch.amp.GradScaler  # pyright: ignore
            scaler = kind("cpu", init_scale=2.0**10) if scaling else None
            results[name, which] = Training(algorithm).run(size - 1, fault, scaler)
    for name, options in STARTS.items():
        try:
            Training(**(options if rank == size - 1 else {}))  # pyright: ignore[reportArgumentType]
        except Disagreement as error:
            results[("start", name)] = told(error)
    for lr in (-LR, float("inf")):
        results[("all", lr)] = Training().run(None, partial(set_lr, lr))
    results[("alike",)] = Training().run(None, partial(move, lambda x: x.clamp_(-0.1, 0.1)))
    results[("traffic",)] = {"messages": watched(Training(ALGORITHMS["onebit_adam"]))}
    torch.save(results, target / f"results-{rank}.pt")
    dist.destroy_process_group()


def watched(training: Training) -> list[tuple[str, int]]:
    """Every collective of a training, and the bytes that this rank handed to it."""
    messages, kept = [], {}
    for name in ("gather", "broadcast", "all_gather", "all_reduce", "reduce", "scatter", "send", "recv", "barrier"):
        kept[name] = getattr(dist, name)

        def watching(*arguments: torch.Tensor, name: str = name, **options: object) -> object:
            messages.append((name, arguments[0].nbytes))
            return kept[name](*arguments, **options)

        setattr(dist, name, watching)
    training.run(None, lambda training: None)
    for name, collective in kept.items():
        setattr(dist, name, collective)
    return messages


@pytest.fixture(scope="module", params=SIZES)
def ranks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    """What every rank came to in every case."""
    target = tmp_path_factory.mktemp("drift")
    fine(launched(target, request.param, partial(everything, target)))
    return [torch.load(target / f"results-{rank}.pt", weights_only=False) for rank in range(request.param)]


@pytest.mark.parametrize("name", DRIFTS)
def test_what_differs_is_named_on_every_rank_and_nothing_has_changed(name: str, ranks: list[dict]) -> None:
    for odd in (0, len(ranks) - 1):
        found = [results[name, odd] for results in ranks]
        assert {one["error"] for one in found} == {"Disagreement"}
        assert len({one["text"] for one in found}) == 1
        # Of two ranks neither is in the majority: the server counts as right.
        rank, quantity = (1 if len(ranks) == 2 else odd), DRIFTS[name][1]
        step = AT + 1 if (name, len(ranks), odd) == ("round", 2, 0) else AT
        assert (found[0]["rank"], found[0]["step"], found[0]["quantity"]) == (rank, step, quantity)
        assert found[0]["text"].startswith(f"step {step}: rank {rank} differs from the others in {quantity}: ")
        assert not any(one["changed"] for one in found)


@pytest.mark.parametrize("name", GROUPED)
def test_what_differs_in_a_later_group_is_named(name: str, ranks: list[dict]) -> None:
    for odd in (0, len(ranks) - 1):
        found = [results[name, odd] for results in ranks]
        rank = 1 if len(ranks) == 2 else odd
        assert [(one["error"], one["rank"], one["quantity"]) for one in found] == [
            ("Disagreement", rank, "settings")
        ] * len(ranks)
        assert "lr, weight_decay, betas and momentum of every parameter group" in found[0]["text"]
        assert not any(one["changed"] for one in found)


def test_a_wrong_hyperparameter_on_all_ranks_is_refused_on_all(ranks: list[dict]) -> None:
    for results in ranks:
        found = results["betas of all",]
        assert (found["error"], found["changed"]) == ("ValueError", False)
        assert "beta1=1.0" in found["text"]


def test_groups_cross_in_two_messages_and_equal_simulations_of_their_own(ranks: list[dict]) -> None:
    """Where each simulation has the gradients of the whole network and keeps the coordinates of its group."""
    split, n = (20, 12), len(ranks)  # weight and bias of either layer
    dense = amsgrad(Identity(), AMSGrad())
    net = network(seed=0)
    clusters = [Simulated(algorithm, n, seed=3) for algorithm in (SIGN, dense)]
    x = parameters_to_vector(net.parameters()).detach()
    states = [cluster.start(part) for cluster, part in zip(clusters, x.split(split), strict=True)]
    for step in range(1, STEPS + 1):
        vector_to_parameters(torch.cat([state.replica.x for state in states]), net.parameters())
        gradients = torch.stack([
            parameters_to_vector(torch.autograd.grad(loss(net, worker, step), list(net.parameters())))
            for worker in range(n)
        ])  # fmt: skip
        states = [
            cluster.round(part, state, lr, step)
            for cluster, part, state, lr in zip(
                clusters, gradients.split(split, 1), states, (LR, LR / 5), strict=True
            )
        ]
        expected = torch.cat([state.replica.x for state in states])
        assert all(torch.equal(results["groups",]["x"][step - 1], expected) for results in ranks)
    length = sum(
        payload_bytes(algorithm.uplink.codec(1), d, torch.float32)
        for algorithm, d in zip((SIGN, dense), split, strict=True)
    )
    for results in ranks:
        assert results["groups",]["messages"] == [("gather", length + BYTES), ("broadcast", length + BYTES)] * STEPS


@pytest.mark.parametrize("name", LOADS)
def test_messages_of_another_length_do_not_meet(name: str, ranks: list[dict]) -> None:
    """A rank that alone loaded a state of the dense warm-up, or left it, is named as any other."""
    for odd in (0, len(ranks) - 1):
        found = [results[name, odd] for results in ranks]
        rank = 1 if len(ranks) == 2 else odd
        assert [(one["error"], one["rank"], one["quantity"]) for one in found] == [
            ("Disagreement", rank, "round")
        ] * len(ranks)
        assert not any(one["changed"] for one in found)


def test_both_step_sizes_are_said(ranks: list[dict]) -> None:
    assert "-0.05 instead of 0.05;" in ranks[0]["lr negative", len(ranks) - 1]["text"]
    assert "0.025 instead of 0.05;" in ranks[0]["plateau", len(ranks) - 1]["text"]


@pytest.mark.parametrize("which", ALGORITHMS)
@pytest.mark.parametrize("name", SKIPS)
def test_a_gradient_that_is_not_finite_leaves_the_round_out_on_all_ranks(
    name: str, which: str, ranks: list[dict]
) -> None:
    expected = simulated(ALGORITHMS[which], len(ranks))
    meter = BitCounter()
    for t in range(1, STEPS):
        meter.count(ALGORITHMS[which], D, t, torch.float32)
    for results in ranks:
        found = results[name, which]
        assert (found["t"], found["skipped"], found["bits"]) == (STEPS - 1, 1, meter.bits)
        assert torch.equal(found["x"], expected)


def simulated(algorithm: object, workers: int) -> torch.Tensor:
    """x after every step [STEPS, 32] of the simulation, in which nothing happens in step AT."""
    net = network(seed=0)
    cluster = Simulated(algorithm, workers, seed=3)  # pyright: ignore[reportArgumentType]
    state, path, t = cluster.start(parameters_to_vector(net.parameters()).detach()), [], 0
    for step in range(1, STEPS + 1):
        if step != AT:
            t += 1
            vector_to_parameters(state.replica.x.clone(), net.parameters())
            gradients = [
                parameters_to_vector(torch.autograd.grad(loss(net, worker, step), list(net.parameters())))
                for worker in range(workers)
            ]
            state = cluster.round(torch.stack(gradients), state, LR, t)
        path.append(state.replica.x)
    return torch.stack(path)


@pytest.mark.parametrize("name", STARTS)
def test_ranks_that_start_differently_do_not_start(name: str, ranks: list[dict]) -> None:
    for results in ranks:
        found = results["start", name]
        rank = 1 if len(ranks) == 2 else len(ranks) - 1
        assert (found["error"], found["rank"], found["step"], found["quantity"]) == ("Disagreement", rank, 0, name)


@pytest.mark.parametrize("lr", [-LR, float("inf")])
def test_a_wrong_step_size_on_all_ranks_is_refused_on_all(lr: float, ranks: list[dict]) -> None:
    for results in ranks:
        found = results["all", lr]
        assert (found["error"], found["changed"]) == ("ValueError", False)
        assert f"lr={lr}" in found["text"]


def test_parameters_may_be_changed_alike(ranks: list[dict]) -> None:
    paths = [results["alike",]["x"] for results in ranks]
    assert all(torch.equal(path, paths[0]) for path in paths)
    assert paths[0][AT - 1].abs().max() < 0.1 + 3 * LR < paths[0][AT - 2].abs().max()


def test_a_step_is_two_messages_of_the_bytes_that_are_counted_and_a_fixed_header(ranks: list[dict]) -> None:
    algorithm = ALGORITHMS["onebit_adam"]
    assert BYTES == 32
    for results in ranks:
        assert results["traffic",]["messages"] == [
            (name, payload_bytes(channel.codec(t), D, torch.float32) + BYTES)
            for t in range(1, STEPS + 1)
            for name, channel in (("gather", algorithm.uplink), ("broadcast", algorithm.downlink))
        ]


def leaving(target: Path) -> None:
    """One rank refuses a state of something else and goes; what the other one then meets."""
    dist.init_process_group("gloo")
    training = Training()
    try:
        training.run(1, lambda training: training.optimizer.load_state_dict({"state": {}, "param_groups": []}))
    finally:
        if training.rank == 1:
            os._exit(3)


@pytest.mark.slow
def test_a_rank_that_refused_its_state_is_not_waited_for(tmp_path: Path) -> None:
    stayed, left = launched(tmp_path, 2, partial(leaving, tmp_path))
    assert left.code == 3
    assert stayed.code == 1
    assert "LostContact" in stayed.said
