"""Importing torchvision whether or not its compiled operators load, each time in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

EACH = """
import os, runpy, sys, torch
for folder in sys.argv[1:]:
    if os.fork() == 0:
        for number in (1, 2):
            os.dup2(os.open(f"{folder}/said{number}", os.O_WRONLY | os.O_CREAT), number)
        sys.path.insert(0, folder)
        runpy.run_path(f"{folder}/script.py")
        sys.exit()
    os.wait()
"""
"""Runs the scripts of folders, with what lies in a folder first on the path, and imports torch once for all."""

# Fails as torchvision does, with a submodule left behind, until the operators are declared.
BROKEN = """
import torch
from torchvision import models
torch.library.register_fake("torchvision::nms")(lambda dets, scores, iou_threshold: scores)
torch.library.register_fake("torchvision::qnms")(lambda dets, scores, iou_threshold: scores)
"""

DECLARED = """
import torch
from data.torchvision_operators import torchvision
import torchvision.models as models
assert torchvision.models is models
print(torch.ops.torchvision.nms.default._schema, torch.ops.torchvision.qnms.default._schema, sep='\\n')
"""

WHOLE = """
import torch
from data.torchvision_operators import torchvision
torchvision.models, torchvision.datasets
print(hasattr(torch.ops.torchvision, 'nms'))
"""

USED = """
import torch
from data.torchvision_operators import torchvision
import torchvision as plain
assert plain is torchvision
torchvision.datasets.CIFAR10
block = torchvision.models.resnet.BasicBlock(3, 3)
print(tuple(block(torch.zeros(2, 3, 8, 8)).shape))
"""

OPERANDS = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
CASES = {  # a package in torchvision's place, the script, what it prints
    "as it is here": (None, USED, "(2, 3, 8, 8)\n"),
    "again": (None, f"try:\n    import torchvision\nexcept RuntimeError:\n    pass\n{USED}", "(2, 3, 8, 8)\n"),
    "operators missing": (BROKEN, DECLARED, f"torchvision::nms{OPERANDS}\ntorchvision::qnms{OPERANDS}\n"),
    "whole": ("print('imported')\n", WHOLE, "imported\nFalse\n"),
}
ERRORS = [
    "RuntimeError: compiled with different CUDA major versions",
    "ValueError: operator torchvision::nms does not exist",
    # Not mended by what is declared: the second failure is told.
    "RuntimeError: operator torchvision::nms does not exist",
    "ModuleNotFoundError: No module named 'torchvision'",
]
for error in ERRORS:
    kind, message = error.split(": ", 1)
    CASES[error] = (f"raise {kind}({message!r})", "import data.torchvision_operators", "")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What the scripts of CASES said on their outputs."""
    made = {}
    for name, (text, script, _) in CASES.items():
        made[name] = tmp_path_factory.mktemp("case")
        (made[name] / "script.py").write_text(script)
        if text is not None:
            package = made[name] / "torchvision"
            package.mkdir()
            (package / "__init__.py").write_text(text)
            for module in ("models", "datasets"):
                (package / f"{module}.py").touch()
    known = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", EACH, *map(str, made.values())], env=known, check=True, timeout=300)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_importing_torchvision(case: str, folders: dict[str, Path]) -> None:
    said, complained = ((folders[case] / f"said{number}").read_text() for number in (1, 2))
    assert said == CASES[case][2], complained
    if case in ERRORS:
        assert complained.splitlines()[-1] == case
