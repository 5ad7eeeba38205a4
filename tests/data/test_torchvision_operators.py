"""Importing torchvision where its compiled operators do not load, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Fails as torchvision does, with a submodule left behind, until the operators are declared.
BROKEN = """
import torch
from torchvision import models
torch.library.register_fake("torchvision::nms")(lambda dets, scores, iou_threshold: scores)
torch.library.register_fake("torchvision::qnms")(lambda dets, scores, iou_threshold: scores)
"""


@pytest.mark.slow
def test_importing_torchvision(tmp_path: Path) -> None:
    package = tmp_path / "torchvision"
    package.mkdir()
    for name, content in {"__init__": BROKEN, "models": "", "datasets": ""}.items():
        (package / f"{name}.py").write_text(content)
    script = """
import torch
from data.torchvision_operators import torchvision
import torchvision.models as models
assert torchvision.models is models
print(torch.ops.torchvision.nms.default._schema)
"""
    known = os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = subprocess.run([sys.executable, "-c", script], env=known, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == "torchvision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor\n"
