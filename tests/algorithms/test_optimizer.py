"""The algorithms in a torch training loop: alone, and over a real process group, against the simulated cluster."""

import copy
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from optimizer_support import ALGORITHMS, ROUNDS, SIZES, simulate
from refusals import refusals
from small_network import from_file, gradients, loss, network, train, vector
from torch.distributed.algorithms.join import Join
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
from torch.nn.utils import parameters_to_vector

from algorithms.compressors import TopK
from algorithms.core.algorithm import leaves
from algorithms.core.update_rules import AMSGrad
from algorithms.methods.cd_adam import cd_adam
from algorithms.optim.local_steps import LocalSteps
from algorithms.optim.optimizer import CompressedOptimizer
from algorithms.optim.optimizer_state import round_state, with_digest
from algorithms.registry import load_method
from experiments.cluster.base import Simulated

FAST = ["cd_adam", "naive natural", "quantized_adam clipped"]


def rank_of_two(rank: int, target: Path, names: list[str]) -> None:
    """Some rounds of each, halfway through in a new object from its state dict."""
    dist.init_process_group("gloo", init_method=f"file://{target}/store", rank=rank, world_size=2)
    paths = {}
    for name in names:
        # Ranks start apart: rank 0's parameters are the ones that count.
        algorithm, net = ALGORITHMS[name], network(seed=rank)
        optimizer = CompressedOptimizer(net.parameters(), algorithm, lr=0.05, seed=3)
        first = train(net, optimizer, steps=ROUNDS // 2, worker=rank)
        saved = from_file(optimizer.state_dict())
        net = network(seed=7)
        optimizer = CompressedOptimizer(net.parameters(), algorithm, lr=123.0, seed=3)
        optimizer.load_state_dict(saved)
        paths[name] = torch.cat([first, train(net, optimizer, steps=ROUNDS - ROUNDS // 2, worker=rank)])
    torch.save(paths, target / f"paths-{rank}.pt")


@pytest.mark.parametrize("names", [FAST, pytest.param(sorted({*ALGORITHMS} - {*FAST}), marks=pytest.mark.slow)])
def test_two_ranks_equal_the_simulation_bit_for_bit(names, tmp_path):
    """Halfway through, every rank was restarted from its state dict: memories are part of it."""
    torch.multiprocessing.start_processes(rank_of_two, (tmp_path, names), nprocs=2, start_method="fork")
    for rank in range(2):
        paths = torch.load(tmp_path / f"paths-{rank}.pt", weights_only=True)
        for name, path in paths.items():
            assert torch.equal(path, simulate(ALGORITHMS[name], workers=2)), name


def test_a_closure_works_as_with_torch_optim():
    net = network()
    optimizer = CompressedOptimizer(net.parameters(), cd_adam(TopK(k=3), AMSGrad()), lr=0.1)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        value = loss(net, 0)
        value.backward()
        return value

    assert optimizer.step(closure).item() == pytest.approx(loss(network(), 0).item())
    assert not torch.equal(vector(net), vector(network()))


@pytest.mark.parametrize("grouped", [False, True])
def test_layers_are_frozen_and_gradients_may_be_missing_as_in_torch(grouped):
    net = network()
    net[2].bias.requires_grad_(False)
    params = [{"params": [param]} for param in net.parameters()] if grouped else net.parameters()
    optimizer = CompressedOptimizer(params, ALGORITHMS["amsgrad"], lr=0.1)
    train(net, optimizer, steps=2)
    assert optimizer.meter.bits == 2 * 2 * 32 * (sum(SIZES) - 2)
    net[0].requires_grad_(False)  # its gradient is still there
    before = [param.detach().clone() for param in net.parameters()]
    optimizer.step()
    same = [torch.equal(*pair) for pair in zip(net.parameters(), before, strict=True)]
    assert same == [True, True, False, True]
    optimizer.zero_grad()
    saved, x = round_state(optimizer.state_dict()), vector(net)
    with pytest.warns(UserWarning, match="no parameter has a gradient on any rank, so nothing moved"):
        optimizer.step()
    net.requires_grad_(True)
    with pytest.raises(ValueError, match=r"was frozen .* and now requires a gradient: make a new optimizer"):
        optimizer.step()
    after = round_state(optimizer.state_dict())
    assert (after["digest"], after["t"]) == (saved["digest"], 3)
    assert torch.equal(vector(net), x)


def test_a_parameter_of_another_shape_is_refused_and_named():
    """As libraries resize embeddings."""
    embedding = torch.nn.Embedding(4, 3)
    optimizer = CompressedOptimizer(embedding.parameters(), ALGORITHMS["cd_adam"], lr=0.1)
    embedding.weight.data = torch.randn(6, 3)
    embedding(torch.tensor([5])).sum().backward()
    with pytest.raises(ValueError, match=r"parameter 0 was \(4, 3\) .* and is \(6, 3\) .*: convert, resize"):
        optimizer.step()


def test_torch_s_tools_for_checkpoints_take_and_give_the_state():
    """Nothing is computed for it: no hidden step."""
    net, optimizer = trained()
    optimizer.zero_grad()
    digest, x = optimizer.state_dict()["state"][0]["digest"], vector(net)
    saved = copy.deepcopy(get_optimizer_state_dict(net, optimizer))
    assert (optimizer.t, optimizer.meter.bits) == (3, saved["state"]["0.weight"]["meter"]["bits_up"] * 2)
    assert saved["param_groups"][0]["params"] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    other, loaded = trained(steps=0, lr=9.0)
    with torch.no_grad():
        other[0].weight.add_(1.0)
    set_optimizer_state_dict(other, loaded, saved)
    assert loaded.state_dict()["state"][0]["digest"] == digest
    assert (loaded.t, loaded.param_groups[0]["lr"]) == (3, 0.1)
    assert torch.equal(vector(other), x)
    assert loaded.param_groups[0]["params"][0] is other[0].weight


def test_hooks_of_state_dicts_are_called_as_torch_calls_them():
    called, (_, optimizer) = [], trained()
    optimizer.register_state_dict_pre_hook(lambda one: called.append(("save", one.t)))
    optimizer.register_state_dict_post_hook(lambda one, state: {**state, "more": sorted(state)})
    optimizer.register_load_state_dict_pre_hook(lambda one, state: called.append(("load", state["more"])))
    optimizer.register_load_state_dict_post_hook(lambda one: called.append(("loaded", one.t)))
    state = optimizer.state_dict()
    optimizer.t = 7
    optimizer.load_state_dict(state)
    assert called == [("save", 3), ("load", ["param_groups", "state"]), ("loaded", 3)]
    optimizer.register_load_state_dict_pre_hook(lambda one, state: {})
    with pytest.raises(ValueError, match="no state_dict of a CompressedOptimizer"):
        optimizer.load_state_dict(state)
    optimizer.register_load_state_dict_pre_hook(lambda one, others: state)  # as a rank takes its own file
    optimizer.load_state_dict(state)
    assert called[-1] == ("loaded", 3)


def test_a_step_starts_from_the_parameters_as_they_are():
    """As after loading a pretrained model, or clamping; and other views of the parameters see the step."""
    net = network()
    optimizer = CompressedOptimizer(net.parameters(), ALGORITHMS["amsgrad"], lr=0.1)
    view, x = net[0].weight.data, torch.full((sum(SIZES),), 5.0)
    with torch.no_grad():
        for param in net.parameters():
            param.fill_(5.0)
    train(net, optimizer, steps=1)
    cluster = Simulated(ALGORITHMS["amsgrad"], 1, seed=0)
    expected = cluster.round(gradients(x, 1), cluster.start(x), 0.1, 1).replica.x
    assert torch.equal(optimizer.state_dict()["state"][0]["replica"]["x"], expected)
    assert torch.equal(view.flatten(), expected[: view.numel()])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"algorithm": ALGORITHMS["naive"]}, r"of algorithm …uplink=Markov\(.*…, not …uplink=Direct\("),
        ({"algorithm": load_method("int_sgd", workers=1)}, r"of algorithm …Algorithm\(.*…, not …IntSGD\("),
        ({"seed": 4}, "of seed 3, not 4"),
        ({"params": network().double().parameters()}, "dtype"),
        ({}, "of rank 1, not 0"),
    ],
    ids=["channel", "class", "seed", "dtype", "rank"],
)
def test_the_state_of_something_else_is_refused(change, message):
    options = {"params": network().parameters(), "algorithm": ALGORITHMS["cd_adam"], "lr": 0.1, "seed": 3}
    state = CompressedOptimizer(**options).state_dict()
    if not change:
        state["state"][0]["of"]["rank"] = 1
    with pytest.raises(ValueError, match=message):
        CompressedOptimizer(**(options | {"params": network().parameters()} | change)).load_state_dict(state)


