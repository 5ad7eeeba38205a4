"""The networks against torchvision and formulas written out, and their initial parameters."""

from collections.abc import Callable

import pytest
import torch
from reference import transformer as plain
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.functional import cross_entropy

from algorithms.utils.seeding import keyed_seed
from data.torchvision_operators import torchvision
from experiments.models.flat import FlatModel
from experiments.models.initial import initialise
from experiments.models.resnet import resnet18
from experiments.models.small_cnn import small_cnn
from experiments.models.transformer import KeyedDropout, key_masks, transformer
from experiments.models.vgg import vgg16
from experiments.models.wide_resnet import wide_resnet_16_4

PARAMETERS = {
    resnet18: 11_173_962, vgg16: 14_728_266, wide_resnet_16_4: 2_748_890, small_cnn: 5_178, transformer: 804_096,
}  # fmt: skip


def images(model: Callable, count: int = 4) -> Tensor:
    shape = (1, 8, 8) if model is small_cnn else (3, 32, 32)
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(1))


def trained(module: nn.Module, batch: Tensor) -> nn.Module:
    """With parameters and statistics that differ from those of a new module in every layer."""
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
        module.train()(batch)
    return module


@pytest.mark.parametrize("model", PARAMETERS)
def test_parameters_at_the_published_width(model: Callable) -> None:
    with torch.device("meta"):
        assert sum(parameter.numel() for parameter in model().parameters()) == PARAMETERS[model]
    assert f"{PARAMETERS[model]:,} " in model.__doc__


def resnet_of_torchvision() -> nn.Module:
    """With another stem."""
    expected = torchvision.models.resnet18(num_classes=10)
    expected.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    expected.maxpool = nn.Identity()
    return expected


def vgg_of_torchvision() -> nn.Module:
    """With another head."""
    with torch.device("meta"):  # its own alone takes half a gigabyte
        features = torchvision.models.vgg16_bn().features
    return nn.Sequential(features.to_empty(device="cpu"), nn.Flatten(), nn.Linear(512, 10))


@pytest.mark.parametrize(
    ("model", "theirs"),
    [(resnet18, resnet_of_torchvision), pytest.param(vgg16, vgg_of_torchvision, marks=pytest.mark.slow)],
)
def test_it_is_torchvisions(model: Callable, theirs: Callable) -> None:
    module, expected, batch = trained(model(), images(model)), theirs(), images(model)
    expected.load_state_dict(dict(zip(expected.state_dict(), module.state_dict().values(), strict=True)))
    for training in (False, True):
        assert torch.equal(module.train(training)(batch), expected.train(training)(batch))


def norm(state: dict[str, Tensor], x: Tensor, name: str, training: bool) -> Tensor:
    """ReLU of the batch norm of this name."""
    mean, variance = state[f"{name}.running_mean"].clone(), state[f"{name}.running_var"].clone()
    scale, shift = state[f"{name}.weight"], state[f"{name}.bias"]
    return F.batch_norm(x, mean, variance, scale, shift, training=training).clamp(min=0)


def wide_resnet_by_formula(state: dict[str, Tensor], x: Tensor, training: bool) -> Tensor:
    """Zagoruyko and Komodakis's network as a function of its tensors."""
    x = F.conv2d(x, state["0.weight"], padding=1)
    for group in (1, 2, 3):
        for block in (0, 1):
            name = f"{group}.{block}"
            stride = 2 if group > 1 and block == 0 else 1
            activated = norm(state, x, f"{name}.bn1", training)
            y = F.conv2d(activated, state[f"{name}.conv1.weight"], stride=stride, padding=1)
            y = F.conv2d(norm(state, y, f"{name}.bn2", training), state[f"{name}.conv2.weight"], padding=1)
            if block == 0:
                x = F.conv2d(activated, state[f"{name}.shortcut.weight"], stride=stride)
            x = x + y
    return norm(state, x, "4", training).mean((2, 3)) @ state["8.weight"].T + state["8.bias"]


def small_cnn_by_formula(state: dict[str, Tensor], x: Tensor, training: bool) -> Tensor:
    x = norm(state, F.conv2d(x, state["0.weight"], padding=1), "1", training)
    x = norm(state, F.conv2d(x, state["3.weight"], stride=2, padding=1), "4", training)
    return x.mean((2, 3)) @ state["8.weight"].T + state["8.bias"]


@pytest.mark.parametrize(
    ("model", "width", "formula"),
    [(wide_resnet_16_4, 3, wide_resnet_by_formula), (small_cnn, 16, small_cnn_by_formula)],
)
def test_it_is_its_formula(model: Callable, width: int, formula: Callable) -> None:
    module, batch = trained(model(width), images(model)), images(model)
    state = {name: value.clone() for name, value in module.state_dict().items()}
    for training in (False, True):
        expected = formula(state, batch, training)
        torch.testing.assert_close(module.train(training)(batch), expected, rtol=1e-4, atol=1e-5)


def initial(module: nn.Module, seed: int = 3) -> Tensor:
    """All parameters and running statistics."""
    initialise(module, seed)
    statistics = [buffer for name, buffer in module.named_buffers() if "running" in name]
    return torch.cat([tensor.detach().flatten() for tensor in (*module.parameters(), *statistics)])


def small_transformer(layers: int) -> nn.Module:
    return transformer(characters=11, context=7, layers=layers, heads=2, width=8)


