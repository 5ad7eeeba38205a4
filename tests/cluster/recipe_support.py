"""Checks of every recipe of examples/, with or without a framework."""

import re
import runpy
from functools import partial
from pathlib import Path

import pytest
from cluster_support import outputs, spawn

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def check_recipe(name: str, length: int, size: int, folder: Path) -> None:
    """Check that `loco` ends within 10 % of the original's loss, and that resuming half-way gives the same bits."""
    original, compressed = (_line(folder / method, size, name, method, length) for method in ("torch", "loco"))
    assert f"on {size} ranks" in compressed
    assert _loss(compressed) == pytest.approx(_loss(original), rel=0.1)
    saved = folder / "saved"
    saved.mkdir()
    stopped, resumed = (_line(folder / f"to {n}", size, name, "loco", n, saved) for n in (length // 2, length))
    assert stopped != resumed == compressed


def _line(folder: Path, size: int, name: str, *words: object) -> str:
    """The last line that a script prints on rank 0."""
    return outputs(spawn(folder, size, partial(_script, name, tuple(map(str, words)))))[0].splitlines()[-1]


def _script(name: str, words: tuple[str, ...]) -> None:
    runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"](*words)


def _loss(line: str) -> float:
    return float(re.search(r"loss ([\d.]+)", line)[1])
