"""LocalSteps around torch's optimizers on two ranks, against the harness's rounds with its own inner updates.

One launch of two ranks goes through all cases. tests/algorithms/test_local_steps_alone.py has one rank.
"""

from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.distributed as dist
from cluster_support import LR, error_of, torch_optimizer, watch
from small_network import count_bits, from_file, gradients, loss, network, simulate_local, vector
from torch.optim.lr_scheduler import LambdaLR

from algorithms import LocalSteps
from algorithms.comm.consistency import BYTES
from algorithms.compressors import BinMeans, ChunkTopK, ChunkTopKBins, Identity, RandomK, TopK
from algorithms.compressors.base import payload_bytes
from algorithms.core.update_rules import SGD, Adam
from algorithms.methods.bases.local_steps import LocalSteps as Method
from algorithms.methods.diloco import diloco
from algorithms.methods.local_sgd import local_sgd
from algorithms.methods.sparseloco import sparseloco
from algorithms.methods.sparta import sparta

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


def trained(
    method: Method,
    parts: tuple[tuple[int, ...], ...] = ((0, 1, 2, 3),),
    schedule: Callable[[int], float] | None = None,
    restart: int = 0,
    befalls: Callable[[LocalSteps], object] = bool,
    scaler: torch.amp.GradScaler | None = None,  # pyright: ignore[reportPrivateImportUsage]
    dtype: torch.dtype = torch.float64,
    group: dist.ProcessGroup | None = None,
) -> dict:
    """This rank's x after every step, in a usual loop; after a step all objects may be created again.

    parts: the tensors of the network that each of several objects has.
    """

    def begin(seed: int) -> tuple:
        net = network(seed, dtype)
        tensors, made = list(net.parameters()), []
        for numbers in parts:
            own = torch_optimizer(method.inner, [tensors[number] for number in numbers])
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
            states = from_file([one.state_dict() for one in optimizers])
            net, optimizers, schedulers = begin(seed=7)
            for one, saved in zip(optimizers, states, strict=True):
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
RESTARTED = ("DiLoCo", "SparseLoCo", "SPARTA")


def everything() -> dict:
    rank, results = dist.get_rank(), {name: trained(method) for name, method in METHODS.items()}
    results["in two parts"] = trained(METHODS["local SGD"], parts=((0, 2), (1, 3)))
    for name in RESTARTED:
        results["restarted", name] = trained(METHODS[name], restart=4)
    results["scaled"] = trained(METHODS["local SGD"], scaler=SCALER(), befalls=partial(poison, torch.inf))
    results["bf16"] = trained(DILOCO, dtype=torch.bfloat16, schedule=lambda t: 0.0 if t > 3 else LR)
    for name, (befalls, *_) in MISTAKES.items():
        results[name] = error_of(partial(trained, DILOCO, befalls=befalls))
    inner = torch_optimizer([SGD(), ADAMW][rank], network().parameters())
    results["inner"] = error_of(partial(LocalSteps, inner, "diloco"))
    in_a_group = partial(trained, DILOCO, group=dist.new_group([1]))
    results["group"] = in_a_group() if rank else error_of(in_a_group)
    return results


def assert_same(found: list[torch.Tensor], expected: torch.Tensor) -> None:
    torch.testing.assert_close(torch.stack(found, 1), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", METHODS)
def test_torchs_optimizer_inside_is_the_harness_run(name: str, ranks: list[dict]) -> None:
    expected = simulate_local(METHODS[name], RANKS, STEPS, gradients)
    assert_same([results[name]["x"] for results in ranks], expected)


def test_two_objects_train_a_network_as_one(ranks: list[dict]) -> None:
    for results in ranks:
        assert torch.equal(results["in two parts"]["x"], results["local SGD"]["x"])


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
    expected = simulate_local(METHODS["local SGD"], RANKS, AT - 1, gradients)
    assert_same([first[: AT - 1], last[: AT - 1]], expected)


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


def test_ranks_start_alike_or_not_at_all(ranks: list[dict]) -> None:
    for results in ranks:
        assert results["inner"].startswith("Disagreement: step 0: rank 1 differs from the others in inner: ")


def test_a_process_group_is_a_run_of_its_own(ranks: list[dict]) -> None:
    assert ranks[0]["group"] == "ValueError: this rank is not in process_group=: leave it out of this training"
    assert_same([ranks[1]["group"]["x"]], simulate_local(DILOCO, 1, STEPS, gradients))
