"""Parameter groups: each is an optimizer of its own, in one message; and torch's schedulers write into them."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from optimizer_support import ALGORITHMS
from small_network import from_file, loss, network
from small_network import train as train_for
from torch.nn.utils import clip_grad_norm_, parameters_to_vector
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, OneCycleLR

from algorithms.compressors import Bf16, Blocks, Fp16, Identity, Integers, RandomK, ScaledSign, Sign, TopK
from algorithms.compressors.base import Compressor
from algorithms.core.update_rules import SGD, Adam, AMSGrad
from algorithms.methods.adam import adam
from algorithms.methods.amsgrad import amsgrad
from algorithms.methods.cd_adam import cd_adam
from algorithms.methods.diana import diana
from algorithms.methods.error_feedback import error_feedback
from algorithms.methods.quantized_adam import quantized_adam
from algorithms.methods.sgd import sgd
from algorithms.optim.optimizer import CompressedOptimizer
from algorithms.optim.param_groups import Partition
from algorithms.registry import load_method, names, parameters
from algorithms.utils.layout import laid_out

STEPS = 6
SIGN = cd_adam(ScaledSign(), AMSGrad())


def parts(net: torch.nn.Module) -> tuple[list, list]:
    """Weights and biases, as training scripts part them."""
    params = list(net.parameters())
    return [param for param in params if param.dim() > 1], [param for param in params if param.dim() == 1]


train = partial(train_for, steps=STEPS)

OWN = {
    "lr": ({"lr": 0.01}, SIGN),
    "decay": ({"weight_decay": 0.1}, cd_adam(ScaledSign(), AMSGrad(weight_decay=0.1))),
    "betas": ({"betas": (0.5, 0.6)}, cd_adam(ScaledSign(), AMSGrad(beta1=0.5, beta2=0.6))),
    "compressor": ({"compressor": TopK(k=2)}, cd_adam(TopK(k=2), AMSGrad())),
    "dense": ({"compressor": None}, amsgrad(Identity(), AMSGrad())),
}


@pytest.mark.parametrize("which", OWN)
def test_a_group_is_an_optimizer_of_its_own(which: str) -> None:
    """Two groups of one optimizer step as two optimizers do, bit for bit, and send as much."""
    options, algorithm = OWN[which]
    net, other = network(), network()
    (weights, biases), (one, two) = parts(net), parts(other)
    together = CompressedOptimizer([{"params": weights}, {"params": biases, **options}], SIGN, lr=0.05, seed=3)
    alone = [
        CompressedOptimizer(one, SIGN, lr=0.05, seed=3),
        CompressedOptimizer(two, algorithm, lr=options.get("lr", 0.05), seed=3),
    ]
    assert torch.equal(train(net, together), train(other, *alone))
    for group, optimizer in zip(together.meter.groups, alone, strict=True):
        assert group == optimizer.meter.groups[0]
        assert group.bits == optimizer.meter.bits
    assert together.meter.bits == sum(optimizer.meter.bits for optimizer in alone)
    assert together.meter.payload_bytes == sum(optimizer.meter.payload_bytes for optimizer in alone)


def test_a_dense_group_of_diana_takes_gradient_steps() -> None:
    """Nothing is learnt of it that a step would be a share of."""
    net, other = network(), network()
    (weights, biases), (one, two) = parts(net), parts(other)
    kind = diana(RandomK(k=2, unbiased=True), SGD(), rate=0.25, along="learnt")
    together = CompressedOptimizer([{"params": weights}, {"params": biases, "compressor": None}], kind, lr=0.05)
    alone = CompressedOptimizer(one, kind, lr=0.05), torch.optim.SGD(two, lr=0.05)
    assert torch.allclose(train(net, together), train(other, *alone), rtol=1e-6)


@pytest.mark.parametrize("name", ["demo", "signum"])
def test_who_moves_by_signs_in_either_direction_takes_no_dense_group(name: str) -> None:
    weights, biases = parts(network())
    with pytest.raises(ValueError, match=r"compressor=None: this method moves by .*, and its step size is for that"):
        CompressedOptimizer([{"params": weights}, {"params": biases, "compressor": None}], name, lr=0.01)


def test_draws_of_groups_differ() -> None:
    params = [torch.nn.Parameter(torch.zeros(50)) for _ in range(2)]
    groups = [{"params": [param]} for param in params]
    optimizer = CompressedOptimizer(groups, error_feedback(RandomK(k=5), SGD(), uplink_only=True), lr=1.0)
    for param in params:
        param.grad = torch.ones(50)
    optimizer.step()
    chosen = [param.detach().nonzero().flatten().tolist() for param in params]
    assert [len(one) for one in chosen] == [5, 5]
    assert chosen[0] != chosen[1]


@pytest.mark.parametrize("kind", ["replica", "server"])
def test_an_aggregate_is_clipped_by_the_norm_of_all_groups(kind: str) -> None:
    """As torch clips a gradient of several tensors; a method whose server moves clips its mean step there."""
    net, other = network(), network()
    plain = sgd(Identity(), SGD()) if kind == "replica" else quantized_adam(TopK(k=1), beta=0.0, theta=0.0, eps=1e9)
    scale = 1.0 if kind == "replica" else 1e9**0.5  # with so large an ε a step is αg/√ε
    groups = [{"params": some, **({} if kind == "replica" else {"compressor": None})} for some in parts(net)]
    optimizer = CompressedOptimizer(groups, replace(plain, clip=0.1), lr=scale)
    reference = torch.optim.SGD(other.parameters(), lr=1.0)
    assert parameters_to_vector(torch.autograd.grad(loss(other, 0), list(other.parameters()))).norm() > 0.2
    expected = train(other, reference, befalls=lambda step: clip_grad_norm_(other.parameters(), 0.1))
    torch.testing.assert_close(train(net, optimizer), expected)


def test_a_group_may_be_added_before_the_first_step() -> None:
    net, other = network(), network()
    (weights, biases), (one, two) = parts(net), parts(other)
    optimizer = CompressedOptimizer(weights, SIGN, lr=0.05)
    optimizer.add_param_group({"params": biases, "compressor": None, "lr": 0.01})
    whole = CompressedOptimizer([{"params": one}, {"params": two, "compressor": None, "lr": 0.01}], SIGN, lr=0.05)
    assert torch.equal(train(net, optimizer), train(other, whole))
    with pytest.raises(ValueError, match="before the first step"):
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(2))]})


@pytest.mark.parametrize(
    ("group", "said"),
    [
        ({"compressor": TopK(k=9)}, "k=9"),
        ({"compressor": "top_k"}, r"compressor='top_k': must be a Compressor, such as TopK\(k=3\), or None"),
        ({"eps": 1e-8}, r"eps=1e-08: ε is ν of the update rule, as in update=AMSGrad\(nu=1e-8\)"),
        ({"foreach": None}, "foreach=None: a group of this method may set lr, weight_decay, betas, compressor"),
        ({"compressors": None}, "no option of a group 'compressors'; did you mean compressor"),
        ({"beta": (0.9, 0.99)}, "no option of a group 'beta'; did you mean betas"),
        ({"lrs": 0.1}, "no option of a group 'lrs'; did you mean lr"),
        ({"algorithm": "cd_adam"}, "ZeroRedundancyOptimizer"),
        ({"momentum": 0.9}, "momentum=0.9"),
        ({"seed": 4}, "seed=4: groups cannot set it; pass it to the optimizer"),
        ({"clip": 1.0}, "clip=1.0: groups cannot set it"),
        ({"weight_decay": torch.inf}, "weight_decay=inf: must be finite"),
        ({"betas": (0.9, 1.0)}, "beta2=1.0"),
        ({"lr": -1.0}, "lr=-1.0"),
        ({"params": [torch.nn.Parameter(torch.ones(2).double())]}, "dtype"),
    ],
)
def test_a_group_that_cannot_be_is_refused_and_not_added(group: dict, said: str) -> None:
    net, other = network(), network()
    optimizer = CompressedOptimizer(net.parameters(), SIGN, lr=0.05)
    with pytest.raises(ValueError, match=said):
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(2))], **group})
    assert torch.equal(train(net, optimizer), train(other, CompressedOptimizer(other.parameters(), SIGN, lr=0.05)))


def test_what_sends_all_cannot_compress_a_group() -> None:
    for floats in (Identity(), Bf16()):
        method = amsgrad(floats, AMSGrad())
        with pytest.raises(ValueError, match=r"this method sends everything uncompressed, by \w+\(.*\); take"):
            CompressedOptimizer([{"params": network().parameters(), "compressor": ScaledSign()}], method, lr=0.1)
        assert method.with_compressor(Fp16()) == amsgrad(Fp16(), AMSGrad())


def test_keys_of_ones_own_may_be_made_of_settings() -> None:
    net = network()
    own = {"initial_lr": 1.0, "weight_decay_end": 0.1, "name": "all", "lr_scale": 2.0}
    optimizer = CompressedOptimizer([{"params": net.parameters(), **own}], SIGN, lr=0.1)
    assert own.items() <= optimizer.param_groups[0].items()


@pytest.mark.parametrize(
    ("name", "compressor"), [("distributed_lion", Sign(zero=True)), ("int_sgd", Sign()), ("int_sgd", Integers(9))]
)
def test_a_group_takes_no_other_code_where_steps_are_the_codes_themselves(name: str, compressor: Compressor) -> None:
    groups = [{"params": network().parameters(), "compressor": compressor}]
    with pytest.raises(ValueError, match=r"this method moves by \w+\(.*\), and its step size is for that"):
        CompressedOptimizer(groups, name, lr=0.1)


def test_a_group_s_compressor_leaves_what_has_another_one() -> None:
    """A dense downlink, and the quantizer of weights that come down."""
    one, two = TopK(k=2), ScaledSign()
    assert cd_adam(one, AMSGrad(), uplink_only=True).with_compressor(two) == cd_adam(two, AMSGrad(), uplink_only=True)
    assert quantized_adam(one).with_compressor(two) == quantized_adam(two)
    assert quantized_adam(one).with_compressor(two).downlink == quantized_adam(one).downlink


def test_a_partition_by_layer_gives_every_tensor_of_a_group_a_scale() -> None:
    """Those of the harness's `partition=layer`. Dense and 16-bit floats have no scale, and signs none either."""
    short = amsgrad(Bf16(), AMSGrad())
    assert short.with_blocks((1, 2)) == short
    net, other = network(), network()
    (weights, biases), (one, two) = parts(net), parts(other)
    groups = [{"params": weights}, {"params": biases, "compressor": None}]
    layers = CompressedOptimizer(groups, "cd_adam", lr=0.05, seed=3, partition="layer")
    by_hand = [
        {"params": one, "compressor": Blocks(ScaledSign(), [param.numel() for param in one])},
        {"params": two, "compressor": None},
    ]
    assert torch.equal(train(net, layers), train(other, CompressedOptimizer(by_hand, "cd_adam", lr=0.05, seed=3)))
    assert layers.meter.groups[0].bits == STEPS * 2 * (15 + 10 + 2 * 32)
    for method, partition, said in (
        ("signum", "layer", r"partition=layer: Sign\(.*\) has no scale, or has blocks already"),
        ("cd_adam", "layers", "partition='layers': must be 'whole' or 'layer'"),
    ):
        with pytest.raises(ValueError, match=said):
            CompressedOptimizer(network().parameters(), method, lr=0.1, partition=partition)


