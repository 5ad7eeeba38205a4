"""An optimizer whose messages leave during backward, on two ranks, against rounds of every part simulated alone."""

import gc
import weakref
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from cluster_support import fine, launched
from loop_support import loss, network, refused
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from algorithms.compressors import Blocks, Identity, LogQuantize, MinMaxUint8, Qsgd, RandomK, ScaledSign, TopK
from algorithms.core.algorithm import Algorithm
from algorithms.core.bit_counter import Meter
from algorithms.core.update_rules import SGD, AMSGrad
from algorithms.methods.amsgrad import amsgrad
from algorithms.methods.cd_adam import cd_adam
from algorithms.methods.ef21 import ef21
from algorithms.methods.error_feedback import error_feedback
from algorithms.methods.naive import naive
from algorithms.methods.onebit_adam import onebit_adam
from algorithms.methods.qadam import qadam
from algorithms.methods.quantized_adam import quantized_adam
from algorithms.optim.optimizer import CompressedOptimizer
from algorithms.utils.seeding import keyed_seed
from experiments.cluster.simulated import Simulated

RANKS, STEPS, AT, LR = 2, 6, 4, 0.05  # what befalls a rank does so in step AT
D, PARTS = 32, (20, 12)
MB = 12 * 8 / 2**20  # the last two tensors, of 12 numbers of 8 bytes, are a part, and the two before them
SIGN = cd_adam(ScaledSign(), AMSGrad(weight_decay=0.01))
ALGORITHMS = {
    "amsgrad": amsgrad(Identity(), AMSGrad()),
    "naive": naive(Qsgd(), SGD(momentum=0.9)),
    "error_feedback": error_feedback(TopK(k=3), SGD()),
    "cd_adam": SIGN,
    "ef21": ef21(RandomK(k=4), SGD(), uplink_only=False),
    "onebit_adam": onebit_adam(ScaledSign("l2"), STEPS, warmup=3),
    "qadam": qadam(MinMaxUint8(), STEPS, warmup=3),
    "quantized_adam": quantized_adam(LogQuantize()),
}


def lr_of(step: int) -> float:
    """Of a schedule."""
    return LR / step


def simulated(algorithm: Algorithm, left_out: int | None = None) -> torch.Tensor:
    """x after every step [STEPS, 32], where each part of the vector has a cluster of its own."""
    net, path, t = network(), [], 0
    starts = parameters_to_vector(net.parameters()).detach().split(PARTS)
    clusters = [Simulated(algorithm, RANKS, keyed_seed(3, "part", part) if part else 3) for part in (0, 1)]
    states = [cluster.start(start) for cluster, start in zip(clusters, starts, strict=True)]
    for step in range(1, STEPS + 1):
        if step != left_out:
            t += 1
            gradients = [
                parameters_to_vector(torch.autograd.grad(loss(net, rank, step), list(net.parameters())))
                for rank in range(RANKS)
            ]
            parts = torch.stack(gradients).split(PARTS, -1)
            states = [
                cluster.round(part, state, lr_of(step), t)
                for cluster, part, state in zip(clusters, parts, states, strict=True)
            ]
        x = torch.cat([state.replica.x for state in states])
        vector_to_parameters(x.clone(), net.parameters())
        path.append(x)
    return torch.stack(path)


def nothing(net: torch.nn.Module, optimizer: CompressedOptimizer) -> None:
    """Befalls most ranks."""


def clip(net: torch.nn.Module, optimizer: CompressedOptimizer) -> None:
    """The gradient becomes another one, but for its direction."""
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1e-3)


def another_lr(net: torch.nn.Module, optimizer: CompressedOptimizer) -> None:
    """The step size becomes another one."""
    optimizer.param_groups[0]["lr"] = 1.0


def trained(
    algorithm: Algorithm,
    message: float | None = MB,
    befalls: Callable[[torch.nn.Module, CompressedOptimizer], None] = nothing,
    whom: tuple[int, ...] = (1,),
    weight: Callable[[int, int], float] = lambda rank, step: 1.0,
    reload: bool = False,
) -> dict:
    """x after every step, what was refused, what was counted, and how many messages left before each step."""
    net, rank, path, refusals, early = network(), dist.get_rank(), [], [], []
    optimizer = CompressedOptimizer(net.parameters(), algorithm, lr=LR, seed=3, bucket_mb=message)
    for step in range(1, STEPS + 1):
        if reload and step == AT:
            saved = optimizer.state_dict()
            net = network()
            optimizer = CompressedOptimizer(net.parameters(), algorithm, lr=LR, seed=3, bucket_mb=message)
            optimizer.load_state_dict(saved)
        optimizer.param_groups[0]["lr"] = lr_of(step)
        optimizer.zero_grad()
        (weight(rank, step) * loss(net, rank, step)).backward()
        early.append(len(optimizer._departures.made))
        if step == AT and rank in whom:
            befalls(net, optimizer)
        refusals.append(refused(optimizer.step))
        path.append(parameters_to_vector(net.parameters()).detach().clone())
    counted = {"t": optimizer.t, "skipped": optimizer.skipped, "bits": optimizer.meter.bits}
    return {"x": torch.stack(path), "refusals": refusals, "early": early, **counted}


