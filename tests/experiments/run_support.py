"""Shared by the tests of runs and sweeps: command lines in this process, and their files."""

import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from renewing import renew
from waiting import exit_status

from common.errors import exit_with_message
from common.progress import Display
from experiments import run
from experiments.config.identity import folder
from experiments.config.run import load_run
from experiments.config.schema import RunConfig
from experiments.run_store.checkpoint import _digest
from experiments.training.build import check
from experiments.training.runner import bring_to_end
from experiments.training.trainer import Trainer

SMALL = ("task=logreg/breast_cancer", "rounds=20", "eval_every=5")
"""A run of a few milliseconds without a download."""

RANDOM = ("algorithm=ef21", "compressor=random_k", "compressor.k=4", "task.batch_size=3", "lr=[0.01,0.1]")
"""A run with everything that draws random numbers."""

SVMLIGHT = "".join(f"{j % 2} 1:{j} {2 + j % 3}:0.5\n" for j in range(40))
"""Forty rows of four features."""

Row = dict[str, float]


def configuration(*overrides: str) -> RunConfig:
    """The run that a command line describes."""
    places = [override for override in overrides if override.startswith("results_dir=")]
    run = _compose(*(override for override in overrides if override not in places))
    return replace(run, results_dir=places[-1].partition("=")[2]) if places else run


# Composing a run takes a tenth of a second, longer than the runs of the tests.
@cache
def _compose(*overrides: str) -> RunConfig:
    return load_run(overrides)


def go(*overrides: str) -> Path:
    """Bring one run to its end in this process, as its command line would, and return its folder."""
    return bring(configuration(*overrides))


def bring(run: RunConfig) -> Path:
    """Bring a run to its end in this process and return its folder."""
    check(run)
    with Display(run.rounds) as display:
        return bring_to_end(run, display).path


def run_folder(*overrides: str) -> Path:
    """The folder of a configuration's run."""
    return folder(configuration(*overrides))


def rows(path: Path) -> list[Row]:
    """Every row of a run, without its checksum."""
    found = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name != "crc32"} for row in found]


def timeless(path: Path) -> list[Row]:
    """Every row of a run without the one column that differs from run to run."""
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows(path)]


def record(path: Path, name: str) -> dict:
    """The content of a JSON file of the run, without its checksum."""
    content = json.loads((path / f"{name}.json").read_text())
    assert content.pop("crc32")
    return content


def rewrite(path: Path, name: str, content: dict) -> None:
    """Replace the content of a JSON file, as if the run had written it."""
    (path / f"{name}.json").write_text(json.dumps(content))
    renew(path)


def status(path: Path) -> dict:
    return record(path, "status")


def exit_code(overrides: list[str]) -> str | int | None:
    """Run a command line that fails or is stopped. Returns its exit status."""
    with pytest.raises(SystemExit) as stop:
        run.main(overrides)
    return stop.value.code


def run_exit_code(overrides: Sequence[str]) -> str | int | None:
    """The same for one run, without Hydra's command line."""
    with pytest.raises(SystemExit) as stop, exit_with_message():
        go(*overrides)
    return stop.value.code


@contextmanager
def before_rounds(act: Callable[[Trainer], object]) -> Iterator[None]:
    """Call `act` before every round trained in this process."""
    step = Trainer.step

    def acting(trainer: Trainer, diagnose: bool = False) -> None:
        act(trainer)
        step(trainer, diagnose)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "step", acting)
        yield


@contextmanager
def before_round(round: int, act: Callable[[], object]) -> Iterator[None]:
    """Call `act` once, before a run begins a given round."""
    pending = [act]
    with before_rounds(lambda trainer: pending and trainer.t + 1 == round and pending.pop()()):
        yield


def contents(path: Path) -> dict[str, tuple[bytes, int]]:
    """Bytes and modification time of every file of a run, except the lock."""
    return {
        str(file.relative_to(path)): (file.read_bytes(), file.stat().st_mtime_ns)
        for file in path.rglob("*")
        if file.is_file() and file.name != ".lock"
    }


def read_checkpoint(file: Path) -> dict:
    """The state in a checkpoint's file. Its checksum is not verified."""
    _, tensors = file.read_bytes().split(b"\n", 1)
    return torch.load(io.BytesIO(tensors), weights_only=True)


def change_checkpoint(file: Path, change: Callable[[dict], object]) -> None:
    """Change the state in a checkpoint's file, and its checksum with it."""
    state = read_checkpoint(file)
    change(state)
    tensors = io.BytesIO()
    torch.save(state, tensors)
    file.write_bytes(_digest(file, tensors.getbuffer()) + tensors.getvalue())


def small(*overrides: str) -> RunConfig:
    return configuration(*SMALL, *overrides)


def sweep(*overrides: str) -> int | str:
    """The exit status of the command line of a small sweep."""
    return exit_status(lambda: run.main(["-m", *SMALL, *overrides]))


def forget(package: str) -> None:
    """Unload a package."""
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]


def processes(word: str) -> Iterator[int]:
    """The other processes with this word in their command line or environment."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            told = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue
        if word.encode() in told and int(process.name) != os.getpid():
            yield int(process.name)


linux = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds processes by Linux's /proc")