@pytest.mark.parametrize("name", names())
def test_a_method_by_blocks_is_what_its_function_makes_of_blocks(name: str) -> None:
    known = {"rounds": 100, "workers": 2, "p": 0.5, "layout": laid_out([("weight", (4, 5), "matrix")])}
    options = {option: known[option] for option in parameters(name) if option in known}
    method, sizes = load_method(name, **options), (15, 5)
    uncompressed = isinstance(method.uplink.compressor, Identity)
    compressor = method.downlink.compressor if uncompressed else method.uplink.compressor
    if isinstance(compressor, Identity):
        assert method.with_blocks(sizes) == method
    else:
        try:
            expected = load_method(name, compressor=Blocks(compressor, sizes), **options)
        except ValueError:  # it takes one of the whole vector alone
            return
        assert method.with_blocks(sizes) == expected


@pytest.mark.parametrize("partition", ["whole", "layer"])
def test_groups_and_parameters_that_are_empty_are_left_out(partition: Partition) -> None:
    net, other, empty = network(), network(), [torch.nn.Parameter(torch.zeros(0, 3)) for _ in range(2)]
    groups = [{"params": []}, {"params": [empty[0]]}, {"params": [empty[1], *net.parameters()], "lr": 0.02}]
    optimizer = CompressedOptimizer(groups, SIGN, lr=0.05, partition=partition)
    alone = CompressedOptimizer(other.parameters(), SIGN, lr=0.02, partition=partition)
    assert torch.equal(train(net, optimizer), train(other, alone))
    assert [group.bits for group in optimizer.meter.groups] == [0, 0, optimizer.meter.bits]
    with pytest.raises(ValueError, match="no parameter requires a gradient, except for empty ones"):
        CompressedOptimizer(empty, SIGN, lr=0.05)


