"""A network as one vector, against the ordinary network."""

import copy
from collections.abc import Callable, Iterable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from experiments.models.flat import FlatModel
from experiments.models.initial import initialise
from experiments.models.resnet import resnet18
from experiments.models.small_cnn import small_cnn
from experiments.models.wide_resnet import wide_resnet_16_4

WIDTH = 8
"""A width at which no convolution is narrow."""


def batch(model: Callable) -> tuple[Tensor, Tensor]:
    """16 images in channels_last format, and their labels."""
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(16, *((1, 8, 8) if model is small_cnn else (3, 32, 32)), generator=generator)
    return images.contiguous(memory_format=torch.channels_last), torch.arange(16) % 10


def pair(model: Callable) -> tuple[nn.Module, FlatModel]:
    """An ordinary network in channels_last format, and a flat one with the same values."""
    plain = model(WIDTH)
    initialise(plain, 3)
    return plain.to(memory_format=torch.channels_last), FlatModel(copy.deepcopy(plain), "cpu")


def loss_of(module: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(module(images).float(), labels)


def gradient_of(flat: FlatModel, images: Tensor, labels: Tensor) -> Tensor:
    out = torch.full((flat.d,), torch.nan)
    flat.gradient(loss_of(flat.module, images, labels), out)
    return out


def joined(tensors: Iterable[Tensor], memory_format: torch.memory_format = torch.channels_last) -> Tensor:
    """[d], of convolutions in this format."""
    last = memory_format == torch.channels_last
    return torch.cat([(tensor.movedim(1, -1) if last and tensor.ndim == 4 else tensor).detach().flatten()
                      for tensor in tensors])  # fmt: skip


def derived(module: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """The gradient [d] of an ordinary network."""
    return joined(torch.autograd.grad(loss_of(module, images, labels), list(module.parameters())))


def smooth(module: nn.Module) -> nn.Module:
    """Without ReLU, whose derivative would jump where another kernel rounds an activation across zero."""
    for layer in list(module.modules()):
        for name, child in layer.named_children():
            if isinstance(child, nn.ReLU):
                setattr(layer, name, nn.SiLU())
    return module


def statistics_of(module: nn.Module) -> Tensor:
    return torch.cat([buffer for name, buffer in module.named_buffers() if "running" in name])


@pytest.mark.parametrize("model", [resnet18, small_cnn])
def test_vectors_hold_the_values_of_the_module(model: Callable) -> None:
    plain, flat = pair(model)
    assert torch.equal(flat.vector, joined(plain.parameters()))
    assert torch.equal(flat.statistics, statistics_of(plain))
    assert flat.vector.dtype == flat.statistics.dtype == torch.float32
    assert not [name for name, _ in flat.module.named_buffers() if "num_batches" in name]
    assert not flat.vector.requires_grad
    assert flat.d == flat.vector.numel() == sum(flat.sizes)
    assert flat.sizes == tuple(parameter.numel() for parameter in plain.parameters())
    named = dict(plain.named_parameters())
    assert list(named) == [name for name, _ in flat.module.named_parameters()]
    assert all(torch.equal(parameter, named[name]) for name, parameter in flat.module.named_parameters())


@pytest.mark.parametrize(
    ("model", "low"),
    [(small_cnn, False), (small_cnn, True), (resnet18, False), pytest.param(resnet18, True, marks=pytest.mark.slow)],
)
def test_forward_gradient_and_statistics_are_the_ordinary_networks(model: Callable, low: bool) -> None:
    plain, flat = pair(model)
    images, labels = batch(model)
    for _ in range(2):  # the second with the statistics of the first
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=low):
            assert torch.equal(gradient_of(flat, images, labels), derived(plain, images, labels))
        assert torch.equal(flat.statistics, statistics_of(plain))
    plain.eval(), flat.module.eval()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=low):
        scores = flat.module(images)
        assert torch.equal(scores, plain(images))
        assert scores.dtype == (torch.bfloat16 if low else torch.float32)
        assert torch.equal(gradient_of(flat, images, labels), derived(plain, images, labels))