def _wrapped(params: Iterable[Any], is_local: bool) -> torch.optim.Optimizer:
    if is_local:
        return LocalSteps(torch.optim.SGD(params, 0.1), "diloco")
    return CompressedOptimizer(params, "loco", 0.1)


@pytest.mark.parametrize("is_local", [False, True])
@pytest.mark.parametrize("named", [False, True])
def test_the_state_of_parameters_in_another_order_is_refused(named: bool, is_local: bool) -> None:
    """Otherwise they would get each other's values. Only names tell parameters of one shape apart."""
    shapes = {"one": (2, 3), "other": (2, 3) if named else (3, 2)}
    params = [(name, torch.nn.Parameter(torch.randn(shape))) for name, shape in shapes.items()]
    saved = _wrapped(params if named else [param for _, param in params], is_local)
    changed = _wrapped([*reversed(params)] if named else [param for _, param in reversed(params)], is_local)
    values = [param for group in changed.param_groups for param in group["params"]]
    before = parameters_to_vector(values).clone()
    with pytest.raises(ValueError, match="has one in place 0 of group 0, not other" if named else "of shapes"):
        changed.load_state_dict(saved.state_dict())
    assert torch.equal(parameters_to_vector(values), before)


@pytest.mark.parametrize("is_local", [False, True])
def test_the_state_of_a_model_with_another_frozen_layer_is_refused(is_local: bool) -> None:
    """Otherwise the trained layer would get the values of the other one, which has the same shape."""
    params = [torch.nn.Parameter(torch.randn(2, 3)) for _ in range(2)]
    params[0].requires_grad_(False)
    saved = _wrapped(params, is_local).state_dict()
    params[0].requires_grad_(True)
    params[1].requires_grad_(False)
    changed, before = _wrapped(params, is_local), parameters_to_vector(params).clone()
    with pytest.raises(ValueError, match="of shapes frozen in place 0, not "):
        changed.load_state_dict(saved)
    assert torch.equal(parameters_to_vector(params), before)


