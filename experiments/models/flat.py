"""A network whose parameters are one vector."""

import torch
from torch import Tensor, nn

from algorithms.utils.layout import Layout, Role, laid_out

BATCH_NORM = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
STATISTICS = ("running_mean", "running_var")
COUNTER = "num_batches_tracked"

Slot = tuple[nn.Module, str, Tensor]  # a layer, the name of one of its tensors, and the tensor


class FlatModel:
    """`module` with its parameters as views into `vector` [d] and its running statistics as views into `statistics`
    [b], both float32 on `device`, holding the values that the module came with.

    Writing into either in place (`copy_`) changes the module, and a forward pass in training mode changes
    `statistics`: moving, averaging or saving a whole network is one operation on one tensor. `sizes` are the numbers
    of coordinates of the tensors in `module.parameters()`, in that order, d in all; a tensor that several layers
    share is there once. `layout` has their names, shapes as they lie in the vector and roles: of an `nn.Embedding` it
    is an embedding, all else with two axes or more is a matrix. `statistics` has the mean and the variance of every
    batch norm, in the order of `module.modules()`; b may be 0.

    Images go in in `memory_format`. It is channels_last, where a 4-dimensional weight [O, I, H, W] lies in the vector
    as [O, H, W, I], so that no convolution has to reorder its view. But it is contiguous, as is every weight, for a
    network with a strided 1×1 convolution of fewer than 8 input channels: in channels_last, oneDNN's AVX2 gradient of
    its weights writes out of bounds (uxlfoundation/oneDNN issue 6035). That goes by the network alone, not by the CPU
    at hand, so that a coordinate is the same one everywhere. Batch norms lose their counter `num_batches_tracked`,
    which a momentum that is a number does not use.

    Autocast keeps the low-precision copies of parameters it has made and does not notice that `vector` changed: enter
    `torch.autocast` anew for every forward pass, or with `cache_enabled=False`, as capturing a CUDA graph needs.

    Raises ValueError, before it changes anything, for a parameter that is frozen or not float32, for a buffer that is
    none of a batch norm's, and for a batch norm without a momentum.
    """

    def __init__(self, module: nn.Module, device: torch.device | str) -> None:
        _check(module)
        narrow = any(isinstance(layer, nn.Conv2d) and _is_narrow(layer) for layer in module.modules())
        self.memory_format = torch.contiguous_format if narrow else torch.channels_last
        parameters, statistics = [], []
        for layer in module.modules():
            for name, tensor in layer.named_parameters(recurse=False, remove_duplicate=False):
                parameters.append((layer, name, tensor))
            for name, tensor in layer.named_buffers(recurse=False, remove_duplicate=False):
                if name == COUNTER:
                    setattr(layer, COUNTER, None)
                else:
                    statistics.append((layer, name, tensor))
        self.module = module
        self.vector = self._joined(parameters, device)
        self.statistics = self._joined(statistics, device)
        self._parameters = tuple(module.parameters())
        self.layout = self._laid_out()
        self.sizes = tuple(block.size for block in self.layout)
        self.d = self.vector.numel()

    def gradient(self, loss: Tensor, out: Tensor) -> None:
        """Write ∂loss/∂x [d] into `out`, laid out as `vector` is; 0 without influence on the loss."""
        gradients = torch.autograd.grad(loss, self._parameters, materialize_grads=True)
        # On a GPU one kernel for a hundred tensors; were `.grad` views into `out`, each would take one of its own.
        torch.cat([self._flat(gradient) for gradient in gradients], out=out)

    def _laid_out(self) -> Layout:
        layers = (layer for layer in self.module.modules() if isinstance(layer, nn.Embedding))
        embeddings = {id(layer.weight) for layer in layers}

        def block(name: str, tensor: Tensor) -> tuple[str, tuple[int, ...], Role]:
            shape = tensor.permute(0, 2, 3, 1).shape if self._reorders(tensor.shape) else tensor.shape
            role = "embedding" if id(tensor) in embeddings else "matrix" if tensor.dim() > 1 else "vector"
            return name, tuple(shape), role

        return laid_out(block(name, tensor) for name, tensor in self.module.named_parameters())

    def _joined(self, slots: list[Slot], device: torch.device | str) -> Tensor:
        """One vector with the values of all the tensors, each of which is replaced, where it stands, by its view."""
        tensors = list(dict.fromkeys(tensor for _, _, tensor in slots))  # each once
        vector = torch.empty(sum(tensor.numel() for tensor in tensors), dtype=torch.float32, device=device)
        views = {}
        for part, tensor in zip(vector.split([tensor.numel() for tensor in tensors]), tensors, strict=True):
            view = self._shaped(part, tensor.shape)
            view.copy_(tensor.detach())
            views[tensor] = nn.Parameter(view) if isinstance(tensor, nn.Parameter) else view
        for layer, name, tensor in slots:
            setattr(layer, name, views[tensor])
        return vector

    def _flat(self, tensor: Tensor) -> Tensor:
        """The coordinates of a tensor in the order of the vector: without a copy where they lie in that order."""
        return (tensor.permute(0, 2, 3, 1) if self._reorders(tensor.shape) else tensor).reshape(-1)

    def _shaped(self, part: Tensor, shape: torch.Size) -> Tensor:
        """The view of a part of the vector that has the given shape; `_flat` undoes it."""
        if not self._reorders(shape):
            return part.view(shape)
        outgoing, incoming, height, width = shape
        return part.view(outgoing, height, width, incoming).permute(0, 3, 1, 2)

    def _reorders(self, shape: torch.Size) -> bool:
        return len(shape) == 4 and self.memory_format == torch.channels_last


def _check(module: nn.Module) -> None:
    for name, parameter in module.named_parameters():
        if parameter.dtype != torch.float32:
            raise ValueError(f"parameter {name} is {parameter.dtype}: the vector is torch.float32")
        if not parameter.requires_grad:
            raise ValueError(f"parameter {name} is frozen: all coordinates of the vector are trained")
    for path, layer in module.named_modules():
        known = (*STATISTICS, COUNTER) if isinstance(layer, BATCH_NORM) else ()
        for name, _ in layer.named_buffers(path, recurse=False):
            if name.rpartition(".")[2] not in known:
                raise ValueError(f"buffer {name}: only a batch norm's running statistics have a place in the vectors")
        if isinstance(layer, BATCH_NORM) and layer.momentum is None:
            raise ValueError(f"{path}: a batch norm takes a number as momentum, its counter of batches is not kept")


def _is_narrow(layer: nn.Conv2d) -> bool:
    """Whether oneDNN's AVX2 kernel is wrong for it in channels_last format."""
    return layer.weight.shape[2:] == (1, 1) and max(layer.stride) > 1 and layer.weight.shape[1] < 8
