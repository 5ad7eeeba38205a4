"""Two nodes of two ranks: dense means inside a node, and a node is one worker of the harness."""

import re
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
import torch
import torch.distributed as dist
from cluster_support import LR, error_of, small_shards
from small_network import count_bits, gradients, loss, network, simulate, simulate_local, vector
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector

from algorithms import CompressedOptimizer, LocalSteps, compressed
from algorithms.compressors import ChunkTopKBins, Identity, RandomK, ScaledSign
from algorithms.core.update_rules import SGD, AMSGrad
from algorithms.methods.cd_adam import cd_adam
from algorithms.methods.diloco import diloco
from algorithms.methods.error_feedback import error_feedback
from algorithms.methods.sparseloco import sparseloco
from experiments.cluster.base import Simulated

RANKS, STEPS, AT, D = 4, 5, 3, 32  # a fault is in step AT
NODES = [[0, 2], [1, 3]]
SIGN, DRAWN = cd_adam(ScaledSign(), AMSGrad()), error_feedback(RandomK(k=4), SGD())
MOMENTUM = SGD(momentum=0.9)  # of the inner steps below; models are exchanged after steps 2 and 4
DILOCO = diloco(Identity(), MOMENTUM, period=2)
SPARSELOCO = sparseloco(ChunkTopKBins(2, 8), MOMENTUM, len(NODES), period=2)


def steps(begin: Callable[[], tuple], befalls: Callable, restart: bool, scales: bool = False) -> dict:
    """x of this rank after every step; one rank of the second node may be in trouble in step AT."""
    (net, optimizer), path, rank = begin(), [], dist.get_rank()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, enabled=scales)  # pyright: ignore
    for step in range(1, STEPS + 1):
        if restart and step == AT:
            saved = optimizer.state_dict()
            net, optimizer = begin()
            optimizer.load_state_dict(saved)
        optimizer.zero_grad()
        scaler.scale(loss(net, rank, step)).backward()
        if step == AT and rank == RANKS - 1:
            befalls(net)
        scaler.step(optimizer)
        scaler.update()
        path.append(vector(net))
    counted = {"t": optimizer.t, "skipped": optimizer.skipped, "meter": optimizer.meter}
    return {"x": torch.stack(path), "worker": (optimizer.rank, optimizer.workers), **counted}


def trained(
    intra: Any, algorithm: Any = SIGN, befalls: Callable = bool, restart: bool = False, group: Any = None
) -> dict:
    """The steps of CompressedOptimizer."""

    def begin() -> tuple:
        net = network(dist.get_rank())
        return net, CompressedOptimizer(net.parameters(), algorithm, LR, 3, process_group=group, intra_group=intra)

    return steps(begin, befalls, restart)


def local(
    intra: Any, method: Any = DILOCO, befalls: Callable = bool, restart: bool = False, scales: bool = False
) -> dict:
    """The steps of LocalSteps."""

    def begin() -> tuple:
        net = network(dist.get_rank(), torch.float64)
        inside = torch.optim.SGD(net.parameters(), LR, MOMENTUM.momentum)
        return net, LocalSteps(inside, method, seed=3, intra_group=intra)

    return steps(begin, befalls, restart, scales)


def hooked(intra: Any) -> torch.Tensor:
    """The gradients of one backward pass, as DDP's hook leaves them."""
    model = DistributedDataParallel(network())
    model.register_comm_hook(*compressed(model.parameters(), SIGN, seed=3, intra_group=intra))
    loss(model, dist.get_rank(), 1).backward()
    return parameters_to_vector([param.grad for param in model.parameters()])  # pyright: ignore


def infinite(net: torch.nn.Module) -> None:
    next(net.parameters()).grad.fill_(torch.inf)  # pyright: ignore[reportOptionalMemberAccess]


def drift(net: torch.nn.Module) -> None:
    with torch.no_grad():
        net[0].bias[2] *= 1.5  # pyright: ignore[reportIndexIssue]


def without(net: torch.nn.Module) -> None:
    net[0].bias.grad = None  # pyright: ignore[reportIndexIssue, reportAttributeAccessIssue]


def everything() -> dict:
    rank = dist.get_rank()
    own, others = ([dist.new_group(ranks) for ranks in groups] for groups in (NODES, ([0, 1, 2], [3])))
    intra = own[rank % 2]
    results: dict[str, Any] = {
        "cd_adam": trained(intra),
        "drawn": trained(intra, DRAWN),
        "restarted": trained(intra, restart=True),
        "not finite": trained(intra, befalls=infinite),
        "missing": trained(intra, befalls=without),
        "hook": hooked(intra),
        "DiLoCo": local(intra),
        "SparseLoCo": local(intra, SPARSELOCO),
        "restarted DiLoCo": local(intra, restart=True),
        "scaled DiLoCo": local(intra, scales=True),
        "DiLoCo without a gradient": local(intra, befalls=without),
        "overflow": local(intra, befalls=infinite, scales=True),
    }
    with small_shards():
        results["sharded"] = trained(intra)
    two, three = dist.new_group([1, 3]), dist.new_group([0, 1, 3])
    for name, act in {
        "drift": partial(trained, intra, befalls=drift),
        "converted": partial(trained, intra, befalls=torch.nn.Module.double),
        "local drift": partial(local, intra, befalls=drift),
        "local conversion": partial(local, intra, befalls=torch.nn.Module.float),
        "unequal": partial(trained, others[rank == 3]),
        "one outside": partial(trained, intra if rank < 3 else own[0]),
        "none on one": partial(trained, intra if rank < 3 else None),
        "beyond the process group": partial(trained, intra, group=three),
        "a process group": partial(trained, own[1], group=two),
    }.items():
        results[name] = error_of(act)
    return results


