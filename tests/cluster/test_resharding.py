"""Checkpoints of torch.distributed.checkpoint: three ranks save, three go on bit for bit, two and four go on."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from cluster_support import LR, call_within, results_of
from small_network import gradients, network, train, vector

from algorithms import LocalSteps
from algorithms.compressors import RandomK, ScaledSign, TopK
from algorithms.core.algorithm import Algorithm, from_dicts
from algorithms.core.channels import ErrorFeedback, dense
from algorithms.core.update_rules import SGD, AMSGrad
from algorithms.methods.cd_adam import cd_adam
from algorithms.methods.ef21 import ef21
from algorithms.methods.error_feedback import error_feedback
from algorithms.methods.naive import naive
from algorithms.methods.onebit_adam import onebit_adam
from algorithms.methods.quantized_adam import quantized_adam
from algorithms.optim.checkpoint import distributed_state, load_distributed
from algorithms.optim.optimizer import CompressedOptimizer
from algorithms.optim.optimizer_state import round_state
from experiments.cluster.base import Simulated

SAVED, STEPS = 3, 4  # ranks and steps


class Own(ErrorFeedback):
    """A channel of a user's, which does not say what a receiver relies on."""

    mean_memory_suffices = False


ALGORITHMS = {
    "cd_adam": cd_adam(ScaledSign(), AMSGrad()),
    "ef21": ef21(TopK(k=4), SGD(), uplink_only=False, dense_start=False),
    "error_feedback": error_feedback(RandomK(k=4), SGD(momentum=0.9)),
    "onebit_adam": onebit_adam(ScaledSign("l2"), 2 * STEPS, warmup=2),
    "naive": naive(ScaledSign(), AMSGrad()),
}
REFUSED = {
    "quantized_adam": (quantized_adam(TopK(k=5)), "every worker has moments of its own gradients"),
    "own": (Algorithm(Own(ScaledSign()), dense(), SGD()), "every worker has a memory, and Own does not state"),
}
CASES = {name: (algorithm, False) for name, algorithm in ALGORITHMS.items()}
CASES |= {name: (algorithm, False) for name, (algorithm, _) in REFUSED.items()}
CASES["groups"] = (ALGORITHMS["cd_adam"], True)


def steps(net: torch.nn.Module, optimizer: CompressedOptimizer, first: int) -> torch.Tensor:
    """x after each of STEPS steps."""
    return train(net, optimizer, steps=STEPS, worker=optimizer.rank, first=first)


def begun(algorithm: Algorithm, grouped: bool = False, lr: float = LR) -> tuple[torch.nn.Module, CompressedOptimizer]:
    """An untrained network of this rank's own, whose biases may be a group of their own."""
    net = network(dist.get_rank() if dist.is_initialized() else 0)
    params = list(net.parameters())
    groups = [{"params": params[::2]}, {"params": params[1::2], "compressor": None, "weight_decay": 0.1}]
    return net, CompressedOptimizer(groups if grouped else params, algorithm, lr=lr, seed=3)


def saving(target: Path) -> dict:
    """Train, save, go on; and the same in a new object that loads what was saved."""
    results = {}
    for name, (algorithm, grouped) in CASES.items():
        net, optimizer = begun(algorithm, grouped)
        steps(net, optimizer, 1)
        state = round_state(optimizer.state_dict())
        dcp.save({"optimizer": distributed_state(optimizer)}, checkpoint_id=target / name)
        path = steps(net, optimizer, 1 + STEPS)
        other, restarted = begun(algorithm, grouped, lr=9.0)
        load_distributed(restarted, target / name)
        results[name] = {"state": state, "path": path, "again": steps(other, restarted, 1 + STEPS)}
    return results


def loading(source: Path) -> dict:
    """Go on with another number of ranks, or say why not."""
    results = {}
    for name, (algorithm, grouped) in CASES.items():
        net, optimizer = begun(algorithm, grouped, lr=9.0)
        before = optimizer.state_dict()["state"][0]["digest"]
        try:
            load_distributed(optimizer, source / name)
        except ValueError as error:
            results[name] = {"error": str(error), "changed": optimizer.state_dict()["state"][0]["digest"] != before}
        else:
            results[name] = {"state": optimizer.state_dict(), "path": steps(net, optimizer, 1 + STEPS)}
    return results


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, context: Callable) -> Path:
    """Of what was saved."""
    return tmp_path_factory.mktemp("saved")


@pytest.fixture(scope="module")
def saved(folder: Path, context: Callable) -> list[dict]:
    """Results of the three ranks that save the checkpoint."""
    return results_of(folder, SAVED, partial(call_within, context, saving, folder))


@pytest.fixture(scope="module", params=[2, pytest.param(4, marks=pytest.mark.slow)])
def others(request: pytest.FixtureRequest, folder: Path, saved: list, context: Callable, tmp_path_factory) -> list:
    """What other numbers of ranks came to."""
    place, act = tmp_path_factory.mktemp("others"), partial(call_within, context, loading, folder)
    return results_of(place, request.param, act)


def served(states: list[dict]) -> dict:
    """The server's state, of which each rank may have a shard."""
    found = [one["server"] for one in states if one["server"]]
    parts = {name: [one[name] for one in found] for name in found[0]}
    return {name: None if some[0] is None else torch.cat(some, -1) for name, some in parts.items()}


@pytest.mark.parametrize("name", CASES)
def test_as_many_ranks_go_on_bit_for_bit(name: str, saved: list[dict]) -> None:
    for results in saved:
        assert torch.equal(results[name]["again"], results[name]["path"])


