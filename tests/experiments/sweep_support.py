"""What the tests of sweeps import from each other."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from run_support import SMALL

from experiments import run
from experiments.config.compose import ROOT
from experiments.config.schema import RunConfig
from experiments.orchestration import plan


def planned(*overrides: str) -> list[RunConfig]:
    """The runs that a command line would do."""
    found: list[RunConfig] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "show", lambda runs, *others: found.extend(runs))
        run.main([*overrides, "dry_run=true"])
    return found


def sweep(*overrides: str) -> int:
    """The exit status of the command line of a small sweep."""
    try:
        run.main(["-m", *SMALL, *overrides])
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def shell(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Python in a folder, with this project on its path."""
    known = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=known, capture_output=True, text=True, timeout=400
    )


def processes(word: str) -> Iterator[int]:
    """The processes, other than this one, whose command line or environment has this word."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            told = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue
        if word.encode() in told and int(process.name) != os.getpid():
            yield int(process.name)


linux = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds processes by Linux's /proc")
