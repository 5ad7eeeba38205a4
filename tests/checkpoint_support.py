"""What the tests of checkpoints import from each other: how a file is read, and written with a valid checksum."""

import io
from collections.abc import Callable
from pathlib import Path

import torch

from experiments.record.checkpoint import _digest


def content(file: Path) -> dict:
    """The state in a checkpoint's file, whatever its checksum says."""
    _, _, tensors = file.read_bytes().split(b"\n", 2)
    return torch.load(io.BytesIO(tensors), weights_only=True)


def resign(file: Path, change: Callable[[dict], object]) -> None:
    """Change the state in a checkpoint's file, as one who also knows how its checksum comes about."""
    state = content(file)
    change(state)
    tensors = io.BytesIO()
    torch.save(state, tensors)
    _, about, _ = file.read_bytes().split(b"\n", 2)
    about += b"\n"
    file.write_bytes(_digest(about, tensors.getbuffer()) + about + tensors.getvalue())