def grouped(seed: int = 0) -> tuple[torch.nn.Module, CompressedOptimizer]:
    """A network whose biases are sent as they are, at a step size of their own."""
    net = network(seed)
    weights, biases = parts(net)
    groups = [{"params": weights}, {"params": biases, "compressor": None, "lr": 0.01}]
    return net, CompressedOptimizer(groups, SIGN, lr=0.05)


def test_the_state_of_groups_goes_on_bit_for_bit() -> None:
    net, optimizer = grouped()
    expected = train(*grouped())
    first = train(net, optimizer, steps=2)
    other, restarted = grouped(seed=7)
    restarted.param_groups[1]["lr"] = 123.0
    restarted.load_state_dict(from_file(optimizer.state_dict()))
    assert restarted.meter == optimizer.meter
    assert torch.equal(torch.cat([first, train(other, restarted, steps=STEPS - 2)]), expected)


def test_a_state_of_other_groups_is_refused() -> None:
    state = CompressedOptimizer(network().parameters(), SIGN, lr=0.05).state_dict()
    with pytest.raises(ValueError, match="of 1 parameter groups, not 2"):
        grouped()[1].load_state_dict(state)


# Schedulers


def one_cycle(optimizer: torch.optim.Optimizer) -> OneCycleLR:
    """Which writes lr and, every other way, momentum or β₁."""
    return OneCycleLR(optimizer, max_lr=0.05, total_steps=STEPS + 1, base_momentum=0.6, max_momentum=0.8)


