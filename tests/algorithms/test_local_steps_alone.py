"""LocalSteps around torch's optimizers: a rank alone, and what it refuses.

tests/cluster/test_local_steps_in_a_loop.py has every method on two ranks, test_nodes.py two of them on two nodes.
"""

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from optimizer_support import ROUNDS
from refusals import refusals
from small_network import LR, count_bits, from_file, gradients, loss, simulate_local, train, vector
from small_network import network as of_dtype
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
from torch.optim import SGD, AdamW
from torch.optim.lr_scheduler import StepLR

from algorithms import LocalSteps
from algorithms.compressors import Identity, RandomK
from algorithms.core.bit_counter import BitCounter
from algorithms.core.update_rules import Adam
from algorithms.methods.bases.local_steps import LocalSteps as Method
from algorithms.methods.local_sgd import local_sgd
from algorithms.methods.zero_one_adam import zero_one_adam
from algorithms.registry import load_method

D = 32
network = partial(of_dtype, dtype=torch.float64)
INSIDE = Adam(form="torch", beta2=0.999, decoupled=True, weight_decay=0.01)  # torch's defaults
NAMED = {"local_sgd": 3, "local_adamw": 4, "diloco": 3, "sparseloco": 3, "muloco": 2, "sparta": None}  # their periods

KINDS = [
    kind
    for kind in vars(torch.optim).values()
    if isinstance(kind, type)
    and issubclass(kind, torch.optim.Optimizer)
    and kind not in (torch.optim.Optimizer, torch.optim.SparseAdam)
]


def options(name: str) -> dict[str, int]:
    return {"period": NAMED[name]} if NAMED[name] else {}


def harness(name: str) -> tuple[torch.Tensor, BitCounter]:
    """The one worker's model after every round [ROUNDS, 32] of the harness, and what it counts."""
    needed = {"workers": 1, "d": D} if name == "sparseloco" else {}
    made = load_method(name, **options(name), **needed)
    assert isinstance(made, Method)
    path = simulate_local(replace(made, inner=INSIDE), 1, ROUNDS, lambda x, workers, t: gradients(x, workers))
    return path[:, 0], count_bits(made, D, ROUNDS, torch.float64)


def digest(optimizer: LocalSteps) -> int:
    return own(optimizer.state_dict())["digest"]


def own(state: dict) -> dict:
    """What a state dict has of LocalSteps itself."""
    return state["state"][0]["local_steps"]


def assert_same(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", NAMED)
def test_a_named_method_around_adamw_is_the_harness_run_of_one_worker(name: str) -> None:
    net = network()
    optimizer = LocalSteps(AdamW(net.parameters(), LR), name, seed=3, **options(name))
    expected, meter = harness(name)
    assert_same(train(net, optimizer, steps=ROUNDS), expected)
    assert (optimizer.t, optimizer.meter) == (ROUNDS, meter)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_any_of_torchs_optimizers_may_be_inside(kind: type[torch.optim.Optimizer]) -> None:
    """Local SGD of one worker is the optimizer inside. It is saved between two exchanges and goes on."""

    def begin() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
        net = network()
        return net, kind([param for param in net.parameters() if param.dim() == 2 or kind is not torch.optim.Muon])

    def train(net: torch.nn.Module, optimizer: torch.optim.Optimizer, count: int) -> None:
        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            value = loss(net, 0)
            value.backward()
            return value

        for _ in range(count):
            optimizer.step(closure)

    net, inner = begin()
    optimizer = LocalSteps(inner, "local_sgd", period=3)
    train(net, optimizer, 4)
    saved = from_file(optimizer.state_dict())
    net, inner = begin()
    optimizer = LocalSteps(inner, "local_sgd", period=3)
    optimizer.load_state_dict(saved)
    train(net, optimizer, 4)
    other, alone = begin()
    train(other, alone, 8)
    assert_same(vector(net), vector(other))
    assert not torch.equal(vector(net), vector(network()))


def test_state_and_groups_are_those_of_the_optimizer_inside() -> None:
    net = network()
    inner = AdamW(net.parameters(), LR)
    optimizer = LocalSteps(inner, "diloco", period=2)
    train(net, optimizer, steps=3)
    found, expected = optimizer.state_dict(), inner.state_dict()
    assert found["param_groups"] == expected["param_groups"]
    assert found["state"].keys() == expected["state"].keys()
    assert found["state"][1] == expected["state"][1]
    assert {**expected["state"][0], "local_steps": found["state"][0]["local_steps"]} == found["state"][0]
    optimizer.load_state_dict(copy.deepcopy(found))
    assert optimizer.param_groups is inner.param_groups
    assert optimizer.state is inner.state


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda state: state["state"][0]["exp_avg"].view(-1)[3:4].mul_(1 + 1e-15), "digest"),
        (lambda state: own(state)["replica"]["moments"]["b"][5:6].add_(1e-12), "digest"),
        (lambda state: own(state).update(t=4), "digest"),
        (lambda state: state.pop("param_groups"), "no state_dict of a LocalSteps: .* param_groups is missing"),
        (lambda state: state["param_groups"][0].update(params=[0]), "digest"),
        (lambda state: own(state).pop("of"), "no state_dict of a LocalSteps"),
        (lambda state: state["state"][0].pop("local_steps"), "no state_dict of a LocalSteps"),
        (lambda state: state.pop("state"), "no state_dict of a LocalSteps"),
        (lambda state: own(state)["of"].update(inner="SGD"), "of inner SGD, not AdamW"),
    ],
)
def test_a_damaged_state_is_refused_and_changes_nothing(damage: Callable[[dict], object], said: str) -> None:
    net = network()
    optimizer = LocalSteps(AdamW(net.parameters(), LR), "diloco", period=2)
    train(net, optimizer, steps=3)
    state, before, x = copy.deepcopy(optimizer.state_dict()), digest(optimizer), vector(net)
    damage(state)
    with pytest.raises(ValueError, match=said):
        optimizer.load_state_dict(state)
    assert digest(optimizer) == before
    assert torch.equal(vector(net), x)