def of_nodes(x: torch.Tensor, nodes: int, step: int, missing: bool = False) -> torch.Tensor:
    """The mean gradient of every node [2, 32] at x. With `missing` the last rank lacks some in step AT."""
    found = gradients(x, RANKS, step)
    if missing and step == AT:
        found[RANKS - 1, 15:20] = 0
    return torch.stack([found[node].sum(0) / len(node) for node in NODES])


@pytest.mark.parametrize("name", ["cd_adam", "drawn", "restarted", "not finite", "missing", "sharded"])
def test_a_node_is_one_worker_of_the_harness(name: str, ranks: list[dict]) -> None:
    algorithm, left_out = DRAWN if name == "drawn" else SIGN, AT if name == "not finite" else None
    rounds, gradients = STEPS - bool(left_out), partial(of_nodes, missing=name == "missing")
    with small_shards() if name == "sharded" else nullcontext():
        expected = simulate(algorithm, len(NODES), STEPS, left_out, gradients=gradients)
    bits = count_bits(algorithm, D, rounds).bits
    for rank, results in enumerate(ranks):
        found = results[name]
        assert torch.equal(found["x"], expected)
        assert found["worker"] == (rank % 2, len(NODES))
        assert (found["t"], found["skipped"], found["meter"].bits) == (rounds, STEPS - rounds, bits)


def test_a_hook_averages_nodes(ranks: list[dict]) -> None:
    cluster, x = Simulated(SIGN, len(NODES), seed=3), vector(network())
    expected = cluster.round(of_nodes(x, len(NODES), 1), cluster.start(x), LR, 1).replica.signal
    for results in ranks:
        torch.testing.assert_close(results["hook"], expected)
        assert torch.equal(results["hook"], ranks[0]["hook"])


@pytest.mark.parametrize(
    ("name", "method", "missing"),
    [
        ("DiLoCo", DILOCO, False),
        ("SparseLoCo", SPARSELOCO, False),
        ("restarted DiLoCo", DILOCO, False),
        ("scaled DiLoCo", DILOCO, False),
        ("DiLoCo without a gradient", DILOCO, True),
    ],
)
def test_a_node_takes_local_steps_as_one_worker(name: str, method: Any, missing: bool, ranks: list[dict]) -> None:
    expected = simulate_local(method, len(NODES), STEPS, partial(of_nodes, missing=missing))
    meter = count_bits(method, D, STEPS, torch.float64)
    for rank, results in enumerate(ranks):
        found = results[name]
        torch.testing.assert_close(found["x"], expected[:, rank % 2], rtol=1e-10, atol=1e-12)
        assert torch.equal(found["x"], ranks[rank % 2][name]["x"])
        assert (found["worker"], found["t"], found["meter"]) == ((rank % 2, len(NODES)), STEPS, meter)


def test_all_ranks_of_a_node_skip_a_local_step_where_one_overflows(ranks: list[dict]) -> None:
    assert [results["overflow"]["skipped"] for results in ranks] == [0, 1, 0, 1]
    for results in ranks[1::2]:
        assert torch.equal(results["overflow"]["x"][AT - 1], results["overflow"]["x"][AT - 2])
    assert all(torch.equal(results["overflow"]["x"][3], ranks[0]["overflow"]["x"][3]) for results in ranks)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("drift", f"Disagreement: step {AT}: rank 3 differs from the others in x: "),
        ("converted", f"Disagreement: step {AT}: rank 3 differs from the others in parameters: it cannot step"),
        ("local drift", "ValueError: step 4: the ranks of this node differ in x|Disagreement: step 4: rank 3"),
        ("local conversion", "Disagreement: step 4: rank 3 differs from the others in parameters: it cannot step"),
        ("unequal", r"ValueError: intra_group= makes nodes of ranks \[\(0, 1, 2\), \(3,\)\]: all must have the same"),
        ("one outside", r"ValueError: intra_group= is rank 0: \[0, 2\], .*rank 3: \[\]\. Every rank must give"),
        ("none on one", r"ValueError: intra_group= is rank 0: \[0, 2\], .*rank 3: \[3\]\. Every rank must give"),
        ("beyond the process group", r"ValueError: (intra_group= is rank 0: \[0, 2\], |this rank is not in process)"),
        ("a process group", r"ValueError: (intra_group= takes all ranks: leave out |this rank is not in process)"),
    ],
)
def test_mistakes_are_said_on_every_rank(name: str, said: str, ranks: list[dict]) -> None:
    for rank, results in enumerate(ranks):
        if rank == RANKS - 1 and name in ("converted", "local conversion"):
            assert results[name].startswith("ValueError: parameter 0 was")
        else:
            assert re.match(said, results[name]), results[name]
