"""Compressed gradients between the replicas of a sharded model (HSDP), against the simulated cluster.

One launch of 4 ranks, 2 replicas of 2 shards, goes through all cases. The oracle is the harness's own round on every
shard of every unit, with one worker a replica.
"""

import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import pytest
import torch
import torch.distributed as dist
from cluster_support import LR, error_of, torch_optimizer, watch
from small_network import from_file, loss
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from algorithms import compress_replicas
from algorithms.comm.consistency import BYTES
from algorithms.compressors import Blocks, Identity, Qsgd, RandomK, ScaledSign, TopK
from algorithms.core.algorithm import Algorithm
from algorithms.core.bit_counter import BitCounter
from algorithms.core.update_rules import Adam
from algorithms.methods.cd_adam import cd_adam
from algorithms.methods.ef21 import ef21
from algorithms.methods.error_feedback import error_feedback
from algorithms.methods.naive import naive
from algorithms.methods.sgd import sgd
from algorithms.registry import load_method
from algorithms.utils.seeding import keyed_seed
from experiments.cluster.base import Simulated

pytestmark = pytest.mark.slow

RANKS, STEPS, AT = 4, 8, 5  # what befalls a rank does so in step AT
ADAM = Adam(form="torch")
SIGN = cd_adam(ScaledSign(), ADAM)
ALGORITHMS = {
    "sgd": sgd(Identity(), ADAM),
    "naive": naive(Qsgd(), ADAM),
    "error_feedback": error_feedback(TopK(k=3), ADAM),
    "cd_adam": SIGN,
    "ef21": ef21(RandomK(k=4), ADAM, uplink_only=False),
    "loco": load_method("loco", update=ADAM),
}
UNITS = {"0": ("0.weight", "0.bias"), "2": ("2.weight", "2.bias")}
SCALER = partial(torch.amp.GradScaler, "cpu", init_scale=2.0**10, growth_interval=2)  # pyright: ignore


def network() -> nn.Module:
    """26 parameters. Rows do not divide evenly over two shards: the second has none of the last layer's."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1)).double()


def sharded(replicas: int = 2, net: nn.Module | None = None, **options: Any) -> Any:
    """The network on a mesh of so many replicas, a unit a layer."""
    mesh = init_device_mesh("cpu", (replicas, RANKS // replicas), mesh_dim_names=("replicate", "shard"))
    net = net or network()
    for module in (net[0], net[2], net):  # pyright: ignore[reportIndexIssue]
        fully_shard(module, mesh=mesh, **options)
    return net


def whole(tensors: Any) -> Tensor:
    """A vector of whole tensors, on every rank."""
    return torch.cat([tensor.detach().full_tensor().flatten() for tensor in tensors]).clone()


def trained(
    algorithm: Algorithm,
    replicas: int = 2,
    befalls: Callable[[Any], float | None] = lambda net: None,
    scaler: Any = None,
    restart: bool = False,
    partition: Any = "whole",
    **options: Any,
) -> dict:
    """x after every step of a loop as anyone writes it, and what was counted, sent and delivered."""
    net, path, crossed = sharded(replicas, **options), [], []
    state = compress_replicas(net, algorithm, seed=3, scaler=scaler, partition=partition)
    optimizer, scaling = torch_optimizer(ADAM, net.parameters()), scaler or SCALER(enabled=False)
    for step in range(1, STEPS + 1):
        if restart and step == STEPS // 2:
            saved, before, moments = from_file(state.state_dict()), net, optimizer.state_dict()
            net = sharded(replicas, **options)
            net.load_state_dict(before.state_dict())
            state, optimizer = compress_replicas(net, algorithm, seed=3), torch_optimizer(ADAM, net.parameters())
            state.load_state_dict(saved)
            optimizer.load_state_dict(moments)
        optimizer.zero_grad()
        value = loss(net, dist.get_rank(), step)
        if step == AT:
            value = value * (befalls(net) or 1)
        with watch(lambda *note: crossed.append(note)):
            scaling.scale(value).backward()
        scaling.step(optimizer)
        scaling.update()
        path.append(whole(net.parameters()))
    memory = next((unit._worker.memory for unit in state.units.values()), None)
    counted = {"bits": state.meter.bits, "bytes": state.meter.payload_bytes, "skipped": state.skipped}
    return {"x": torch.stack(path), "crossed": crossed, "memory": memory, "rounds": _rounds(state), **counted}


def _rounds(state: Any) -> dict[str, int]:
    return {name: unit.t for name, unit in state.units.items()}


def infinite(net: Any) -> float:
    """The loss of the last rank is infinite, and so is its gradient."""
    return torch.inf if dist.get_rank() == RANKS - 1 else 1


def drift(net: Any) -> None:
    """A parameter of the second replica moves by its last bit, in both shards."""
    if dist.get_rank() >= RANKS // 2:
        with torch.no_grad():
            net[0].bias.to_local()[1:] *= 1 + 2**-52


def accumulated() -> dict:
    """The gradient of two backward passes, of which only the second is averaged, and that of their sum."""
    rank, found = dist.get_rank(), {}
    for name in ("summed", "set_requires_gradient_sync", "set_requires_all_reduce"):
        net = sharded()
        state = compress_replicas(net, SIGN)
        if name == "summed":
            (loss(net, rank, 1) + loss(net, rank, 2)).backward()
        else:
            for step in (1, 2):
                getattr(net, name)(step == 2)
                loss(net, rank, step).backward()
        found[name] = {"gradient": whole(param.grad for param in net.parameters()), "rounds": _rounds(state)}
    return found


def factored() -> dict:
    """Gradients by torch alone and with a method that changes nothing, where torch is told what to divide by."""
    found = {}
    for name in ("torch", "compressed"):
        net = sharded()
        for module in net.modules():
            if isinstance(module, FSDPModule):
                module.set_force_sum_reduction_for_comms(True)  # gloo has no other that takes a factor
                module.set_gradient_divide_factor(8.0)
        if name == "compressed":
            compress_replicas(net, "sgd")
        loss(net, dist.get_rank(), 1).backward()
        found[name] = whole(param.grad for param in net.parameters())
    return found


def partly_infinite() -> dict[str, int]:
    """Which layers' gradients are finite, and their rounds, where one row of one replica is not."""
    net = sharded()
    state = compress_replicas(net, SIGN)
    if (rank := dist.get_rank()) == RANKS - 1:  # the last row of the first layer alone, in the second shard
        net[0].register_forward_hook(_infinite_behind)
    loss(net, rank, 1).backward()
    finite = {name: param.grad.to_local().isfinite().all().item() for name, param in net.named_parameters()}
    return finite | _rounds(state)