def test_torchs_own_tools_carry_the_state_between_two_exchanges_and_make_no_step() -> None:
    """And a scheduler may be told of LocalSteps or of what is inside."""

    def begin(seed: int, lr: float) -> tuple[torch.nn.Module, LocalSteps]:
        net, both_ways = network(seed), {"compressor": RandomK(k=8), "uplink_only": False}
        return net, LocalSteps(AdamW(net.parameters(), lr), "diloco", seed=3, period=3, **both_ways)

    net, optimizer = begin(0, LR)
    called = []
    optimizer.register_state_dict_post_hook(lambda inner, state: called.append(inner))
    get_optimizer_state_dict(net, optimizer)
    assert (optimizer.t, called) == (0, [optimizer.inner])
    scheduler = StepLR(optimizer, 1, gamma=0.5)
    train(net, optimizer, steps=4)
    scheduler.step()
    assert optimizer.inner.param_groups[0]["lr"] == LR / 2
    other, restarted = begin(7, 123.0)
    set_optimizer_state_dict(other, restarted, from_file(get_optimizer_state_dict(net, optimizer)))
    assert optimizer.t == 4
    assert torch.equal(train(other, restarted, steps=ROUNDS), train(net, optimizer, steps=ROUNDS))
    assert digest(restarted) == digest(optimizer)


@pytest.mark.parametrize("saved", [False, True], ids=["", "saved"])
@pytest.mark.parametrize("exchanged", [0, 2])
def test_weights_loaded_at_the_start_or_after_an_exchange_are_the_new_model(exchanged: int, saved: bool) -> None:
    """They are no local progress."""
    net = network()
    optimizer = LocalSteps(SGD(net.parameters(), lr=0.0), "diloco", period=2)
    if exchanged:
        train(net, optimizer, steps=exchanged)
    net.load_state_dict({name: torch.full_like(value, 5.0) for name, value in net.state_dict().items()})
    if saved:
        optimizer.load_state_dict(from_file(optimizer.state_dict()))
    assert (train(net, optimizer, steps=2) == 5).all()


def test_a_refused_exchange_leaves_local_progress_as_it_is() -> None:
    net = network()
    optimizer = LocalSteps(SGD(net.parameters(), lr=0.1), "diloco", period=2, outer_lr=1.0, outer_momentum=0.0)
    net[0].requires_grad_(False)
    with pytest.raises(ValueError, match="step 2: parameters were frozen"):
        train(net, optimizer, steps=2)
    net[0].requires_grad_(True)
    before = vector(net)
    optimizer.param_groups[0]["lr"] = 0.0
    assert_same(train(net, optimizer, steps=2)[-1], before)


