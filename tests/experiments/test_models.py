"""The networks against torchvision's with the same values, and against formulas written out."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from data.torchvision_operators import torchvision
from experiments.models.resnet import resnet18
from experiments.models.small_cnn import small_cnn
from experiments.models.vgg import vgg16
from experiments.models.wide_resnet import wide_resnet_16_4

MODELS = [resnet18, vgg16, wide_resnet_16_4, small_cnn]


def images(model: Callable, count: int = 4) -> Tensor:
    shape = (1, 8, 8) if model is small_cnn else (3, 32, 32)
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(1))


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def convolution(outgoing: int, incoming: int, size: int = 3) -> int:
    return outgoing * incoming * size * size


def trained(module: nn.Module, batch: Tensor) -> nn.Module:
    """With parameters and statistics that differ from those of a new module in every layer."""
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
        module.train()(batch)
    return module


def copied(source: nn.Module, target: nn.Module) -> None:
    """Values of parameters and buffers, in order."""
    with torch.no_grad():
        for get in (nn.Module.parameters, nn.Module.buffers):
            for one, other in zip(get(source), get(target), strict=True):
                assert one.shape == other.shape
                other.copy_(one)


# Sizes


def resnet_count(w: int) -> int:
    total = convolution(w, 3) + 2 * w
    incoming = w
    for channels in (w, 2 * w, 4 * w, 8 * w):
        total += convolution(channels, incoming) + 3 * convolution(channels, channels) + 4 * 2 * channels
        if channels != incoming:
            total += convolution(channels, incoming, 1) + 2 * channels
        incoming = channels
    return total + 8 * w * 10 + 10


def vgg_count(w: int) -> int:
    channels = [3, w, w, 2 * w, 2 * w, 4 * w, 4 * w, 4 * w, *6 * [8 * w]]
    layers = pairwise(channels)
    return sum(convolution(b, a) + b + 2 * b for a, b in layers) + 8 * w * 10 + 10


def wide_resnet_count(w: int) -> int:
    total = convolution(w, 3)
    incoming = w
    for channels in (4 * w, 8 * w, 16 * w):
        total += 2 * incoming + 3 * 2 * channels  # four batch norms, each before its convolution
        total += convolution(channels, incoming) + 3 * convolution(channels, channels)
        total += convolution(channels, incoming, 1)
        incoming = channels
    return total + 2 * 16 * w + 16 * w * 10 + 10


def small_cnn_count(w: int) -> int:
    return convolution(w, 1) + 2 * w + convolution(2 * w, w) + 2 * 2 * w + 2 * w * 10 + 10


@pytest.mark.parametrize("width", [1, 4, 16, 64])
@pytest.mark.parametrize(
    ("model", "formula"),
    list(zip(MODELS, [resnet_count, vgg_count, wide_resnet_count, small_cnn_count], strict=True)),
)
def test_parameters(model: Callable, formula: Callable[[int], int], width: int) -> None:
    with torch.device("meta"):
        assert count(model(width)) == formula(width)


@pytest.mark.parametrize(
    ("model", "parameters"),
    list(zip(MODELS, [11_173_962, 14_728_266, 2_748_890, 5_178], strict=True)),
)
def test_parameters_at_the_published_width(model: Callable, parameters: int) -> None:
    with torch.device("meta"):
        module = model()
    assert count(module) == parameters
    assert f"{parameters:,} " in model.__doc__


@pytest.mark.parametrize("width", [4, 16])
@pytest.mark.parametrize("classes", [10, 7])
@pytest.mark.parametrize("model", MODELS)
def test_logits(model: Callable, width: int, classes: int) -> None:
    logits = model(width, classes)(images(model))
    assert logits.shape == (4, classes)
    assert logits.dtype == torch.float32


@pytest.mark.parametrize("model", MODELS)
def test_batch_norms_average_with_momentum_one_tenth(model: Callable) -> None:
    norms = [layer for layer in model(1).modules() if "Norm" in type(layer).__name__]
    assert {(type(norm), norm.momentum, norm.eps) for norm in norms} == {(nn.BatchNorm2d, 0.1, 1e-5)}


@pytest.mark.parametrize("width", [0, -4])
@pytest.mark.parametrize("model", MODELS)
def test_no_width(model: Callable, width: int) -> None:
    with pytest.raises(ValueError, match=f"width={width}: .* at least one channel"):
        model(width)


# Values


@pytest.mark.parametrize("training", [True, False])
def test_resnet_is_torchvisions_with_another_stem(training: bool) -> None:
    module, batch = trained(resnet18(), images(resnet18)), images(resnet18)
    expected = torchvision.models.resnet18(num_classes=10)
    expected.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    expected.maxpool = nn.Identity()
    copied(module, expected)
    assert torch.equal(module.train(training)(batch), expected.train(training)(batch))


@pytest.mark.parametrize("training", [True, False])
def test_vgg_is_torchvisions_with_another_head(training: bool) -> None:
    module, batch = trained(vgg16(), images(vgg16)), images(vgg16)
    with torch.device("meta"):  # its head alone takes half a gigabyte
        features = torchvision.models.vgg16_bn().features
    expected = nn.Sequential(features.to_empty(device="cpu"), nn.Flatten(), nn.Linear(512, 10))
    copied(module, expected)
    assert torch.equal(module.train(training)(batch), expected.train(training)(batch))


def wide_resnet_by_formula(state: dict[str, Tensor], x: Tensor, training: bool) -> Tensor:
    """Zagoruyko and Komodakis's network as a function of its tensors."""

    def relu_of_norm(x: Tensor, name: str) -> Tensor:
        mean, variance = state[f"{name}.running_mean"].clone(), state[f"{name}.running_var"].clone()
        scale, shift = state[f"{name}.weight"], state[f"{name}.bias"]
        return F.batch_norm(x, mean, variance, scale, shift, training=training).clamp(min=0)

    x = F.conv2d(x, state["0.weight"], padding=1)
    for group in (1, 2, 3):
        for block in (0, 1):
            name = f"{group}.{block}"
            stride = 2 if group > 1 and block == 0 else 1
            activated = relu_of_norm(x, f"{name}.bn1")
            y = F.conv2d(activated, state[f"{name}.conv1.weight"], stride=stride, padding=1)
            y = F.conv2d(relu_of_norm(y, f"{name}.bn2"), state[f"{name}.conv2.weight"], padding=1)
            if block == 0:
                x = F.conv2d(activated, state[f"{name}.shortcut.weight"], stride=stride)
            x = x + y
    return relu_of_norm(x, "4").mean((2, 3)) @ state["8.weight"].T + state["8.bias"]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("width", [3, 16])
