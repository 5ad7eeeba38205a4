"""What the tests of checkpoints import from each other: what a file holds, and how one can be damaged."""

import io
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import torch

from experiments.run_store.checkpoint import _digest

Fault = Callable[[random.Random, Path], Path]
"""Damages a checkpoint's folder <round>/ or, of several files, the one whose path it returns."""


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


def _bytes(damage: Callable[[random.Random, bytes], bytes]) -> Fault:
    """Other bytes in a file of any kind."""

    def fault(rng: random.Random, folder: Path) -> Path:
        file = rng.choice(sorted(folder.iterdir()))
        whole = file.read_bytes()
        changed = damage(rng, whole)
        assert changed != whole
        file.write_bytes(changed)
        return file

    return fault


def flip(rng: random.Random, whole: bytes) -> bytes:
    """One bit changed."""
    changed, position = bytearray(whole), rng.randrange(len(whole))
    changed[position] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _overwritten(rng: random.Random, whole: bytes) -> bytes:
    begin = rng.randrange(len(whole))
    return whole[:begin] + rng.randbytes(512)[: len(whole) - begin] + whole[begin + 512 :]


def _removed(rng: random.Random, folder: Path) -> Path:
    file = rng.choice(sorted(folder.iterdir()))
    file.unlink()
    return file


def _exchanged(rng: random.Random, folder: Path) -> Path:
    one, other = rng.sample(sorted(folder.glob("worker-*")), 2)
    one.rename(folder / "kept")
    other.rename(one)
    (folder / "kept").rename(other)
    return one


def _of_another_round(rng: random.Random, folder: Path) -> Path:
    file = rng.choice(sorted(folder.iterdir()))
    other = rng.choice([other for other in folder.parent.glob("*/") if other != folder])
    shutil.copy(other / file.name, file)
    return file


FAULTS: dict[str, Fault] = {
    "a bit": _bytes(flip),
    "cut": _bytes(lambda rng, whole: whole[: rng.randrange(len(whole))]),
    "grown": _bytes(lambda rng, whole: whole + rng.randbytes(rng.randrange(1, 9))),
    "overwritten": _bytes(_overwritten),
    "removed": _removed,
    "workers exchanged": _exchanged,
    "of another round": _of_another_round,
}
"""By what is wrong."""