@pytest.mark.parametrize("name", ALGORITHMS)
def test_another_number_of_ranks_goes_on_from_the_mean_of_the_memories(
    name: str, saved: list[dict], others: list[dict]
) -> None:
    """As a simulation of so many workers does whose memories are that mean."""
    before, n = [results[name]["state"] for results in saved], len(others)
    cluster = Simulated(ALGORITHMS[name], n, seed=3)
    state = cluster.start(before[0]["replica"]["x"])
    memory = before[0]["worker"]["memory"]
    if memory is not None:
        memory = torch.cat([one["worker"]["memory"] for one in before]).mean(0, keepdim=True).expand(n, -1)
    state = replace(
        state,
        workers=replace(state.workers, memory=memory),
        server=from_dicts(served(before), state.server),
        replica=from_dicts(before[0]["replica"], state.replica),
    )
    for step in range(1 + STEPS, 1 + 2 * STEPS):
        state = cluster.round(gradients(state.replica.x, n, step), state, LR, step)
        for results in others:
            assert torch.equal(results[name]["path"][step - 1 - STEPS], state.replica.x)


def test_groups_go_on_with_their_settings(saved: list[dict], others: list[dict]) -> None:
    before = [results["groups"]["state"] for results in saved]
    for results in others:
        state = results["groups"]["state"]
        assert [group["weight_decay"] for group in state["param_groups"]] == [0.0, 0.1]
        assert [group["lr"] for group in state["param_groups"]] == [LR, LR]
        state = round_state(state)
        assert (state["t"], state["meter"]) == (STEPS, before[0]["meter"])
        expected = torch.cat([one["worker"]["0"]["memory"] for one in before]).mean(0)
        torch.testing.assert_close(state["worker"]["0"]["memory"][0], expected)
        assert state["worker"]["1"]["memory"] is None
        assert torch.equal(state["replica"]["1"]["moments"]["v_hat"], before[0]["replica"]["1"]["moments"]["v_hat"])
        assert torch.equal(results["groups"]["path"], others[0]["groups"]["path"])


@pytest.mark.parametrize("name", REFUSED)
def test_what_other_workers_cannot_start_from_is_refused(name: str, others: list[dict]) -> None:
    for results in others:
        assert f"this state is of 3 workers, not {len(others)}, and {REFUSED[name][1]}" in results[name]["error"]
        assert not results[name]["changed"]


# Alone, on what three ranks saved.


def refused(folder: Path, name: str, said: str, key: str = "optimizer", **options: bool) -> None:
    """In words, and nothing has changed."""
    _, optimizer = begun(ALGORITHMS[name], **options)
    before = optimizer.state_dict()["state"][0]["digest"]
    with pytest.raises(ValueError, match=said):
        load_distributed(optimizer, folder, key)
    assert optimizer.state_dict()["state"][0]["digest"] == before


def test_one_process_may_go_on_alone(folder: Path, saved: list[dict]) -> None:
    net, optimizer = begun(ALGORITHMS["cd_adam"])
    load_distributed(optimizer, folder / "cd_adam")
    before = saved[0]["cd_adam"]["state"]
    aggregate = served([results["cd_adam"]["state"] for results in saved])["aggregate"]
    assert torch.equal(vector(net), before["replica"]["x"])
    state = round_state(optimizer.state_dict())
    assert torch.equal(state["server"]["aggregate"], aggregate)
    # The invariant of a Markov sequence: what the server has is the mean of what the workers have.
    torch.testing.assert_close(state["worker"]["memory"][0], aggregate)


def test_what_is_not_there_or_of_something_else_is_refused(folder: Path, tmp_path: Path) -> None:
    refused(tmp_path, "cd_adam", "has no checkpoint of torch.distributed.checkpoint")
    refused(folder / "cd_adam", "cd_adam", "has no distributed_state of an optimizer under 'optim'", key="optim")
    refused(folder / "cd_adam", "naive", "this state is of algorithm")
    refused(folder / "cd_adam", "cd_adam", "this state is of 1 parameter groups, not 2", grouped=True)
    with pytest.raises(TypeError, match=r"LocalSteps: distributed_state takes a CompressedOptimizer; save the state"):
        distributed_state(LocalSteps(torch.optim.SGD(network().parameters()), "local_sgd"))  # pyright: ignore


def test_keys_of_ones_own_are_saved_if_json_can_hold_them(tmp_path: Path) -> None:
    _, optimizer = begun(ALGORITHMS["cd_adam"])
    optimizer.param_groups[0].update(name="all", tag=object(), mask=torch.ones(2))
    dcp.save({"optimizer": distributed_state(optimizer)}, checkpoint_id=tmp_path)
    load_distributed(optimizer, tmp_path)
    assert optimizer.param_groups[0]["name"] == "all"


@pytest.mark.parametrize("name", ["alike.x", "alike.about", "server-0.memory", "worker-0.memory"])
def test_a_tensor_that_is_not_what_was_saved_is_noticed(name: str, tmp_path: Path) -> None:
    """Whatever the file says of itself."""
    net, optimizer = begun(ALGORITHMS["cd_adam"])
    steps(net, optimizer, 1)
    state = distributed_state(optimizer)
    state[name] = state[name].clone()
    state[name].view(torch.uint8).view(-1)[-3] ^= 1
    dcp.save({"optimizer": state}, checkpoint_id=tmp_path)
    refused(tmp_path, "cd_adam", f"{name.partition('.')[0]} is damaged or missing")