def _infinite_behind(module: nn.Module, given: Any, output: Tensor) -> None:
    output.register_hook(lambda gradient: gradient * torch.tensor([1, 1, 1, 1, torch.inf]))


class Unused(nn.Sequential):
    """The last layer has a parameter that no loss depends on."""

    def __init__(self) -> None:
        super().__init__(*network())
        self[2].register_parameter("unused", nn.Parameter(torch.ones(2, dtype=torch.float64)))


def unused(included: bool) -> float:
    """A backward pass with such a layer; the parameter's gradient."""
    net = sharded(net=Unused())
    net.set_reduce_scatter_unused_params(included)
    compress_replicas(net, "loco")
    loss(net, dist.get_rank(), 1).backward()
    return net[2].unused.grad.full_tensor().abs().sum().item()


def frozen(before: bool, after: bool = True) -> dict:
    """A backward pass with a layer whose weight is frozen, before or after."""
    net = sharded()
    if before:
        net[0].weight.requires_grad_(False)
    state = compress_replicas(net, "loco")
    if after:
        net[0].weight.requires_grad_(False)
    loss(net, dist.get_rank(), 1).backward()
    return _rounds(state)


def resumed(replicas: int = 2, damaged: bool = False) -> None:
    """A state is loaded elsewhere, or damaged."""
    saved = compress_replicas(sharded(), SIGN).state_dict()
    if damaged:
        saved["units"]["0"]["signal"][3] += 1e-12
    compress_replicas(sharded(replicas), SIGN).load_state_dict(saved)


def parallel() -> None:
    """A layer that is split by tensor parallelism too."""
    mesh, net = init_device_mesh("cpu", (2, 1, 2), mesh_dim_names=("replicate", "shard", "tp")), network()
    parallelize_module(net[0], mesh["tp"], ColwiseParallel())  # pyright: ignore[reportIndexIssue]
    fully_shard(net[0], mesh=mesh["replicate", "shard"])  # pyright: ignore[reportIndexIssue]
    compress_replicas(net, "loco")


def twice() -> None:
    net = sharded()
    compress_replicas(net, "loco")
    compress_replicas(net, "loco")