def trained(steps: int = 3, **options) -> tuple[torch.nn.Module, CompressedOptimizer]:
    """A network after some steps with CD-Adam, and its optimizer."""
    net = network()
    optimizer = CompressedOptimizer(net.parameters(), ALGORITHMS["cd_adam"], **{"lr": 0.1, **options})
    if steps:
        train(net, optimizer, steps=steps)
    return net, optimizer


def refused(state: object, match: str) -> None:
    """A state is refused, and leaves no trace."""
    net, optimizer = trained(steps=1)
    before, x = optimizer.state_dict()["state"][0], vector(net)
    with pytest.raises(ValueError, match=match):
        optimizer.load_state_dict(state)
    assert optimizer.state_dict()["state"][0]["digest"] == before["digest"]
    assert optimizer.param_groups[0]["lr"] == 0.1
    assert torch.equal(vector(net), x)


@pytest.mark.parametrize("foreign", ["adam", {}, None, [1], {"of": 3}, "damaged"], ids=str)
def test_a_foreign_state_is_refused_in_words(foreign):
    adam = torch.optim.Adam(network().parameters())
    refused(adam.state_dict() if foreign == "adam" else foreign, "no state_dict of a CompressedOptimizer")


def test_one_flipped_bit_in_any_tensor_of_a_state_is_noticed():
    whole = trained(lr=0.3)[1].state_dict()
    names = [name for name, leaf in leaves(whole) if isinstance(leaf, torch.Tensor)]
    known = ("worker.memory", "worker.ids", "replica.x", "replica.moments.v_hat", "server.aggregate")
    assert {f"state.0.{name}" for name in known} <= {*names}
    for number, name in enumerate(names):
        state = from_file(whole)
        flat = dict(leaves(state))[name].view(-1)
        flat.view(torch.uint8)[number % flat.nbytes] ^= 1 << number % 8
        refused(state, "damaged: its digest does not match")