@pytest.mark.parametrize("model", [wide_resnet_16_4, small_cnn, small_transformer])
def test_the_seed_alone_decides(model: Callable) -> None:
    """Neither what the module held before, nor what the global generator has drawn, nor a flat view of it."""
    module = model(4)
    FlatModel(module, "cpu")
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            tensor.fill_(float("nan"))
    torch.manual_seed(1)
    before = torch.get_rng_state()
    found = initial(module)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(found, initial(model(4)))
    assert not torch.equal(found, initial(model(4), seed=4))


def test_draws_in_order() -> None:
    module = small_cnn()
    initialise(module, 3)
    generator = torch.Generator().manual_seed(keyed_seed(3, "initial parameters"))
    for layer in (0, 3):
        drawn = torch.empty(module[layer].weight.shape)
        nn.init.kaiming_normal_(drawn, mode="fan_out", nonlinearity="relu", generator=generator)
        assert torch.equal(module[layer].weight, drawn)
    drawn = torch.empty(10, 32).uniform_(-(32**-0.5), 32**-0.5, generator=generator)
    assert torch.equal(module[8].weight, drawn)


def test_layers_without_a_rule() -> None:
    with pytest.raises(ValueError, match=r"1\.inner: no rule for the initial parameters of a PReLU"):
        initialise(nn.Sequential(nn.Flatten(), nn.ModuleDict({"inner": nn.PReLU()})), 0)


SIZES = {"context": 9, "layers": 2, "width": 12}


def made(dropout: float = 0.0, seed: int = 0) -> FlatModel:
    module = transformer(characters=7, heads=3, dropout=dropout, **SIZES)
    initialise(module, seed)
    return FlatModel(module, "cpu")


def codes(*shape: int) -> Tensor:
    return torch.randint(0, 7, shape, generator=torch.Generator().manual_seed(0))


def test_logits_and_gradient_are_those_of_the_one_written_out():
    model = made()
    with torch.no_grad():
        model.vector += 0.1 * torch.randn(model.d, generator=torch.Generator().manual_seed(1))
    weights = plain.unpacked(model.vector, letters=7, **SIZES)
    assert sum(map(torch.numel, weights.values())) == model.d
    windows = codes(4, 10)
    leaves = {name: weight.double().requires_grad_() for name, weight in weights.items()}
    expected = torch.stack([plain.logits(leaves, window[:-1], 2, 3) for window in windows])
    found = model.module(windows[:, :-1])
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-5)
    wanted = torch.autograd.grad(plain.loss(leaves, windows, 2, 3), list(leaves.values()))
    gradient = torch.empty(model.d)
    model.gradient(cross_entropy(found.flatten(0, 1), windows[:, 1:].flatten()), gradient)
    wanted = torch.cat([part.flatten() for part in wanted])
    torch.testing.assert_close(gradient.double(), wanted, rtol=1e-3, atol=1e-6)


def test_initial_weights_have_their_deviations():
    module = transformer()
    initialise(module, 3)
    expected = {"norm": (1, 0), "output": (0, 0.02 / 8**0.5)}
    for name, weight in module.named_parameters():
        kind = next((part for part in expected if part in name.split(".")[-2]), "")
        mean, deviation = expected.get(kind, (0, 0.02))
        assert weight.mean().item() == pytest.approx(mean, abs=6 * deviation / weight.numel() ** 0.5), name
        assert weight.std().item() == pytest.approx(deviation, rel=0.03, abs=0), name


def loss(model: FlatModel, *name: int) -> tuple[Tensor, Tensor]:
    """The loss in training mode with the masks of a name, and its gradient."""
    model.module.train()
    key_masks(model.module, *name)
    windows = codes(5, 10)
    found = cross_entropy(model.module(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
    gradient = torch.empty(model.d)
    model.gradient(found, gradient)
    return found.detach(), gradient


def test_masks_depend_on_their_name_alone():
    model = made(dropout=0.3)
    torch.manual_seed(0)
    state = torch.get_rng_state()
    first = loss(model, 0, 1, 2)
    loss(model, 0, 1, 3)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(5)
    again, fresh = loss(model, 0, 1, 2), loss(made(dropout=0.3), 0, 1, 2)
    assert torch.equal(first[1], again[1])
    assert torch.equal(first[1], fresh[1])
    others = [loss(model, *name)[0] for name in [(1, 1, 2), (0, 2, 2), (0, 1, 3)]]
    assert len({value.item() for value in (first[0], *others)}) == 4


def test_layers_have_masks_of_their_own_of_the_right_share():
    layers = nn.Sequential(KeyedDropout(0.2), KeyedDropout(0.2))
    key_masks(layers, 0)
    one, other = (layer(torch.ones(100000)) for layer in layers)
    assert set(one.unique().tolist()) == {0.0, 1.25}
    for masks in (one, other):
        assert masks.mean().item() == pytest.approx(1, abs=0.01)
    assert (one * other).mean().item() == pytest.approx(1, abs=0.02)  # independent


def test_in_evaluation_mode_nothing_is_dropped_and_both_ways_of_attention_agree():
    dropping, plainly = made(dropout=0.3), made()
    windows = codes(3, 9)
    dropping.module.eval()
    assert torch.equal(dropping.module(windows), plainly.module(windows))
    dropping.module.train()
    for layer in dropping.module.modules():
        if isinstance(layer, KeyedDropout):
            layer.p = 1e-12  # the way of attention with masks, which keep all
    key_masks(dropping.module, 0)
    torch.testing.assert_close(dropping.module(windows), plainly.module(windows), rtol=1e-4, atol=1e-6)
