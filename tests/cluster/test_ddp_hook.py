"""DistributedDataParallel with compressed gradients and torch's optimizers, against the simulated cluster.

One launch of two ranks goes through all cases; the oracle is the harness's own round, with its own update rule.
"""

import copy
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
import torch.distributed as dist
from cluster_support import LR, error_of, small_shards, torch_optimizer
from small_network import count_bits, from_file, group_of_one, loss, simulate, vector
from small_network import network as of_dtype
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector

from algorithms.comm.gather_broadcast import LostContact
from algorithms.compressors import Blocks, Identity, Int4, Qsgd, RandomK, ScaledSign, TopK
from algorithms.core.algorithm import Algorithm
from algorithms.core.update_rules import SGD, Adam, AMSGrad
from algorithms.methods.amsgrad import amsgrad
from algorithms.methods.cd_adam import cd_adam
from algorithms.methods.ef21 import ef21
from algorithms.methods.error_feedback import error_feedback
from algorithms.methods.loco import loco
from algorithms.methods.naive import naive
from algorithms.optim.ddp_hook import compressed

RANKS, STEPS, AT, D = 2, 8, 5, 32  # what befalls a rank does so in step AT
TINY, HUGE = 1e-5, 100.0  # MB of a bucket: a tensor or all of them
ADAM, AMS = Adam(form="torch"), AMSGrad(form="torch", weight_decay=0.01)
SIGN = cd_adam(ScaledSign(), AMS)
ALGORITHMS = {
    "amsgrad": amsgrad(Identity(), AMS),
    "naive": naive(Qsgd(), SGD(momentum=0.9)),
    "error_feedback": error_feedback(TopK(k=3), ADAM),
    "cd_adam": SIGN,
    "cd_adam layer": cd_adam(Blocks(ScaledSign(), (15, 5, 10, 2)), AMS),
    "uplink_only": cd_adam(ScaledSign(), AMS, uplink_only=True),
    "loco": loco(Int4(block=8), ADAM, reset=3),
    "ef21": ef21(RandomK(k=4), SGD(), uplink_only=False),
    "clipped": replace(SIGN, clip=0.1),
}
SCALER = partial(torch.amp.GradScaler, "cpu", growth_interval=2)  # pyright: ignore[reportPrivateImportUsage]


network = partial(of_dtype, dtype=torch.float64)
harness = partial(simulate, workers=RANKS, steps=STEPS, dtype=torch.float64)


def hooked(net: torch.nn.Module, *arguments: object, **options: object) -> tuple[DistributedDataParallel, object]:
    """The module with compressed gradients, and the hook's state."""
    model = DistributedDataParallel(net)
    state, hook = compressed(model.parameters(), *arguments, **options)  # pyright: ignore[reportArgumentType]
    model.register_comm_hook(state, hook)
    return model, state


def trained(
    algorithm: Algorithm,
    bucket: float = TINY,
    befalls: Callable[[torch.nn.Module], torch.Tensor | None] = lambda net: None,
    scaler: torch.amp.GradScaler | None = None,  # pyright: ignore[reportPrivateImportUsage]
    dtype: torch.dtype = torch.float64,
    restart: bool = False,
    **options: object,
) -> dict:
    """x after every step, in a loop as anyone writes it, and what the hook counted; all objects may be made anew."""

    def begin() -> tuple:
        model = DistributedDataParallel(network(dtype=dtype), bucket_cap_mb=bucket)  # pyright: ignore
        state, hook = compressed(model.parameters(), algorithm, seed=3, scaler=scaler, **options)
        model.register_comm_hook(state, hook)
        return model, torch_optimizer(algorithm.update, model.parameters()), state

    (model, optimizer, state), path, rank, scaling = begin(), [], dist.get_rank(), scaler or SCALER(enabled=False)
    for step in range(1, STEPS + 1):
        if restart and step == STEPS // 2:
            states = from_file([one.state_dict() for one in (model, optimizer, state)])
            model, optimizer, state = begin()
            for one, saved in zip((model, optimizer, state), states, strict=True):
                one.load_state_dict(saved)
        optimizer.zero_grad()
        value = loss(model, rank, step)
        if step == AT and rank == RANKS - 1:
            more = befalls(model.module)
            value = value if more is None else value + more
        scaling.scale(value).backward()
        scaling.step(optimizer)
        scaling.update()
        path.append(vector(model))
    counted = {"t": state.t, "skipped": state.skipped, "bits": state.meter.bits, "bytes": state.meter.payload_bytes}
    return {"x": torch.stack(path), "memory": state._mean._worker.memory, **counted}


def infinite(net: torch.nn.Module) -> torch.Tensor:
    """A loss whose gradient is not finite."""
    return next(net.parameters()).sum() * torch.inf


def drift(net: torch.nn.Module) -> None:
    """A parameter of this rank moves by its last bit."""
    with torch.no_grad():
        net[0].bias[2] *= 1 + 2**-52  # pyright: ignore[reportIndexIssue]


