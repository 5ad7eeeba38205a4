"""The list for a borrowed GPU, and devices that are compared."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import devices


@pytest.mark.slow
def test_methods_are_compared_or_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    """The CPU with itself; those with a period exchange meanwhile."""
    names = ["algorithm=diloco", "algorithm=muloco", "algorithm=adam compressor=top_k"]
    monkeypatch.setattr(devices, "names", lambda: names)
    devices.main(["device=cpu", "rounds=6", "task.model.width=2", "cluster.workers=2"])
    diloco, muloco, refused, last = capsys.readouterr().out.splitlines()
    assert (diloco, muloco) == (f"{names[0]}: 0", f"{names[1]}: 0")
    assert refused.startswith(f"{names[2]}: refused: ")
    assert "takes Identity" in refused
    assert last.startswith("2 combinations")


@pytest.mark.slow
def test_the_whole_list_rehearsed(tmp_path: Path) -> None:
    """Every command of the list, tiny and on the CPU."""
    script = Path(__file__).parents[2] / "benchmarks" / "gpu.sh"
    known = os.environ | {"RESULTS": str(tmp_path / "r"), "REHEARSE": "1", "PYTHON": sys.executable}
    lines = subprocess.run(["bash", script], env=known, capture_output=True, text=True).stdout.splitlines()
    assert len(lines) == 20
    assert all(": done: " in line for line in lines), lines