def accumulated(synchronised: bool) -> dict:
    """A step after two backward passes, of which the first is in `no_sync`, or not."""
    net, rank = network(), dist.get_rank()
    optimizer = CompressedOptimizer(net.parameters(), SIGN, lr=LR, seed=3, bucket_mb=MB)
    if synchronised:
        loss(net, rank, 1).backward()
    else:
        with optimizer.no_sync():
            with optimizer.no_sync():
                pass
            loss(net, rank, 1).backward()
    early = len(optimizer._departures.made)
    loss(net, rank, 2).backward()
    said = refused(optimizer.step)
    return {"x": parameters_to_vector(net.parameters()).detach(), "said": said, "early": early}


def summed() -> torch.Tensor:
    """x after a step of the sum of both losses."""
    net, rank = network(), dist.get_rank()
    optimizer = CompressedOptimizer(net.parameters(), SIGN, lr=LR, seed=3, bucket_mb=MB)

    def closure() -> torch.Tensor:
        value = loss(net, rank, 1) + loss(net, rank, 2)
        value.backward()
        return value

    optimizer.step(closure)
    return parameters_to_vector(net.parameters()).detach()


def grouped(message: float | None) -> dict:
    """Weights in one group and biases in another, dense, with a step size of its own."""
    net, rank = network(), dist.get_rank()
    weights, biases = ([param for param in net.parameters() if param.dim() == axes] for axes in (2, 1))
    groups = [{"params": weights}, {"params": biases, "compressor": None, "lr": 0.01}]
    optimizer = CompressedOptimizer(groups, SIGN, lr=LR, seed=3, bucket_mb=message)
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        loss(net, rank, step).backward()
        optimizer.step()
    return {
        "x": parameters_to_vector(net.parameters()).detach(),
        "bits": [one.bits for one in optimizer.meter.groups],
    }


def by_hand() -> dict:
    """Gradients that no backward pass left; then one of some parameters alone."""
    path = {}
    for message in (MB, None):
        net, rank = network(), dist.get_rank()
        blockwise = SIGN if message else cd_adam(Blocks(ScaledSign(), PARTS), AMSGrad(weight_decay=0.01))
        optimizer = CompressedOptimizer(net.parameters(), blockwise, lr=LR, seed=3, bucket_mb=message)
        for step in range(1, 4):
            optimizer.zero_grad()
            if step == 2:
                net[2](torch.ones(5).double()).sum().backward()  # pyright: ignore[reportIndexIssue]
            else:
                for param in net.parameters():
                    param.grad = torch.full_like(param, rank + step)
            optimizer.step()
        path[str(message)] = parameters_to_vector(net.parameters()).detach()
    return path


def between() -> dict[str, str]:
    """What is refused while messages are on their way, and that the step after it is not."""
    net = network()
    optimizer = CompressedOptimizer(list(net.parameters())[1:], SIGN, lr=LR, bucket_mb=MB)
    saved = optimizer.state_dict()
    loss(net, dist.get_rank(), 1).backward()
    group = {"params": [next(net.parameters())]}
    return {
        "load": refused(lambda: optimizer.load_state_dict(saved)),
        "group": refused(lambda: optimizer.add_param_group(group)),
        "step": refused(optimizer.step),
    }


def later_group() -> tuple[int, list[int]]:
    """The number of steps and the hooks of every tensor after one, where the first came as a group of its own."""
    net, rank = network(), dist.get_rank()
    first, *others = net.parameters()
    optimizer = CompressedOptimizer(others, SIGN, lr=LR, seed=3, bucket_mb=MB)
    optimizer.add_param_group({"params": [first]})
    loss(net, rank, 1).backward()
    optimizer.step()
    hooks = [len(param._post_accumulate_grad_hooks or {}) for param in net.parameters()]
    return optimizer.t, hooks


def out_of_range() -> dict[str, str]:
    """What backward and step say of settings of which no message can be made."""
    net, rank = network(), dist.get_rank()
    optimizer = CompressedOptimizer(net.parameters(), SIGN, lr=LR, bucket_mb=MB)
    optimizer.param_groups[0]["betas"] = (0.9, 1.99)
    return {"backward": refused(loss(net, rank, 1).backward), "step": refused(optimizer.step), "t": str(optimizer.t)}


