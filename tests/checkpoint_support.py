"""What a checkpoint's file holds."""

import io
from collections.abc import Callable
from pathlib import Path

import torch

from experiments.run_store.checkpoint import _digest


def content(file: Path) -> dict:
    """The state in a checkpoint's file, whatever its checksum says."""
    _, tensors = file.read_bytes().split(b"\n", 1)
    return torch.load(io.BytesIO(tensors), weights_only=True)


def resign(file: Path, change: Callable[[dict], object]) -> None:
    """Change the state in a checkpoint's file, and its checksum with it."""
    state = content(file)
    change(state)
    tensors = io.BytesIO()
    torch.save(state, tensors)
    file.write_bytes(_digest(file, tensors.getbuffer()) + tensors.getvalue())
