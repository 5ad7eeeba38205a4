"""LocalSteps around torch's optimizers on two ranks, against the harness's rounds with its own inner updates.

One launch of two ranks goes through all cases. tests/algorithms/test_local_steps_alone.py has one rank.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import torch
import torch.distributed as dist
from cluster_support import LR, error_of, results_of, torch_optimizer, watch
from small_network import count_bits, from_file, gradients, loss, network, vector
from torch.optim.lr_scheduler import LambdaLR

from algorithms import LocalSteps
from algorithms.comm.consistency import BYTES
from algorithms.compressors import BinMeans, ChunkTopK, ChunkTopKBins, Identity, RandomK, TopK
from algorithms.compressors.base import payload_bytes
from algorithms.core.update_rules import SGD, Adam, Update
from algorithms.methods.bases.local_steps import LocalSteps as Method
from algorithms.methods.diloco import diloco
from algorithms.methods.local_sgd import local_sgd
from algorithms.methods.sparseloco import sparseloco
from algorithms.methods.sparta import sparta
from experiments.cluster.base import Simulated

pytestmark = pytest.mark.slow

RANKS, STEPS, AT, D = 2, 8, 5, 32  # of a period of 3 step AT is the second
MOMENTUM, ADAMW = SGD(momentum=0.9), Adam(form="torch", decoupled=True, weight_decay=0.1)
DILOCO = diloco(Identity(), ADAMW, period=3)
METHODS = {
    "local SGD": local_sgd(Identity(), MOMENTUM, period=3),
    "local AdamW": local_sgd(Identity(), ADAMW, period=4),
    "DiLoCo": DILOCO,
    "DiLoCo, top k": diloco(TopK(k=5), MOMENTUM, period=1),
    "MuLoCo's bins": diloco(BinMeans(), ADAMW, period=3, outer_lr=0.9, outer_momentum=0.8),
    "SparseLoCo": sparseloco(ChunkTopKBins(2, 8), ADAMW, RANKS, period=3),
    "SparseLoCo, senders": sparseloco(ChunkTopK(1, 8), ADAMW, RANKS, period=2, aggregate="senders"),
    "SPARTA": sparta(RandomK(k=5), MOMENTUM),
}
MATRICES, OTHERS = (0, 2), (1, 3)  # of the network's tensors


def inner(update: Update, params: Any) -> torch.optim.Optimizer:
    return update.make(list(params)) if isinstance(update, Torchs) else torch_optimizer(update, params)


@dataclass(frozen=True, kw_only=True)
class Torchs(Update):
    """A torch optimizer a worker as an inner update of the harness: for one that has no other there."""

    make: Callable[[list[torch.Tensor]], torch.optim.Optimizer]
    shapes: tuple[tuple[int, ...], ...]
    workers: list[torch.optim.Optimizer] = field(default_factory=list)

    def start(self, x: torch.Tensor) -> tuple:
        self.workers[:] = [self.make([torch.zeros(shape, dtype=x.dtype) for shape in self.shapes]) for _ in x]
        return ()

    def direction(self, u: torch.Tensor, moments: Any, t: int) -> tuple[torch.Tensor, Any]:
        raise NotImplementedError

    def step(self, x: torch.Tensor, u: torch.Tensor, moments: Any, lr: Any, t: int) -> tuple[torch.Tensor, Any]:
        sizes, moved = [torch.Size(shape).numel() for shape in self.shapes], []
        for own, gradient, optimizer in zip(x, u, self.workers, strict=True):
            params = optimizer.param_groups[0]["params"]
            for param, value, of in zip(params, own.split(sizes), gradient.split(sizes), strict=True):
                param.copy_(value.view_as(param))
                param.grad = of.view_as(param).clone()
            optimizer.step()
            moved.append(torch.cat([param.flatten() for param in params]))
        return torch.stack(moved), moments


MUON = Torchs(make=partial(torch.optim.Muon, lr=LR), shapes=((5, 3), (2, 5)))
BESIDE = {MATRICES: diloco(BinMeans(), MUON, period=2), OTHERS: diloco(BinMeans(), ADAMW, period=2)}


def harness(parts: dict[tuple[int, ...], Method], lr: Callable[[int], float] | None = None) -> torch.Tensor:
    """Every worker's model after every step [STEPS, RANKS, 32], methods having the given tensors of the network."""
    tensors = list(network(dtype=torch.float64).parameters())
    of = torch.cat([torch.full((one.numel(),), number) for number, one in enumerate(tensors)])
    masks = [torch.isin(of, torch.tensor(numbers)) for numbers in parts]
    clusters = [Simulated(method, RANKS, seed=3) for method in parts.values()]
    x = vector(network(dtype=torch.float64)).repeat(RANKS, 1)
    states, path = [cluster.start(x[0, mask]) for cluster, mask in zip(clusters, masks, strict=True)], []
    for t in range(1, STEPS + 1):
        each = torch.stack([gradients(own, RANKS, t)[worker] for worker, own in enumerate(x)])
        for number, (cluster, mask) in enumerate(zip(clusters, masks, strict=True)):
            states[number] = cluster.round(each[:, mask], states[number], lr(t) if lr else LR, t)
            x[:, mask] = states[number].workers.x
        path.append(x.clone())
    return torch.stack(path)


