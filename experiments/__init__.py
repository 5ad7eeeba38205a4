"""Running things: one run, a figure's runs, and what they leave on disk."""

import atexit
import gc
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from experiments.api import compare, load, train

__all__ = ["compare", "load", "train"]

# How often an idle thread of torch looks for work before it sleeps. By default it spins for milliseconds: on cores
# that other programs use too, that made runs up to ten times slower. It must be set before torch is imported.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

# Python looks for garbage among all objects before it exits, for a fifth of a second once torch is imported.
atexit.register(gc.freeze)


def __getattr__(name: str) -> Any:
    """What scripts import is loaded when it is asked for, since it takes seconds."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from experiments import api

    return getattr(api, name)
