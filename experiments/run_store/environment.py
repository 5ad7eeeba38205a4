"""What a run ran on."""

import os
import platform
import subprocess
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

import torch

_PACKAGES = ("torch", "torchvision", "numpy", "scipy", "scikit-learn", "hydra-core", "pandas", "matplotlib")


def environment() -> dict[str, object]:
    """Commit, versions and hardware, as plain JSON values."""
    return {
        "commit": git("rev-parse", "HEAD"),
        "uncommitted_changes": bool(git("status", "--porcelain", "--untracked-files=no")),
        "python": platform.python_version(),
        "packages": versions(),
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
    }


def git(*arguments: str) -> str | None:
    """What git answers in the source tree; None outside a repository or without git."""
    try:
        answer = subprocess.run(
            ["git", *arguments], cwd=Path(__file__).parent, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()


@cache
def versions() -> dict[str, str]:
    """Of the libraries that numbers and files depend on."""
    return {name: version(name) for name in _PACKAGES}


@cache
def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