def back() -> None:
    """The last rank loads what it saved before its last round, and the others do not."""
    net, rank = network(), dist.get_rank()
    optimizer = CompressedOptimizer(net.parameters(), SIGN, lr=LR, bucket_mb=MB)
    for step in (1, 2, 3):
        if step == 2:
            saved = optimizer.state_dict()
        if step == 3 and rank == RANKS - 1:
            optimizer.load_state_dict(saved)
        optimizer.zero_grad()
        loss(net, rank, step).backward()
        optimizer.step()


def beside() -> float:
    """The sum that a loop adds up itself between backward and step, where one rank's last layer had no part in it."""
    net, rank = network(), dist.get_rank()
    optimizer = CompressedOptimizer(net.parameters(), SIGN, lr=LR, bucket_mb=MB)
    outputs = net[0](torch.ones(1, 3).double()) if rank else net(torch.ones(1, 3).double())  # pyright: ignore
    outputs.sum().backward()
    total = torch.tensor([rank + 1.0])
    dist.all_reduce(total)
    optimizer.step()
    return total.item()


def left_behind() -> bool:
    """Whether an optimizer lives on that nobody has any more."""
    net = network()
    optimizer = CompressedOptimizer(net.parameters(), SIGN, lr=LR, bucket_mb=MB)
    loss(net, dist.get_rank(), 1).backward()
    optimizer.step()
    known = weakref.ref(optimizer)
    del optimizer
    gc.collect()
    return known() is not None


def moved(net: torch.nn.Module, optimizer: CompressedOptimizer) -> None:
    """A parameter becomes another one."""
    with torch.no_grad():
        next(net.parameters()).mul_(1.5)