SCHEDULES = {
    "one cycle": one_cycle,
    "a function a group": partial(LambdaLR, lr_lambda=[lambda t: 0.5**t, lambda t: 1 / (t + 1)]),
    "cosine": partial(CosineAnnealingLR, T_max=STEPS),
}


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_schedulers_do_what_they_do_to_torch_s_optimizers(schedule, kind: str) -> None:
    """Uncompressed and alone, in float64: lr of each group, β₁ (also in the bias correction) and momentum."""
    net, other = network().double(), network().double()
    theirs = [{"params": some} for some in parts(other)]
    if kind == "adam":
        ours = adam(Identity(), Adam(form="torch", beta2=0.999))
        reference = torch.optim.Adam(theirs, lr=0.05)
    else:
        ours = sgd(Identity(), SGD(momentum=0.9))
        reference = torch.optim.SGD(theirs, lr=0.05, momentum=0.9)
    optimizer = CompressedOptimizer([{"params": some} for some in parts(net)], ours, lr=0.05)
    inputs = torch.linspace(-1, 1, 18, dtype=torch.float64).view(6, 3)
    pairs = [(net, optimizer, schedule(optimizer)), (other, reference, schedule(reference))]
    for _ in range(STEPS):
        for module, stepped, scheduler in pairs:
            stepped.zero_grad()
            (module(inputs) - 1).square().mean().backward()
            stepped.step()
            scheduler.step()
        one, two = (parameters_to_vector(module.parameters()) for module, *_ in pairs)
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-12)
    for one, two in zip(optimizer.param_groups, reference.param_groups, strict=True):
        assert one["lr"] == two["lr"]


@pytest.mark.parametrize("name", ["naive", "naive natural", "cd_adam", "onebit_adam", "quantized_adam"])
def test_a_momentum_cycling_scheduler_reaches_every_method_that_has_some(name: str) -> None:
    """What it writes is what moves: the step is that of the algorithm with these hyperparameters."""
    algorithm = ALGORITHMS[name]
    [kind] = {"betas", "momentum"} & set(algorithm.hyperparameters()) or {None}
    net, other, constant = (network() for _ in range(3))
    optimizer = CompressedOptimizer(net.parameters(), algorithm, lr=0.05)
    if kind is None:
        with pytest.raises(ValueError, match="optimizer must support momentum"):
            one_cycle(optimizer)
        return
    one_cycle(optimizer)
    first = {name: optimizer.param_groups[0][name] for name in ("lr", kind)}
    path = train(net, optimizer)
    written = algorithm.with_hyperparameters(**{kind: first[kind]})
    assert torch.equal(path, train(other, CompressedOptimizer(other.parameters(), written, lr=first["lr"])))
    plain = CompressedOptimizer(constant.parameters(), algorithm, lr=first["lr"])
    assert not torch.equal(path, train(constant, plain))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"betas": 0.9}, r"betas=0.9: must be 2 numbers"),
        ({"betas": (0.9,)}, r"betas=\(0.9,\): must be 2 numbers"),
        ({"weight_decay": None}, "weight_decay=None: must be a number"),
        ({"betas": ("0.9", "0.99")}, r"betas=\('0.9', '0.99'\): must be 2 numbers"),
        ({"weight_decay": "1e-2"}, "weight_decay='1e-2': must be a number"),
    ],
)
def test_a_setting_of_another_form_is_refused_in_words(options: dict, said: str) -> None:
    params = [torch.nn.Parameter(torch.zeros(3))]
    with pytest.raises(ValueError, match=said):
        CompressedOptimizer(params, "cd_adam", lr=0.1, **options)
    with pytest.raises(ValueError, match=said):
        CompressedOptimizer([{"params": params, **options}], "cd_adam", lr=0.1)
    optimizer = CompressedOptimizer(params, "cd_adam", lr=0.1)
    optimizer.param_groups[0].update(options)
    with pytest.raises(ValueError, match=said):
        optimizer.step()
    assert (optimizer.t, params[0].tolist()) == (0, [0.0, 0.0, 0.0])
