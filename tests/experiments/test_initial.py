"""Initial parameters: keyed by the seed, of the right size, and complete."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from algorithms.utils.seeding import keyed_seed
from experiments.models.flat import FlatModel
from experiments.models.initial import initialise
from experiments.models.small_cnn import small_cnn
from experiments.models.transformer import transformer
from experiments.models.vgg import vgg16
from experiments.models.wide_resnet import wide_resnet_16_4


def values(module: nn.Module) -> list[Tensor]:
    """Copies of all parameters and running statistics."""
    statistics = [buffer for name, buffer in module.named_buffers() if "running" in name]
    return [tensor.detach().clone() for tensor in (*module.parameters(), *statistics)]


def initial(model: Callable, seed: int = 3) -> list[Tensor]:
    module = model(4)
    initialise(module, seed)
    return values(module)


def equal(some: list[Tensor], others: list[Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(some, others, strict=True))


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
    initialise(module, 3)
    assert torch.equal(torch.get_rng_state(), before)
    assert equal(values(module), initial(model))
    assert not equal(values(module), initial(model, seed=4))


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


def test_sizes() -> None:
    module = vgg16(32)
    initialise(module, 0)
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            deviation = (2 / (layer.out_channels * 9)) ** 0.5
            error = 4 / layer.weight.numel() ** 0.5  # more than five of the estimate's standard deviations, 1/√(2n)
            assert layer.weight.std().item() == pytest.approx(deviation, rel=error)
            assert abs(layer.weight.mean().item()) < error * deviation
            assert not layer.bias.any()
        elif isinstance(layer, nn.BatchNorm2d):
            assert (layer.weight == 1).all()
            assert (layer.running_var == 1).all()
            assert not layer.bias.any()
            assert not layer.running_mean.any()
        elif isinstance(layer, nn.Linear):
            bound = 256**-0.5
            assert 0.98 * bound < layer.weight.abs().max() <= bound
            assert layer.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.05)
            assert not layer.bias.any()


def test_layers_without_bias_or_scale() -> None:
    module = nn.Sequential(
        nn.Conv2d(1, 2, 3, bias=False), nn.BatchNorm2d(2, affine=False), nn.Linear(2, 2, bias=False)
    )
    initialise(module, 0)
    assert module[1].running_var.tolist() == [1, 1]


class Unusual(nn.Linear):
    """A layer with a parameter more than its kind has."""

    def __init__(self) -> None:
        super().__init__(2, 2)
        self.scale = nn.Parameter(torch.randn(2))


@pytest.mark.parametrize(("layer", "kind"), [(nn.PReLU(), "PReLU"), (Unusual(), "Unusual")])
def test_layers_without_a_rule(layer: nn.Module, kind: str) -> None:
    with pytest.raises(ValueError, match=rf"1\.inner: no rule for the initial parameters of a {kind}"):
        initialise(nn.Sequential(nn.Flatten(), nn.ModuleDict({"inner": layer})), 0)
