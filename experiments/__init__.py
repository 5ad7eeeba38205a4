"""Running things: one run, a figure's runs, and what they leave on disk."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from experiments.api import compare, train
    from experiments.loading import load

__all__ = ["compare", "load", "train"]

_MODULES = {"load": "experiments.loading"}  # where a name is, if not in experiments.api

# How often an idle thread of torch looks for work before it sleeps. By default it spins for milliseconds: on cores
# that other programs use too, that made runs up to ten times slower. It must be set before torch is imported.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def __getattr__(name: str) -> Any:
    """What scripts import is loaded when it is asked for, since it takes seconds."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES.get(name, "experiments.api")), name)