NARROW = {resnet18: 4, wide_resnet_16_4: 1}


@pytest.mark.parametrize(
    ("model", "width"),
    [pytest.param(*each, id=f"{each[0].__name__}-{each[1]}") for each in [(small_cnn, 8), *NARROW.items()]],
)
def test_gradient_is_that_in_double_precision(model: Callable, width: int) -> None:
    plain = smooth(model(width))
    initialise(plain, 3)
    flat = FlatModel(copy.deepcopy(plain), "cpu")
    images, labels = batch(model)
    plain.double().to(memory_format=flat.memory_format)
    loss = F.cross_entropy(plain(images.double()), labels)
    expected = joined(torch.autograd.grad(loss, list(plain.parameters())), flat.memory_format)
    images = images.contiguous(memory_format=flat.memory_format)
    for _ in range(3):
        assert (gradient_of(flat, images, labels) - expected).norm() < 1e-4 * expected.norm()


@pytest.mark.parametrize(
    ("layer", "narrow"),
    [
        pytest.param(nn.Conv2d(7, 8, 1, stride=2), True, id="7 channels"),
        pytest.param(nn.Conv2d(16, 8, 1, stride=2, groups=4), True, id="4 channels a group"),
        pytest.param(nn.Conv2d(8, 8, 1, stride=2), False, id="8 channels"),
        pytest.param(nn.Conv2d(4, 8, 1), False, id="not strided"),
        pytest.param(nn.Conv2d(4, 8, 3, stride=2), False, id="3x3"),
    ],
)
def test_memory_format(layer: nn.Module, narrow: bool) -> None:
    flat = FlatModel(nn.Sequential(nn.Conv2d(3, layer.in_channels, 3), layer), "cpu")
    assert flat.memory_format == (torch.contiguous_format if narrow else torch.channels_last)
    assert all(p.is_contiguous(memory_format=flat.memory_format) for p in flat.module.parameters() if p.ndim == 4)


def test_a_parameter_without_influence_has_gradient_zero() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    flat = FlatModel(module, "cpu")
    out = torch.full((flat.d,), torch.nan)
    flat.gradient(module[1](torch.ones(2)).sum(), out)
    assert out.tolist() == 6 * [0] + 6 * [1]
    assert flat.statistics.shape == (0,)


def test_shared_parameters_appear_once() -> None:
    first, second = nn.Linear(3, 3), nn.Linear(3, 3)
    second.weight = first.weight
    flat = FlatModel(nn.Sequential(first, second, first), "cpu")
    assert flat.sizes == (9, 3, 3)
    assert second.weight is first.weight
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    weight, bias, other = (part.clone().requires_grad_() for part in flat.vector.split(flat.sizes))
    y = x
    for added in (bias, other, bias):
        y = y @ weight.view(3, 3).T + added
    expected = torch.cat(torch.autograd.grad(y.square().sum(), (weight, bias, other)))
    out = torch.empty(15)
    flat.gradient(flat.module(x).square().sum(), out)
    torch.testing.assert_close(out, expected)


class WithMask(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.ones(2))


def frozen() -> nn.Module:
    module = nn.Linear(2, 2)
    module.bias.requires_grad_(False)
    return module


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (WithMask(), r"buffer 1\.mask: only a batch norm's"),
        (nn.InstanceNorm2d(2, track_running_stats=True), r"buffer 1\.running_mean: only a batch norm's"),
        (nn.Linear(2, 2).double(), r"parameter 1\.weight is torch.float64"),
        (frozen(), r"parameter 1\.bias is frozen"),
    ],
)
def test_modules_it_does_not_take(layer: nn.Module, message: str) -> None:
    module = nn.Sequential(nn.BatchNorm2d(2), layer)
    before = list(module.parameters())
    with pytest.raises(ValueError, match=message):
        FlatModel(module, "cpu")
    assert all(one is other for one, other in zip(module.parameters(), before, strict=True)), "changed all the same"
    assert module[0].num_batches_tracked is not None