def everything() -> dict:
    results: dict[str, Any] = {name: trained(algorithm) for name, algorithm in ALGORITHMS.items()}
    results["4 replicas"] = trained(SIGN, replicas=4)
    results["not finite"] = trained(SIGN, befalls=infinite, scaler=SCALER())
    results["layer"] = trained(SIGN, partition="layer")
    results["restarted"] = trained(SIGN, restart=True)
    results["kept"] = trained(SIGN, reshard_after_forward=False)
    half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    results["bf16"] = trained(SIGN, mp_policy=half, net=network().float())
    results["accumulated"], results["factored"] = accumulated(), factored()
    results["partly infinite"] = partly_infinite()
    results["unused, included"], results["frozen before"] = unused(True), frozen(before=True)
    for name, act in {
        "unused": partial(unused, False),
        "frozen after": partial(frozen, before=False),
        "frozen in one": lambda: frozen(before=False, after=dist.get_rank() >= RANKS // 2),
        "drift": partial(trained, SIGN, befalls=drift),
        "seed": lambda: compress_replicas(sharded(), SIGN, seed=dist.get_rank()),
        "other mesh": partial(resumed, 4),
        "damaged": partial(resumed, damaged=True),
        "tensor parallel": parallel,
        "plain": lambda: compress_replicas(fully_shard(network()), "loco"),  # a model without replicas
        "twice": twice,
        "too short": lambda: compress_replicas(sharded(), error_feedback(TopK(k=7), ADAM)),
    }.items():
        results[name] = error_of(act)
    return results


@cache
def pieces(replicas: int) -> dict[tuple[str, int], list[Tensor]]:
    """The coordinates of every unit's shards, those of a parameter after the other's."""
    places, begin = {}, 0
    for name, param in network().named_parameters():
        places[name] = torch.arange(begin, begin + param.numel()).view(param.shape)
        begin += param.numel()
    shards, found = RANKS // replicas, {}
    for unit, names in UNITS.items():
        rows = [places[name].chunk(shards) for name in names]
        for shard in range(shards):
            found[unit, shard] = [row[shard].flatten() for row in rows if shard < len(row)]
    return found


def parts(replicas: int) -> dict[tuple[str, int], Tensor]:
    """`pieces` as one vector."""
    none = torch.empty(0, dtype=torch.int64)
    return {key: torch.cat([none, *found]) for key, found in pieces(replicas).items()}


def gradients(x: Tensor, replicas: int, step: int) -> Tensor:
    """Those of every replica [replicas, d] at x [d], the mean over its ranks."""
    net = network()
    vector_to_parameters(x.clone(), net.parameters())
    params = list(net.parameters())
    of_ranks = [parameters_to_vector(torch.autograd.grad(loss(net, rank, step), params)) for rank in range(RANKS)]
    return torch.stack(of_ranks).unflatten(0, (replicas, -1)).mean(1)


def simulated(
    algorithm: Algorithm | Callable[[tuple[int, ...]], Algorithm], replicas: int = 2, left_out: int | None = None
) -> Tensor:
    """x after every step of the harness's own rounds, a cluster of `replicas` workers for every shard of a unit.

    algorithm: or what makes it of the sizes of the shard's parameters.
    """
    x, path, t = parameters_to_vector(network().parameters()).detach(), [], 0
    clusters = {
        (unit, shard): Simulated(
            algorithm if isinstance(algorithm, Algorithm) else algorithm(tuple(map(len, found))),
            replicas,
            keyed_seed(3, "unit", unit, "shard", shard),
        )
        for (unit, shard), found in pieces(replicas).items()
        if found
    }
    states = {key: cluster.start(x[parts(replicas)[key]]) for key, cluster in clusters.items()}
    for step in range(1, STEPS + 1):
        if step != left_out:
            t, found = t + 1, gradients(x, replicas, step)
            for key, cluster in clusters.items():
                part = parts(replicas)[key]
                states[key] = cluster.round(found[:, part], states[key], LR, t)
                x[part] = states[key].replica.x
        path.append(x.clone())
    return torch.stack(path)


OTHERS = {
    "4 replicas": partial(simulated, SIGN, replicas=4),
    "layer": partial(simulated, lambda sizes: cd_adam(Blocks(ScaledSign(), sizes), ADAM)),
    "not finite": partial(simulated, SIGN, left_out=AT),  # the infinity halves the scale, which doubles in two steps
}


@pytest.mark.parametrize("name", [*ALGORITHMS, *OTHERS])
def test_every_shard_runs_the_harness_round(name: str, ranks: list[dict]) -> None:
    expected = OTHERS[name]() if name in OTHERS else simulated(ALGORITHMS[name])
    for results in ranks:
        torch.testing.assert_close(results[name]["x"], expected, rtol=1e-11, atol=1e-13)
        assert torch.equal(results[name]["x"], ranks[0][name]["x"])


@pytest.mark.parametrize("name", ALGORITHMS)
def test_counted_bits_and_bytes_are_what_crosses_instead_of_an_all_reduce(name: str, ranks: list[dict]) -> None:
    for rank, results in enumerate(ranks):
        meter, sizes = BitCounter(), [len(parts(2)[unit, rank % 2]) for unit in UNITS]
        for t in range(1, STEPS + 1):
            for size in filter(None, sizes):
                meter.count(ALGORITHMS[name], size, t, torch.float64)
        found = results[name]
        assert (found["bits"], found["bytes"], found["skipped"]) == (meter.bits, meter.payload_bytes, 0)
        messages = [size for kind, size in found["crossed"] if kind in ("gather", "broadcast")]
        assert len(messages) == 2 * STEPS * len([*filter(None, sizes)])
        assert sum(messages) == meter.payload_bytes + BYTES * len(messages)
        reduced = [size for kind, size in found["crossed"] if "reduce" in kind and "scatter" not in kind]
        assert reduced == [1] * STEPS * len(UNITS)  # whether a shard is finite


def test_all_shards_of_a_unit_skip_a_round_where_one_gradient_is_not_finite(ranks: list[dict]) -> None:
    finite = {"0.weight": False, "0.bias": False, "2.weight": True, "2.bias": True}
    for rank, results in enumerate(ranks):
        found = results["not finite"]
        assert found["skipped"] == len(found["rounds"]) == 2 - rank % 2
        assert set(found["rounds"].values()) == {STEPS - 1}
        assert results["partly infinite"] == finite | {"0": 0} | ({} if rank % 2 else {"2": 1})


@pytest.mark.parametrize("name", ["restarted", "kept"])
def test_neither_a_restart_nor_kept_parameters_change_a_bit(name: str, ranks: list[dict]) -> None:
    for results in ranks:
        assert torch.equal(results[name]["x"], results["cd_adam"]["x"])


def test_memories_are_float32_where_gradients_are_shorter(ranks: list[dict]) -> None:
    for results in ranks:
        assert (results["bf16"]["x"].dtype, results["bf16"]["memory"].dtype) == (torch.float32, torch.float32)
        assert torch.equal(results["bf16"]["x"], ranks[0]["bf16"]["x"])
    torch.testing.assert_close(ranks[0]["bf16"]["x"].double(), simulated(SIGN), rtol=0, atol=4 * LR)


def test_two_backward_passes_are_one_round(ranks: list[dict]) -> None:
    for results in ranks:
        found = results["accumulated"]
        for name, one in found.items():
            assert set(one["rounds"].values()) == {1}, name
            torch.testing.assert_close(one["gradient"], found["summed"]["gradient"])


def test_torchs_own_divisor_is_kept(ranks: list[dict]) -> None:
    found = ranks[0]["factored"]
    torch.testing.assert_close(found["compressed"], found["torch"])


def test_parameters_without_a_gradient(ranks: list[dict]) -> None:
    for rank, results in enumerate(ranks):
        assert results["unused, included"] < 1
        assert results["frozen before"] == ({"0": 1, "2": 1} if rank % 2 == 0 else {"0": 1})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("unused", "ValueError: module '2': a parameter has no gradient"),
        ("frozen after", "ValueError: module '0': a parameter has no gradient, or its requires_grad changed"),
        ("drift", f"Disagreement: step {AT}: rank 1 differs from the others in x: "),
        ("seed", "Disagreement: step 0: rank 1 differs from the others in seed: "),
        ("other mesh", "ValueError: this state is of mesh 2 replicas of 2 shards, not 4 replicas of 1 shards: "),
        ("damaged", "ValueError: this state is damaged: "),
        ("tensor parallel", "ValueError: module '0': tensor parallelism is not supported"),
        ("plain", "ValueError: module '': its mesh lacks the two dimensions"),
        ("twice", "ValueError: module '0': it already has an all-reduce hook"),
        ("too short", "ValueError: .*k=7"),
    ],
)
def test_mistakes_are_said_on_every_rank(name: str, said: str, ranks: list[dict]) -> None:
    for results in ranks:
        assert re.match(said, results[name])


def test_a_replica_that_cannot_take_part_is_named_in_the_others(ranks: list[dict]) -> None:
    said = [results["frozen in one"] for results in ranks]
    assert all("ValueError: module '0': a parameter has no gradient" in one for one in said[2:])
    assert all("Disagreement: step 1: rank 1 differs from the others in parameters: " in one for one in said[:2])