def beside_the_server(state: dict) -> dict:
    """The state as another rank of its node saves it."""
    return with_digest({name: part for name, part in state.items() if name != "digest"} | {"server": None})


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        (lambda state: state["state"][0].update(t=state["state"][0]["t"] + 1), "digest"),
        (lambda state: state["state"][0].pop("server"), "digest"),
        (lambda state: state.pop("param_groups"), "param_groups: TypeError"),
        (lambda state: state["param_groups"][0].pop("lr"), "param_groups: KeyError"),
        (lambda state: state["param_groups"][0].pop("params"), "param_groups: KeyError"),
        (lambda state: state["param_groups"][0].update(lr=-1.0), "lr=-1.0"),
        (lambda state: state["param_groups"][0].update(params=[0]), "size of optimizer.s group"),
        (lambda state: state["state"][0]["of"].pop("d"), "of d unknown, not 32"),
        (
            lambda state: state["state"][0].update(beside_the_server(state["state"][0])),
            "a rank without a server: every rank loads its",
        ),
    ],
)
def test_a_damaged_state_is_refused_in_words(damage, match):
    state = copy.deepcopy(trained(lr=0.3)[1].state_dict())
    damage(state)
    refused(state, match)


def test_a_state_goes_on_with_its_step_size_and_its_count_of_skipped_rounds():
    net, optimizer = trained(lr=0.3)
    next(iter(net.parameters())).grad[0] = torch.nan
    optimizer.step()
    other = trained(steps=0)[1]
    other.load_state_dict(from_file(optimizer.state_dict()))
    assert (other.t, other.skipped, other.param_groups[0]["lr"]) == (3, 1, 0.3)


@pytest.mark.parametrize("lr", [-1e-3, torch.inf, torch.nan, "1e-3"])
def test_a_step_size_that_is_negative_or_not_finite_is_refused(lr):
    said = f"lr={lr!r}: must be {'a number' if isinstance(lr, str) else 'finite and not negative'}"
    with pytest.raises(ValueError, match=said):
        trained(lr=lr)
    net, optimizer = trained()
    optimizer.param_groups[0]["lr"] = lr
    before, x = optimizer.state_dict()["state"][0], vector(net)
    with pytest.raises(ValueError, match=said):
        optimizer.step()
    assert optimizer.state_dict()["state"][0]["digest"] == before["digest"]
    assert torch.equal(vector(net), x)
    optimizer.param_groups[0]["lr"] = 0.0  # as a warm-up of the step size begins
    optimizer.step()
    assert optimizer.t == 4


