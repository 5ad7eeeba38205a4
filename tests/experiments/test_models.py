"""The networks against torchvision's with the same values, and against formulas written out."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from data.torchvision_operators import torchvision
from experiments.models.resnet import resnet18
from experiments.models.small_cnn import small_cnn
from experiments.models.vgg import vgg16
from experiments.models.wide_resnet import wide_resnet_16_4

PARAMETERS = {resnet18: 11_173_962, vgg16: 14_728_266, wide_resnet_16_4: 2_748_890, small_cnn: 5_178}

models = pytest.mark.parametrize("model", PARAMETERS)


def images(model: Callable, count: int = 4) -> Tensor:
    shape = (1, 8, 8) if model is small_cnn else (3, 32, 32)
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(1))


def count(model: Callable) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in model().parameters())


def trained(module: nn.Module, batch: Tensor) -> nn.Module:
    """With parameters and statistics that differ from those of a new module in every layer."""
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
        module.train()(batch)
    return module


def copied(source: nn.Module, target: nn.Module) -> None:
    with torch.no_grad():
        for get in (nn.Module.parameters, nn.Module.buffers):
            for one, other in zip(get(source), get(target), strict=True):
                assert one.shape == other.shape
                other.copy_(one)


@models
def test_parameters_at_the_published_width(model: Callable) -> None:
    assert count(model) == PARAMETERS[model]
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
    copied(module, expected)
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
