"""Communication-compressed optimization on flat tensors: compressors, channels, updates and the methods made of them.

    from algorithms import CompressedOptimizer, compressed

Installed, this package is called `compressed_optimizers`. Shapes everywhere: the last axis is coordinates (d), the
axis before it workers (W). Any leading axes (*T) are independent trials, such as the step sizes of a grid.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .optim.ddp_hook import compressed
    from .optim.local_steps import LocalSteps
    from .optim.optimizer import CompressedOptimizer
    from .optim.replicas import compress_replicas

_MODULES = {
    "CompressedOptimizer": ".optim.optimizer",
    "LocalSteps": ".optim.local_steps",
    "compress_replicas": ".optim.replicas",
    "compressed": ".optim.ddp_hook",
}

__all__ = ["CompressedOptimizer", "LocalSteps", "compress_replicas", "compressed"]


def __getattr__(name: str) -> Any:
    """Load a module on first use, so that a run imports only the modules that it needs."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name], __name__), name)