def accumulated() -> dict:
    """One round of two backward passes, of which only the second is synchronised, and the gradient of their sum."""
    rank, found = dist.get_rank(), {}
    for name in ("accumulated", "summed"):
        model, state = hooked(network(), SIGN)
        if name == "summed":
            (loss(model, rank, 1) + loss(model, rank, 2)).backward()
        else:
            with model.no_sync():
                loss(model, rank, 1).backward()
            loss(model, rank, 2).backward()
        found[name] = parameters_to_vector([param.grad for param in model.parameters()])  # pyright: ignore
        found[f"{name} rounds"] = state.t
    return found


def damaged() -> str:
    """What is said of a state one number of which is another."""
    _, state = hooked(network(), SIGN)
    saved = state.state_dict()
    saved["signal"][7] += 1e-12
    return error_of(lambda: hooked(network(), SIGN)[1].load_state_dict(saved))


def back() -> None:
    """The last rank loads what it saved before its last round, and the others do not."""
    model, state = hooked(net := network(), SIGN)
    for step in (1, 2, 3):
        if step == 2:
            saved = state.state_dict()
        if step == 3 and dist.get_rank() == RANKS - 1:
            state.load_state_dict(saved)
        net.zero_grad()
        loss(model, dist.get_rank(), step).backward()


def lost() -> None:
    """Ask for a state after a round that lost contact."""

    def fail(*given: object, **options: object) -> None:
        raise LostContact

    with small_shards():
        model, state = hooked(network(), SIGN)
    state._mean._wire.step = fail  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(LostContact):
        loss(model, dist.get_rank(), 1).backward()
    state.state_dict()  # pyright: ignore[reportAttributeAccessIssue]


def given(name: str) -> None:
    """A backward pass where the hook was given some of the parameters that DDP has, or some that it has not."""
    net = network()
    model = DistributedDataParallel(net if name == "too few" else net[0])  # pyright: ignore[reportIndexIssue]
    model.register_comm_hook(*compressed(list(net.parameters())[: 2 if name == "too few" else None], SIGN))
    model(torch.ones(1, 3, dtype=torch.float64)).sum().backward()


def in_group(group: dist.ProcessGroup) -> tuple[int, int]:
    """The workers and rounds of a training by some of the ranks."""
    state, hook = compressed((net := network()).parameters(), SIGN, process_group=group)
    model = DistributedDataParallel(net, process_group=group)
    model.register_comm_hook(state, hook)
    loss(model, 1, 1).backward()
    return state.workers, state.t


def everything() -> dict:
    results = {}
    for name, algorithm in ALGORITHMS.items():
        results[name] = trained(algorithm)
    results["by layer"] = trained(SIGN, partition="layer")
    results["one bucket"] = trained(SIGN, bucket=HUGE)
    results["not finite"] = trained(SIGN, befalls=infinite, scaler=SCALER(init_scale=2.0**10))
    with small_shards():
        for name in ("amsgrad", "error_feedback", "loco", "uplink_only"):
            results[f"sharded {name}"] = trained(ALGORITHMS[name], restart=name == "error_feedback")
        results["sharded not finite"] = trained(SIGN, befalls=infinite, scaler=SCALER(init_scale=2.0**10))
        results["sharded restarted"] = trained(SIGN, restart=True)
    results["bf16"] = trained(SIGN, dtype=torch.bfloat16)
    results["accumulated"] = accumulated()
    results["restarted"] = trained(SIGN, restart=True)
    results["damaged"] = damaged()
    results["option"] = error_of(partial(hooked, network(), SIGN, uplink_only=True))
    group = dist.new_group([1])
    results["group"] = in_group(group) if dist.get_rank() else error_of(partial(in_group, group))
    results["start"] = error_of(partial(compressed, network().parameters(), SIGN, seed=dist.get_rank()))
    named = [(f"{name} of rank {dist.get_rank()}", param) for name, param in network().named_parameters()]
    results["names"] = error_of(partial(compressed, named, SIGN))
    results["back"] = error_of(back)
    results["lost"] = error_of(lost)
    results["drift"] = error_of(partial(trained, SIGN, befalls=drift))
    results["groups"] = error_of(lambda: compressed([{"params": network().parameters()}], "loco"))
    for name in ("too few", "too many"):
        results[name] = error_of(partial(given, name))
    return results


@pytest.mark.parametrize("name", [*ALGORITHMS, "not finite"])
def test_torchs_optimizer_on_compressed_gradients_is_the_harness_round(name: str, ranks: list[dict]) -> None:
    """A round with an infinite gradient is left out. The scale doubles every two steps; the infinity halves it."""
    algorithm, left_out = ALGORITHMS.get(name, SIGN), AT if name == "not finite" else None
    rounds, expected = STEPS - bool(left_out), harness(algorithm, left_out=left_out)
    meter = count_bits(algorithm, D, rounds, torch.float64)
    for results in ranks:
        found = results[name]
        torch.testing.assert_close(found["x"], expected, rtol=1e-11, atol=1e-13)
        assert torch.equal(found["x"], ranks[0][name]["x"])
        assert (found["t"], found["skipped"]) == (rounds, STEPS - rounds)
        assert (found["bits"], found["bytes"]) == (meter.bits, meter.payload_bytes)


