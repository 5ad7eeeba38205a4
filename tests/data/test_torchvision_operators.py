"""Importing torchvision whether or not its compiled operators load, each time in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def ran(script: str, *first: Path) -> subprocess.CompletedProcess:
    """What `script` did in a fresh Python that looks for modules in the folders `first`, then here."""
    path = os.pathsep.join(map(str, [*first, ROOT]))
    arguments = [sys.executable, "-c", script]
    return subprocess.run(
        arguments, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=120
    )


def stand_in(folder: Path, text: str) -> None:
    """A package torchvision in `folder`: its `__init__` is `text`, its models and datasets are empty."""
    package = folder / "torchvision"
    package.mkdir()
    (package / "__init__.py").write_text(text)
    for name in ("models", "datasets"):
        (package / f"{name}.py").touch()


USED = """
import torch
from data.torchvision_operators import import_torchvision, torchvision
assert import_torchvision() is import_torchvision() is torchvision
import torchvision as plain
assert plain is torchvision
torchvision.datasets.CIFAR10
block = torchvision.models.resnet.BasicBlock(3, 3)
print(tuple(block(torch.zeros(2, 3, 8, 8)).shape))
"""


@pytest.mark.parametrize("before", ["", "try:\n    import torchvision\nexcept RuntimeError:\n    pass\n"])
def test_torchvision_as_it_is_here(before: str) -> None:
    done = ran(before + USED)
    assert done.stdout == "(2, 3, 8, 8)\n", done.stderr


# Fails as torchvision does, with a submodule left behind, until the operators are declared.
BROKEN = """
import torch
from torchvision import models
torch.library.register_fake("torchvision::nms")(lambda dets, scores, iou_threshold: scores)
torch.library.register_fake("torchvision::qnms")(lambda dets, scores, iou_threshold: scores)
"""


def test_operators_are_declared_where_they_are_missing(tmp_path: Path) -> None:
    stand_in(tmp_path, BROKEN)
    done = ran(
        "import torch\n"
        "from data.torchvision_operators import torchvision\n"
        "import torchvision.models as models\n"
        "assert torchvision.models is models\n"
        "print(torch.ops.torchvision.nms.default._schema, torch.ops.torchvision.qnms.default._schema, sep='\\n')",
        tmp_path,
    )
    operands = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
    assert done.stdout == f"torchvision::nms{operands}\ntorchvision::qnms{operands}\n", done.stderr


def test_a_whole_torchvision_is_imported_once_and_left_alone(tmp_path: Path) -> None:
    stand_in(tmp_path, "print('imported')\n")
    done = ran(
        "import torch\n"
        "from data.torchvision_operators import import_torchvision, torchvision\n"
        "assert import_torchvision() is torchvision\n"
        "torchvision.models, torchvision.datasets\n"
        "print(hasattr(torch.ops.torchvision, 'nms'))",
        tmp_path,
    )
    assert done.stdout == "imported\nFalse\n", done.stderr


@pytest.mark.parametrize(
    "error",
    [
        "RuntimeError: compiled with different CUDA major versions",
        "ValueError: operator torchvision::nms does not exist",
        # Not mended by what is declared: the second failure is told.
        "RuntimeError: operator torchvision::nms does not exist",
        "ModuleNotFoundError: No module named 'torchvision'",
    ],
)
def test_other_errors_are_raised_on(tmp_path: Path, error: str) -> None:
    kind, message = error.split(": ", 1)
    stand_in(tmp_path, f"raise {kind}({message!r})")
    done = ran("import data.torchvision_operators", tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == error
