"""Experiments: single runs, sweeps, figures and the leaderboard, with their commands."""

import atexit
import gc
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from experiments.api import compare, load, train

__all__ = ["compare", "load", "train"]

# Idle threads of torch spin this often before they sleep. By default they spin for milliseconds. That made runs up to
# ten times slower on cores that other programs use too. It must be set before torch is imported.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

# Python looks for garbage among all objects before it exits, for a fifth of a second once torch is imported.
atexit.register(gc.freeze)


def __getattr__(name: str) -> Any:
    """Import the functions for scripts at their first use, because that takes seconds."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from experiments import api

    return getattr(api, name)
