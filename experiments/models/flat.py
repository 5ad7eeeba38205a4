"""A network whose parameters are one vector."""

import torch
from torch import Tensor, nn

from algorithms.utils.layout import Layout, Role, laid_out

BATCH_NORM = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


class FlatModel:
    """`module` with its parameters as views into `vector` [d] and its running statistics as views into `statistics`
    [b], both float32 on `device` with the module's values.

    Writing into either in place (`copy_`) changes the module, and a forward pass in training mode changes
    `statistics`. `sizes` are the numbers of coordinates of the tensors in `module.parameters()`, in that order, d in
    all; a shared tensor is there once. `layout` has their names, shapes as stored in the vector, and roles: an
    `nn.Embedding` is an embedding, any other tensor of two axes or more a matrix. `statistics` has the mean and the
    variance of every batch norm, in the order of `module.modules()`; b may be 0.

    Images must be in `memory_format`. It is channels_last: the vector stores a weight [O, I, H, W] as [O, H, W, I],
    and no convolution reorders it. For a network with a strided 1×1 convolution of fewer than 8 input channels it is
    contiguous, and so is every weight: in channels_last, oneDNN's AVX2 gradient of its weights writes out of bounds
    (uxlfoundation/oneDNN issue 6035). The choice depends on the network alone, not on the CPU, so that a coordinate
    is the same one everywhere.

    Raises ValueError, before it changes anything, for a parameter that is frozen or not float32, for a buffer outside
    batch norm, and for a batch norm without a momentum, because its counter of batches is not kept.
    """

    def __init__(self, module: nn.Module, device: torch.device | str) -> None:
        _check(module)
        narrow = any(isinstance(layer, nn.Conv2d) and _is_narrow(layer) for layer in module.modules())
        self.memory_format = torch.contiguous_format if narrow else torch.channels_last
        for layer in module.modules():
            if isinstance(layer, BATCH_NORM):
                layer.num_batches_tracked = None
        self.module = module
        self.vector = self._join("parameters", device)
        self.statistics = self._join("buffers", device)
        self._parameters = tuple(module.parameters())
        self.layout = self._make_layout()
        self.sizes = tuple(block.size for block in self.layout)
        self.d = self.vector.numel()

    def gradient(self, loss: Tensor, out: Tensor) -> None:
        """Write ∂loss/∂x [d] into `out`, in the order of `vector`. Unused parameters get 0."""
        gradients = torch.autograd.grad(loss, self._parameters, materialize_grads=True)
        # On a GPU one kernel for a hundred tensors. With `.grad` as views into `out`, each tensor would take its own.
        torch.cat([self._in_memory_order(gradient).reshape(-1) for gradient in gradients], out=out)

    def _make_layout(self) -> Layout:
        layers = (layer for layer in self.module.modules() if isinstance(layer, nn.Embedding))
        embeddings = {id(layer.weight) for layer in layers}

        def block(name: str, tensor: Tensor) -> tuple[str, tuple[int, ...], Role]:
            role = "embedding" if id(tensor) in embeddings else "matrix" if tensor.dim() > 1 else "vector"
            return name, tuple(self._in_memory_order(tensor).shape), role

        return laid_out(block(name, tensor) for name, tensor in self.module.named_parameters())

    def _join(self, kind: str, device: torch.device | str) -> Tensor:
        """Return one vector of all `parameters` or `buffers`, and replace each of them by its view."""
        slots = [
            (layer, name, tensor)
            for layer in self.module.modules()
            for name, tensor in getattr(layer, f"named_{kind}")(recurse=False, remove_duplicate=False)
        ]
        tensors = list(dict.fromkeys(tensor for _, _, tensor in slots))  # each once
        vector, views = torch.empty(sum(tensor.numel() for tensor in tensors), device=device), {}
        for part, tensor in zip(vector.split([tensor.numel() for tensor in tensors]), tensors, strict=True):
            view = part.view(self._in_memory_order(tensor).shape)
            view = view.permute(0, 3, 1, 2) if self._reorders(tensor) else view
            view.copy_(tensor.detach())
            views[tensor] = nn.Parameter(view) if kind == "parameters" else view
        for layer, name, tensor in slots:
            setattr(layer, name, views[tensor])
        return vector

    def _in_memory_order(self, tensor: Tensor) -> Tensor:
        """Permute a tensor's axes to the order of its coordinates in the vector."""
        return tensor.permute(0, 2, 3, 1) if self._reorders(tensor) else tensor

    def _reorders(self, tensor: Tensor) -> bool:
        return tensor.dim() == 4 and self.memory_format == torch.channels_last


def _check(module: nn.Module) -> None:
    for name, parameter in module.named_parameters():
        if parameter.dtype != torch.float32:
            raise ValueError(f"parameter {name} is {parameter.dtype}: the vector is torch.float32")
        if not parameter.requires_grad:
            raise ValueError(f"parameter {name} is frozen: all coordinates of the vector are trained")
    for path, layer in module.named_modules():
        if isinstance(layer, BATCH_NORM):
            if layer.momentum is None:
                raise ValueError(f"{path}: a batch norm must have a number as momentum; its counter is not kept")
        else:
            for name, _ in layer.named_buffers(path, recurse=False):
                raise ValueError(f"buffer {name}: only a batch norm's running statistics have a place in the vectors")


def _is_narrow(layer: nn.Conv2d) -> bool:
    return layer.weight.shape[2:] == (1, 1) and max(layer.stride) > 1 and layer.weight.shape[1] < 8
