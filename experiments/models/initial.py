"""Initial parameters that depend on a seed and the network alone."""

import torch
from torch import Tensor, nn

from algorithms.utils.seeding import keyed_seed


def initialise(module: nn.Module, seed: int) -> None:
    """Set every parameter and every running statistic, in place, from one generator keyed by the seed.

    Weights of a `Conv2d` are normal with variance 2/fan_out, fan_out = output channels × kernel size (He et al. 2015,
    as in torchvision's ResNet and VGG), of a `Linear` uniform in ±1/√fan_in, of an `Embedding` normal with
    deviation 0.02 (Radford et al. 2019). Values are drawn on the CPU in the order of `module.modules()`: they depend
    neither on the device nor on the memory format.
    Raises ValueError for other modules with parameters of their own, unless they have `initialise(generator)`.
    """
    generator = torch.Generator().manual_seed(keyed_seed(seed, "initial parameters"))
    with torch.no_grad():
        for name, layer in module.named_modules():
            # Exact types: a subclass could have further parameters, which would stay as they were.
            if type(layer) is nn.Conv2d:
                weight = torch.empty(layer.weight.shape)
                nn.init.kaiming_normal_(weight, mode="fan_out", nonlinearity="relu", generator=generator)
                layer.weight.copy_(weight)
                _fill(layer.bias, 0)
            elif type(layer) is nn.Linear:
                bound = layer.in_features**-0.5
                layer.weight.copy_(torch.empty(layer.weight.shape).uniform_(-bound, bound, generator=generator))
                _fill(layer.bias, 0)
            elif type(layer) is nn.BatchNorm2d:
                _fill(layer.weight, 1)
                _fill(layer.bias, 0)
                _fill(layer.running_mean, 0)
                _fill(layer.running_var, 1)
            elif type(layer) is nn.LayerNorm:
                layer.reset_parameters()
            elif type(layer) is nn.Embedding:
                layer.weight.copy_(torch.empty(layer.weight.shape).normal_(0, 0.02, generator=generator))
            elif callable(rule := getattr(layer, "initialise", None)):
                rule(generator)
            elif any(True for _ in layer.parameters(recurse=False)):
                raise ValueError(
                    f"{name or 'the module itself'}: no rule for the initial parameters of a {type(layer).__name__}; "
                    "there are rules for Conv2d, Linear, BatchNorm2d, LayerNorm, Embedding and what has a method "
                    "initialise(generator)"
                )


def _fill(tensor: Tensor | None, value: float) -> None:
    if tensor is not None:
        tensor.fill_(value)
