"""The list for a borrowed GPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import train_step
from experiments.config.compose import compose, resolve
from experiments.config.run import launch_of, load_run
from experiments.figures.configuration import read_figure, reproduction_of
from experiments.figures.runs import runs_of
from experiments.reproduce import move_overrides

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu.sh"
COMMANDS = 19
BEFORE = {"benchmarks.train_step": train_step.DEFAULT}


def through(place: Path, **variables: str) -> list[str]:
    """The lines of the list's output, with its files in `place`."""
    known = os.environ | {"RESULTS": str(place), "PYTHON": sys.executable} | variables
    return subprocess.run(["bash", SCRIPT], env=known, capture_output=True, text=True).stdout.splitlines()


@pytest.mark.slow
def test_every_key_of_the_list_is_known(tmp_path: Path) -> None:
    assert len(through(tmp_path, PYTHON="echo")) == COMMANDS
    for file in (tmp_path / "items").glob("*.done"):
        command, *keys = file.read_text().split()
        if command == "experiments.reproduce":
            config = resolve(compose(move_overrides(keys), "reproduction"))
            asked, launch = reproduction_of(config), launch_of(config)
            figure = read_figure(asked, lambda candidates: candidates[0])
            assert len(runs_of(figure, asked.overrides, ())) >= 3 == launch.jobs
        elif command != "pytest":
            assert load_run([*BEFORE.get(command, ()), *keys])


@pytest.mark.slow
def test_the_whole_list_rehearsed(tmp_path: Path) -> None:
    """Every command of the list, tiny and on the CPU."""
    lines = through(tmp_path / "r", REHEARSE="1")
    assert len(lines) == COMMANDS
    assert all(": done: " in line for line in lines), lines