def test_wide_resnet_is_its_formula(width: int, training: bool) -> None:
    module = trained(wide_resnet_16_4(width), images(wide_resnet_16_4))
    batch, state = images(wide_resnet_16_4), {name: value.clone() for name, value in module.state_dict().items()}
    logits = module.train(training)(batch)
    torch.testing.assert_close(logits, wide_resnet_by_formula(state, batch, training), rtol=1e-4, atol=1e-5)


def test_wide_resnet_shapes() -> None:
    module, x = wide_resnet_16_4(), images(wide_resnet_16_4)
    shapes = []
    for layer in module[:4]:
        x = layer(x)
        shapes.append(tuple(x.shape[1:]))
    assert shapes == [(16, 32, 32), (64, 32, 32), (128, 16, 16), (256, 8, 8)]


@pytest.mark.parametrize("training", [True, False])
def test_small_cnn_is_its_formula(training: bool) -> None:
    module, batch = trained(small_cnn(), images(small_cnn)), images(small_cnn)
    state = {name: value.clone() for name, value in module.state_dict().items()}
    x = batch
    for convolution, norm, stride in ((0, 1, 1), (3, 4, 2)):
        x = F.conv2d(x, state[f"{convolution}.weight"], stride=stride, padding=1)
        names = ("running_mean", "running_var", "weight", "bias")
        x = F.batch_norm(x, *(state[f"{norm}.{name}"] for name in names), training=training).clamp(min=0)
    expected = x.mean((2, 3)) @ state["8.weight"].T + state["8.bias"]
    torch.testing.assert_close(module.train(training)(batch), expected, rtol=1e-5, atol=1e-6)
