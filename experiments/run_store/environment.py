"""Versions and hardware of a run."""

import os
import platform
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

import torch

from experiments.run_store.code import revision

_PACKAGES = ("torch", "torchvision", "numpy", "scipy", "scikit-learn", "hydra-core", "pandas", "matplotlib")


def environment() -> dict[str, object]:
    """Return commit, versions and hardware, as plain JSON values."""
    return {
        **revision(),
        "python": platform.python_version(),
        "packages": versions(),
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
    }


@cache
def versions() -> dict[str, str]:
    """Return the versions of the libraries that numbers and files depend on."""
    return {name: version(name) for name in _PACKAGES}


@cache
def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
