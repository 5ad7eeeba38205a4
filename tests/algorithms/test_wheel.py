"""The wheel: one package, beside whose scripts a user's files may have any name."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import torch
from compressed_optimizers import CompressedOptimizer, compressed
from compressed_optimizers.registry import names

param = torch.nn.Parameter(torch.ones(4))
optimizer = CompressedOptimizer([param], "onebit_adam", lr=0.1, rounds=4, warmup=2)
for _ in range(4):
    param.square().sum().backward()
    optimizer.step()
print(optimizer.meter.bits, callable(compressed), len(names()))
"""


@pytest.mark.slow  # builds a wheel
def test_a_wheel_works_beside_files_of_any_name(tmp_path: Path) -> None:
    source = tmp_path / "source"
    files = ("pyproject.toml", "README.md", "LICENSE", "algorithms", "conf")
    source.mkdir()
    subprocess.run(["cp", "-r", *files, source], check=True, cwd=ROOT)
    build = ["-m", "pip", "wheel", ".", "--no-deps", "--no-build-isolation", "--no-index", "-q", "-w", str(tmp_path)]
    subprocess.run([sys.executable, *build], check=True, cwd=source)
    [wheel] = tmp_path.glob("compressed_optimizers-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        packed.extractall(tmp_path / "installed")
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"compressed_optimizers"}
    user = tmp_path / "user"
    user.mkdir()
    for name in ("common", "data", "algorithms", "conf", "experiments"):
        (user / f"{name}.py").write_text("raise RuntimeError('a file of the user')")
    (user / "script.py").write_text(SCRIPT)
    environment = {"PYTHONPATH": str(tmp_path / "installed"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=user, env=environment, capture_output=True, text=True, check=False
    )
    expected = len(list((ROOT / "conf" / "algorithm").glob("*.yaml")))
    # 2 · 32 · 4 bits in each of two dense rounds, 2 · (4 + 32) in each of two with signs
    assert (done.stdout.split(), done.stderr) == ([str(2 * 256 + 2 * 72), "True", str(expected)], "")