@pytest.mark.parametrize("name", FAST)
def test_alone_it_is_a_cluster_of_one_that_skips_a_gradient_which_is_not_finite(name):
    net = network()
    optimizer = CompressedOptimizer(net.parameters(), ALGORITHMS[name], lr=0.05, seed=3)

    def spoil(step: int) -> None:
        if step == 4:
            net[2].bias.grad[1] = torch.nan

    path, expected = train(net, optimizer, steps=ROUNDS + 1, befalls=spoil), simulate(ALGORITHMS[name], workers=1)
    assert torch.equal(path, torch.cat([expected[:4], expected[3:]]))
    assert (optimizer.t, optimizer.skipped) == (ROUNDS, 1)


@pytest.mark.parametrize("unscale", [False, True])
def test_a_grad_scaler_is_used_as_with_torch_optim(unscale):
    """A scale of a power of two leaves every bit as it is; the round whose gradient overflows is done again."""
    net = network()
    optimizer = CompressedOptimizer(net.parameters(), ALGORITHMS["cd_adam"], lr=0.05, seed=3)
    expected, t = simulate(ALGORITHMS["cd_adam"], workers=1), 0
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**60)
    while t < ROUNDS:
        optimizer.zero_grad()
        scaler.scale(loss(net, 0)).backward()
        if scaler.get_scale() > 2.0**58:
            net[2].bias.grad[1] = torch.inf
        if unscale:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        if optimizer.t > t:
            t += 1
            assert torch.equal(vector(net), expected[t - 1])
    assert optimizer.skipped == 2
    assert scaler.get_scale() == 2.0**58
    assert not hasattr(optimizer, "grad_scale")


def test_only_a_scaler_of_torch_s_leaves_unscaling_to_the_step():
    """Frameworks refuse to clip what a step unscales, and ask for it by this name; here both ways are right."""
    optimizer = trained(steps=0)[1]
    assert not optimizer._step_supports_amp_scaling


@pytest.mark.parametrize("is_local", [False, True])
def test_an_optimizer_made_before_the_process_group_makes_no_step(is_local, monkeypatch):
    """Otherwise every rank would train alone, without an error."""
    params = list(network().parameters())
    inner = torch.optim.SGD(params, 0.1)
    optimizer = LocalSteps(inner, "diloco") if is_local else CompressedOptimizer(params, "loco", 0.1)
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda group=None: 2)
    with pytest.raises(ValueError, match="made before the process group"):
        optimizer.step()


@pytest.mark.parametrize("is_local", [False, True])
def test_ranks_of_a_launcher_without_a_process_group_are_warned(is_local, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.warns(UserWarning, match="WORLD_SIZE=2, but there is no process group"):
        _wrapped(network().parameters(), is_local)


def test_a_scaler_that_found_an_infinity_skips_although_it_was_removed():
    """As torch's optimizers do, where a script cleans its gradients after `unscale_`."""
    _, optimizer = trained()
    optimizer.found_inf = torch.ones(())
    optimizer.step()
    assert (optimizer.t, optimizer.skipped) == (3, 1)


def of_one_vector(*params: torch.Tensor, k: int = 1) -> None:
    CompressedOptimizer(params, cd_adam(TopK(k=k), AMSGrad()), lr=0.1)


COPIED = "a CompressedOptimizer cannot be copied or pickled: .* state_dict"
test_what_it_is_not_made_for_is_refused = refusals(
    (lambda: copy.deepcopy(trained(steps=0)[1]), COPIED),
    (lambda: pickle.dumps(trained(steps=0)[1]), COPIED),
    (lambda: Join([trained(steps=0)[1]]), "Join is not supported: give every rank the same number of steps"),
    (lambda: of_one_vector(torch.ones(3, dtype=torch.complex64, requires_grad=True)), "as torch.view_as_real"),
    (lambda: of_one_vector(*map(torch.nn.Parameter, [torch.ones(3)] * 2)), "two parameters share memory"),
    (lambda: of_one_vector(torch.ones(3)), "no parameter requires"),
    (lambda: of_one_vector(*network().double().parameters(), *network().parameters()), "dtype"),
    (lambda: of_one_vector(*network().parameters(), k=33), "k=33"),
    kind=(ValueError, TypeError),
)