def test_a_state_loaded_into_the_optimizer_inside_leaves_one_set_of_groups() -> None:
    net = network()
    inner = SGD(net.parameters(), lr=0.1)
    optimizer = LocalSteps(inner, "diloco", period=2)
    inner.load_state_dict(SGD(network().parameters(), lr=0.1).state_dict())
    optimizer.param_groups[0]["lr"] = 0.0
    before = vector(net)
    assert torch.equal(train(net, optimizer, steps=1)[0], before)
    optimizer.load_state_dict(from_file(optimizer.state_dict()))
    assert optimizer.t == 1


def test_load_hooks_run_once_and_before_the_check() -> None:
    net = network()
    optimizer, called = LocalSteps(AdamW(net.parameters(), LR), "diloco", period=2), []
    train(net, optimizer, steps=1)
    state = optimizer.state_dict()
    optimizer.register_load_state_dict_pre_hook(lambda inner, given: called.append(inner) or given["own"])
    optimizer.load_state_dict({"own": state})
    assert called == [optimizer.inner]
    before, state["state"][0]["exp_avg"] = digest(optimizer), torch.ones(5, 3)
    with pytest.raises(ValueError, match="digest"):
        optimizer.load_state_dict({"own": state})
    assert digest(optimizer) == before


def test_objects_in_a_group_are_compared_by_their_class() -> None:
    net = network()
    groups = [{"params": list(net.parameters()), "own": [object(), (1, torch.tensor(2))]}]
    [settings] = LocalSteps(SGD(groups, 0.1), "diloco")._settings()
    assert settings["own"] == ("object", (1, 2))


def test_a_sparse_gradient_is_the_inner_optimizers_alone() -> None:
    """What crosses are models."""
    tables = [torch.nn.Embedding(4, 2, sparse=sparse) for sparse in (True, False)]
    tables[1].load_state_dict(tables[0].state_dict())
    for table in tables:
        optimizer = LocalSteps(SGD(table.parameters(), 0.1), "diloco", period=2)
        for row in range(4):
            optimizer.zero_grad()
            table(torch.tensor([row])).square().sum().backward()
            optimizer.step()
    assert torch.equal(tables[0].weight, tables[1].weight)


def test_parameters_that_change_are_refused_before_the_exchange() -> None:
    net = network()
    optimizer = LocalSteps(SGD(net.parameters(), 0.1), "diloco", period=2)
    net.float()
    optimizer.step()
    with pytest.raises(ValueError, match=r"parameter 0 was \(5, 3\) torch.float64 cpu and is .*float32"):
        optimizer.step()
    net.double()
    optimizer.inner.add_param_group({"params": torch.nn.Parameter(torch.zeros(3, dtype=torch.float64))})
    optimizer.step()
    with pytest.raises(ValueError, match="step 4: parameters were frozen or added"):
        optimizer.step()


def inside() -> torch.optim.Optimizer:
    return SGD(network().parameters(), 0.1)


Twice = type("Twice", (Method,), {"stages": lambda self, *_: (self, self)})

test_what_cannot_work_is_refused = refusals(
    (lambda: LocalSteps(inside(), "cd_adam"), "cd_adam: has no local steps; use CompressedOptimizer"),
    (lambda: LocalSteps(inside(), zero_one_adam(Identity(), 9)), "ZeroOneAdam: has local models of its own"),
    (lambda: LocalSteps(inside(), Twice(**vars(local_sgd(Identity(), INSIDE)))), "Twice: overrides stages .as fra"),
    (lambda: LocalSteps(inside(), "diloco", fragments=2), "diloco: overrides stages, local_step .as fragments"),
    (lambda: LocalSteps(inside(), "muloco", momentum=0.5), "momentum: sets muloco's own inner update"),
    (lambda: LocalSteps(inside(), local_sgd), "<function local_sgd.*: must be a method's name"),
    (lambda: LocalSteps(inside(), "sparseloco", workers=4), "workers=4: there are 1 workers"),
    (lambda: LocalSteps(inside(), local_sgd(Identity(), INSIDE), period=2), "period: options are only for"),
    (lambda: LocalSteps(inside(), "diloco").add_param_group({"params": []}), "add parameter groups to the inner"),
    (lambda: LocalSteps(inside(), "diloco").join_hook(), "Join is not supported"),
    (lambda: LocalSteps(network().parameters(), "diloco"), "must be a torch optimizer"),
    (lambda: copy.deepcopy(LocalSteps(inside(), "diloco")), "cannot be copied or pickled"),
    kind=(ValueError, TypeError),
)