def test_a_group_of_some_ranks(ranks: list[dict]) -> None:
    assert ranks[0]["group"] == "ValueError: this rank is not in process_group=: leave it out of this training"
    assert ranks[1]["group"] == (1, 1)


def test_a_hook_made_before_the_process_group_of_named_parameters_begins_at_its_first_bucket() -> None:
    """As where a framework is told of it before it starts the ranks; and it is not copied."""
    net = network()
    state, hook = compressed(net.named_parameters(), SIGN)
    with pytest.raises(ValueError, match="there is no process group yet: call torch"):
        state.state_dict()
    with pytest.raises(TypeError, match=r"cannot be copied or pickled: .* copy ddp_model.module"):
        copy.deepcopy(state)
    with group_of_one():
        model = DistributedDataParallel(net)
        model.register_comm_hook(state, hook)
        loss(model, 0, 1).backward()
        assert (state.t, state.workers, state.meter.bits) == (1, 1, 2 * (D + 32))
        del model


@pytest.mark.parametrize("name", ["amsgrad", "error_feedback", "loco", "uplink_only", "not finite", "restarted"])
def test_a_server_on_every_rank_gives_the_numbers_and_bits_of_one(name: str, ranks: list[dict]) -> None:
    """And its states, which are written in place, tile by tile."""
    for results in ranks:
        found, expected = results[f"sharded {name}"], results[name]
        torch.testing.assert_close(found["x"], expected["x"], rtol=1e-11, atol=1e-13)
        assert (found["bits"], found["bytes"]) == (expected["bits"], expected["bytes"])


@pytest.mark.parametrize(
    ("name", "same"), [("by layer", "cd_adam layer"), ("one bucket", "cd_adam"), ("restarted", "cd_adam")]
)
def test_neither_a_partition_nor_buckets_nor_a_restart_change_a_bit(name: str, same: str, ranks: list[dict]) -> None:
    for results in ranks:
        assert torch.equal(results[name]["x"], results[same]["x"])
        assert results[name]["bits"] == results[same]["bits"]


def test_two_backward_passes_are_one_round(ranks: list[dict]) -> None:
    for results in ranks:
        found = results["accumulated"]
        assert (found["accumulated rounds"], found["summed rounds"]) == (1, 1)
        torch.testing.assert_close(found["accumulated"], found["summed"])


def test_memories_are_float32_where_parameters_are_shorter(ranks: list[dict]) -> None:
    found = ranks[0]["bf16"]
    assert (found["x"].dtype, found["memory"].dtype) == (torch.bfloat16, torch.float32)
    torch.testing.assert_close(found["x"].double(), harness(SIGN), rtol=0, atol=LR / 5)


@pytest.mark.parametrize("as_view", [False, True])
def test_memories_and_means_are_in_index_order_in_any_memory_format(as_view: bool) -> None:
    with group_of_one():
        for net in (nets := [network(), network()]):
            nets[1][0].weight.data = nets[1][0].weight.data.mT.contiguous().mT  # pyright: ignore
            model = DistributedDataParallel(net, gradient_as_bucket_view=as_view)
            model.register_comm_hook(*(hook := compressed(net.parameters(), SIGN)))
            loss(model, 0).backward()
            net.memory = hook[0]._mean._worker.memory  # pyright: ignore
        del model
    torch.testing.assert_close(nets[1].memory, nets[0].memory)
    torch.testing.assert_close(nets[1][0].weight.grad, nets[0][0].weight.grad)  # pyright: ignore


def test_a_hook_that_is_gone_checks_nothing() -> None:
    net = network()
    with group_of_one():
        hook = compressed(net.parameters(), SIGN)
        net.bfloat16()
        with pytest.raises(ValueError, match=r"is .*bfloat16"):
            loss(net, 0).backward()
        del hook
        loss(net, 0).backward()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("start", "Disagreement: step 0: rank 1 differs from the others in seed: "),
        ("names", "Disagreement: step 0: rank 1 differs from the others in names: "),
        ("back", "Disagreement: step 3: rank 1 differs from the others in round: "),
        ("lost", "ValueError: contact was lost during a round, so this state is incomplete"),
        ("drift", f"Disagreement: step {AT}: rank 1 differs from the others in x: "),
        ("groups", "ValueError: the hook takes parameters, not parameter groups"),
        ("damaged", "ValueError: this state is damaged: "),
        ("option", "ValueError: uplink_only: options are only for an algorithm given by name"),
        ("too few", "ValueError: DDP has a parameter that the hook was not given"),
        ("too many", "ValueError: DDP lacks some parameters of the hook: give it ddp_model.parameters()"),
    ],
)
def test_mistakes_are_said_on_every_rank(name: str, said: str, ranks: list[dict]) -> None:
    for results in ranks:
        assert re.match(said, results[name])