def alone(method: Method) -> dict[tuple[int, ...], Method]:
    return {(0, 1, 2, 3): method}


def halved(t: int) -> float:
    return LR / 2 ** (t // 2)


CASES = {name: (alone(method), None) for name, method in METHODS.items()}
CASES |= {"Muon beside AdamW": (BESIDE, None), "scheduled": (alone(DILOCO), halved)}
"""Which method has which tensors, and the step size of every step."""


def trained(
    parts: dict[tuple[int, ...], Method],
    schedule: Callable[[int], float] | None = None,
    restart: int = 0,
    befalls: Callable[[LocalSteps], object] = bool,
    scaler: torch.amp.GradScaler | None = None,  # pyright: ignore[reportPrivateImportUsage]
    dtype: torch.dtype = torch.float64,
    group: dist.ProcessGroup | None = None,
) -> dict:
    """This rank's x after every step, in a loop as anyone writes it; all objects may be made anew behind a step."""

    def begin(seed: int) -> tuple:
        net = network(seed, dtype)
        tensors, made = list(net.parameters()), []
        for numbers, method in parts.items():
            own = inner(method.inner, [tensors[number] for number in numbers])
            made.append(LocalSteps(own, method, seed=3, process_group=group))
        schedulers = [LambdaLR(one.inner, lambda done: schedule(done + 1) / LR) for one in made if schedule]
        return net, made, schedulers

    rank = dist.get_rank(group)
    net, optimizers, schedulers = begin(seed=rank)  # rank 0's parameters are the ones that count
    path, messages, scaling = [], [], scaler or SCALER(enabled=False)
    for step in range(1, STEPS + 1):
        for one in optimizers:
            one.zero_grad()
        scaling.scale(loss(net, rank, step)).backward()
        with watch(lambda name, size: messages.append((name, size))):
            for one in optimizers:
                if step == AT and rank == RANKS - 1:
                    befalls(one)
                scaling.step(one)
        scaling.update()
        for one in schedulers:
            one.step()
        path.append(vector(net))
        if step == restart:
            states = from_file([one.state_dict() for one in (*optimizers, *schedulers)])
            net, optimizers, schedulers = begin(seed=7)
            for one, saved in zip((*optimizers, *schedulers), states, strict=True):
                one.load_state_dict(saved)
    first = optimizers[0]
    counted = {name: getattr(first, name) for name in ("meter", "t", "skipped")}
    synchronised = first.state_dict()["state"][0]["local_steps"]["replica"]["x"]
    return {"x": torch.stack(path), "messages": messages, "synchronised": synchronised, **counted}


def poison(value: float, optimizer: LocalSteps) -> None:
    optimizer.param_groups[0]["params"][0].grad[0, 0] = value


def freeze(optimizer: LocalSteps) -> None:
    optimizer.param_groups[0]["params"][1].requires_grad_(False)


SCALER = partial(torch.amp.GradScaler, "cpu", init_scale=2.0**10)  # pyright: ignore[reportPrivateImportUsage]
STUCK = "parameters: it cannot step"
MISTAKES = {  # of the last rank: what goes wrong, the quantity that differs, and its own error if that is another
    "lr": (lambda one: one.param_groups[0].update(lr=1.0), "lr: 1.0", ""),
    "settings": (lambda one: one.param_groups[0].update(weight_decay=1.0), "settings", ""),
    "round": (lambda one: setattr(one, "t", 2), "round: 3 instead", ""),
    "not finite": (partial(poison, torch.nan), STUCK, "FloatingPointError: step 6: the model of rank 1 is not"),
    "frozen": (freeze, STUCK, "ValueError: step 6: parameters were frozen or added; make"),
}
STARTS: dict[str, tuple[Callable[[torch.nn.Module, int], LocalSteps], str]] = {
    "period": (lambda net, rank: LocalSteps(inner(ADAMW, net.parameters()), "diloco", period=2 + rank), "algorithm"),
    "inner": (lambda net, rank: LocalSteps(inner([SGD(), ADAMW][rank], net.parameters()), "diloco"), "inner"),
}  # fmt: skip


RESTARTED = ("DiLoCo", "SparseLoCo", "SPARTA", "scheduled")


def everything() -> dict:
    """All cases, one after the other."""
    rank, results = dist.get_rank(), {name: trained(*case) for name, case in CASES.items()}
    for name in RESTARTED:
        results["restarted", name] = trained(*CASES[name], restart=4)
    results["scaled"] = trained(alone(METHODS["local SGD"]), scaler=SCALER(), befalls=partial(poison, torch.inf))
    results["bf16"] = trained(alone(DILOCO), dtype=torch.bfloat16, schedule=lambda t: 0.0 if t > 3 else LR)
    for name, (befalls, *_) in MISTAKES.items():
        results[name] = error_of(partial(trained, alone(DILOCO), befalls=befalls))
    for name, (make, _) in STARTS.items():
        results[name] = error_of(partial(make, network(), rank))
    return results


def in_a_group() -> Any:
    """The last two of three ranks train, of which the first is the server."""
    group = dist.new_group([1, 2])
    if dist.get_rank():
        return trained(alone(DILOCO), group=group)
    return error_of(lambda: LocalSteps(inner(ADAMW, network().parameters()), DILOCO, process_group=group))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[list[Any]]:
    """What two ranks came to in every case, and three in the last."""
    return results_of(tmp_path_factory.mktemp("local"), (RANKS, everything), (3, in_a_group))


@pytest.fixture(scope="module")
def ranks(found: list[list[Any]]) -> list[dict]:
    return found[0]


def assert_same(found: list[torch.Tensor], expected: torch.Tensor) -> None:
    torch.testing.assert_close(torch.stack(found, 1), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_torchs_optimizer_inside_is_the_harness_run(name: str, ranks: list[dict]) -> None:
    """A scheduler has the inner step size."""
    assert_same([results[name]["x"] for results in ranks], harness(*CASES[name]))


@pytest.mark.parametrize("name", METHODS)
def test_bits_are_those_of_the_harness_and_bytes_those_that_cross(name: str, ranks: list[dict]) -> None:
    method, crossing = METHODS[name], []
    for t in range(1, STEPS + 1):
        for stage in method.stages(t):
            for kind, channel in (("gather", stage.uplink), ("broadcast", stage.downlink)):
                crossing.append((kind, payload_bytes(channel.codec(t), D, torch.float64) + BYTES))
    for results in ranks:
        assert results[name]["meter"] == count_bits(method, D, STEPS, torch.float64)
        assert results[name]["messages"] == crossing


@pytest.mark.parametrize("name", RESTARTED)
def test_a_restart_between_two_exchanges_changes_no_bit(name: str, ranks: list[dict]) -> None:
    for results in ranks:
        assert torch.equal(results["restarted", name]["x"], results[name]["x"])
        assert results["restarted", name]["meter"] == results[name]["meter"]


def test_a_step_that_a_scaler_leaves_out_is_counted(ranks: list[dict]) -> None:
    """Or the ranks' exchanges would be those of other steps."""
    assert [results["scaled"]["t"] for results in ranks] == [STEPS, STEPS]
    assert [results["scaled"]["skipped"] for results in ranks] == [0, 1]
    first, last = (results["scaled"]["x"] for results in ranks)
    assert torch.equal(last[AT - 1], last[AT - 2])
    assert torch.equal(first[5], last[5])
    assert_same([first[: AT - 1], last[: AT - 1]], harness(alone(METHODS["local SGD"]))[: AT - 1])


def test_16_bits_round_a_synchronised_model_of_float32(ranks: list[dict]) -> None:
    """The step size is zero behind the first exchange, so that Nesterov's second step is μ²b of the first."""
    x, synchronised = ranks[0]["bf16"]["x"], ranks[0]["bf16"]["synchronised"]
    assert (x.dtype, synchronised.dtype) == (torch.bfloat16, torch.float32)
    assert torch.equal(x[5], synchronised.bfloat16())
    start = vector(network(dtype=torch.bfloat16)).float()
    # x₁ = x₀ − η(1 + μ)b and x₂ = x₁ − ημ²b
    b = (start - synchronised) / (0.7 * (1 + 0.9 + 0.81))
    assert torch.equal(x[2], (start - 0.7 * 1.9 * b).bfloat16())


@pytest.mark.parametrize("name", MISTAKES)
def test_what_a_rank_does_otherwise_is_said_on_both(name: str, ranks: list[dict]) -> None:
    _, quantity, last = MISTAKES[name]
    both = f"Disagreement: step 6: rank 1 differs from the others in {quantity}"
    assert ranks[0][name].startswith(both)
    assert ranks[1][name].startswith(last or both)


@pytest.mark.parametrize("name", STARTS)
def test_ranks_start_alike_or_not_at_all(name: str, ranks: list[dict]) -> None:
    for results in ranks:
        assert f"Disagreement: step 0: rank 1 differs from the others in {STARTS[name][1]}: " in results[name]


def test_a_process_group_is_a_run_of_its_own(found: list[list[Any]], ranks: list[dict]) -> None:
    outside, *inside = found[1]
    assert outside == "ValueError: this rank is not in process_group=: leave it out of this training"
    assert all(torch.equal(one["x"], other["DiLoCo"]["x"]) for one, other in zip(inside, ranks, strict=True))