def everything(target: Path) -> None:
    """All cases, one after the other."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    rank, results = dist.get_rank(), {}
    for name, algorithm in ALGORITHMS.items():
        results[name] = trained(algorithm)
    results["reload"] = trained(SIGN, reload=True)
    results["large"] = trained(SIGN, message=100.0)
    results["not finite"] = trained(SIGN, weight=lambda rank, step: torch.inf if (rank, step) == (1, AT) else 1.0)
    results["clip"] = trained(SIGN, befalls=clip)
    results["all clip"] = trained(SIGN, befalls=clip, whom=(0, 1))
    results["lr"] = trained(SIGN, befalls=another_lr, whom=(0, 1))
    results["moved"] = trained(SIGN, befalls=moved, whom=(0, 1))["refusals"]
    results["beside"], results["left behind"] = beside(), left_behind()
    results["accumulated"], results["twice"] = accumulated(False), accumulated(True)
    results["summed"], results["by hand"] = summed(), by_hand()
    results["grouped"], results["one message"] = grouped(1e-5), grouped(None)
    results["between"], results["later"] = between(), later_group()
    results["out of range"] = out_of_range()
    results["back"] = refused(back)
    one = list(network().parameters())
    results["ranks"] = refused(lambda: CompressedOptimizer(one, SIGN, lr=LR, bucket_mb=(MB, 100.0)[rank]))
    results["one early"] = refused(lambda: CompressedOptimizer(one, SIGN, lr=LR, bucket_mb=(None, 100.0)[rank]))
    torch.save(results, target / f"results-{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    """What both ranks came to in every case."""
    target = tmp_path_factory.mktemp("early")
    fine(launched(target, RANKS, partial(everything, target)))
    return [torch.load(target / f"results-{rank}.pt", weights_only=True) for rank in range(RANKS)]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_part_is_the_method_alone(name: str, ranks: list[dict]) -> None:
    meter = Meter()
    for t in range(1, STEPS + 1):
        for size in PARTS:
            meter.count(ALGORITHMS[name], size, t, torch.float64)
    for results in ranks:
        found = results[name]
        torch.testing.assert_close(found["x"], simulated(ALGORITHMS[name]), rtol=1e-11, atol=1e-13)
        assert (found["t"], found["skipped"], found["bits"]) == (STEPS, 0, meter.bits)
    assert torch.equal(ranks[0][name]["x"], ranks[1][name]["x"])


def test_messages_leave_before_the_step(ranks: list[dict]) -> None:
    for results in ranks:
        assert results["cd_adam"]["early"] == [len(PARTS)] * STEPS
        assert results["large"]["early"] == [0] * STEPS  # of one part there is nothing to be early with


def test_a_restart_changes_no_bit(ranks: list[dict]) -> None:
    for results in ranks:
        assert torch.equal(results["reload"]["x"], results["cd_adam"]["x"])
        assert results["reload"]["early"][AT - 1] == 0  # ranks have not agreed yet that they are in one round


def test_a_gradient_that_is_not_finite_is_skipped_by_all(ranks: list[dict]) -> None:
    for results in ranks:
        found = results["not finite"]
        assert (found["t"], found["skipped"]) == (STEPS - 1, 1)
        torch.testing.assert_close(found["x"], simulated(SIGN, left_out=AT), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(("what", "whom"), [("clip", (1,)), ("all clip", (0, 1)), ("lr", (0, 1))])
def test_what_changed_after_it_left_is_refused_and_changes_nothing(
    what: str, whom: tuple[int, ...], ranks: list[dict]
) -> None:
    for rank, results in enumerate(ranks):
        found = results[what]
        said = found["refusals"].pop(AT - 1)
        assert said == "nothing" if rank not in whom else "changed since its message left" in said
        assert set(found["refusals"]) == {"nothing"}
        assert found["t"] == STEPS - 1
        torch.testing.assert_close(found["x"], simulated(SIGN, left_out=AT), rtol=1e-11, atol=1e-13)


def test_parameters_that_moved_after_a_message_left_are_refused(ranks: list[dict]) -> None:
    for results in ranks:
        assert "changed since its message left" in results["moved"].pop(AT - 1)
        assert set(results["moved"]) == {"nothing"}


def test_what_else_a_loop_sends_is_not_mixed_up_with_messages(ranks: list[dict]) -> None:
    assert [results["beside"] for results in ranks] == [3.0, 3.0]


def test_an_optimizer_does_not_outlive_its_last_reference(ranks: list[dict]) -> None:
    assert not any(results["left behind"] for results in ranks)


def test_gradients_add_up_where_nothing_leaves(ranks: list[dict]) -> None:
    for results in ranks:
        assert (results["accumulated"]["early"], results["accumulated"]["said"]) == (0, "nothing")
        torch.testing.assert_close(results["accumulated"]["x"], results["summed"], rtol=1e-11, atol=1e-13)
        assert results["twice"]["early"] == len(PARTS)
        assert "no_sync" in results["twice"]["said"]


def test_gradients_that_no_backward_left_are_sent_by_the_step(ranks: list[dict]) -> None:
    for results in ranks:
        parted, whole = results["by hand"].values()
        torch.testing.assert_close(parted, whole, rtol=1e-11, atol=1e-13)


def test_groups_have_buckets_of_their_own(ranks: list[dict]) -> None:
    """A bucket a tensor, of which each has a scale; biases are dense, in buckets or not."""
    for results in ranks:
        (weights, biases), (before, same) = results["grouped"]["bits"], results["one message"]["bits"]
        assert weights - before == STEPS * 2 * 32  # one scale more, up and down
        assert biases == same
        assert not torch.equal(results["grouped"]["x"], results["one message"]["x"])


def test_what_is_refused_while_messages_are_on_their_way(ranks: list[dict]) -> None:
    for results in ranks:
        assert "messages of a round have left" in results["between"]["load"]
        assert "a group is added before" in results["between"]["group"]
        assert results["between"]["step"] == "nothing"
        assert results["later"] == (1, [1, 1, 1, 1])


def test_settings_out_of_range_are_for_the_step_to_refuse(ranks: list[dict]) -> None:
    for results in ranks:
        found = results["out of range"]
        assert (found["backward"], found["t"]) == ("nothing", "0")
        assert "beta2=1.99" in found["step"]


def test_ranks_that_are_not_alike_are_told(ranks: list[dict]) -> None:
    for results in ranks:
        assert "Disagreement: step 0" in results["ranks"]
        assert "differs from the others in bucket_mb" in results["one early"]
        assert "Disagreement: step 3: rank 1 differs from the others in round" in results["back"]


def test_a_lone_process_has_the_same_parts() -> None:
    nets = [network(), network()]
    blockwise = cd_adam(Blocks(ScaledSign(), PARTS), AMSGrad(weight_decay=0.01))
    optimizers = [
        CompressedOptimizer(nets[0].parameters(), SIGN, lr=LR, bucket_mb=MB),
        CompressedOptimizer(nets[1].parameters(), blockwise, lr=LR),
    ]
    for step in range(1, STEPS + 1):
        for net, optimizer in zip(nets, optimizers, strict=True):
            optimizer.zero_grad()
            loss(net, 0, step).backward()
            optimizer.step()
    parted, whole = (parameters_to_vector(net.parameters()).detach() for net in nets)
    torch.testing.assert_close(parted, whole, rtol=1e-11, atol=1e-13)


def test_a_bucket_without_size_is_refused() -> None:
    with pytest.raises(ValueError, match="bucket_mb=0"):
        CompressedOptimizer(network().parameters(), SIGN, lr=LR, bucket_mb=0)
