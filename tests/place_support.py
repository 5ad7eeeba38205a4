"""Where the commands of the documentation are run by tests, and what makes them small."""

import gzip
import os
import re
import shutil
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from docs_support import ROOT, blocks
from hydra import compose as hydra_compose
from omegaconf import DictConfig

from data import cifar10, libsvm, shakespeare
from data.dataset import Dataset, Images, Text
from data.synthetic import synthetic
from experiments.config import compose
from experiments.run import main

SMALLER = {
    "logreg": ["rounds=20", "eval_every=5"],
    "digits": ["rounds=8", "eval_every=4", "task.rows=64", "task.batch_size=4"],
    "cifar10": ["rounds=8", "eval_every=4", "task.rows=64", "task.batch_size=4", "task.model.width=2"],
    "text": [
        *("rounds=8", "eval_every=4", "warmup_rounds=2", "task.batch_size=2", "task.model.width=8"),
        *("task.model.heads=2", "task.evaluation_windows=4"),
    ],
}
"""What makes runs small, by the first part of their task's name."""

OF_READERS = ("mine", "my_package", "strategies")
"""Packages that pages have their readers write, and the examples'."""

SRUN = f"""#!{sys.executable}
import os, subprocess, sys
size = next(word.partition("=")[2] for word in [*sys.argv, f"--ntasks={{os.environ.get('SLURM_NTASKS', 1)}}"]
            if word.startswith("--ntasks="))
command = sys.argv[next(place for place, word in enumerate(sys.argv) if place and not word.startswith("-")):]
step = dict(SLURM_JOB_ID=str(os.getpid()), SLURM_STEP_ID="0", SLURM_STEP_NUM_TASKS=size, SLURM_NODEID="0",
            SLURM_STEP_NODELIST="127.0.0.1", SLURM_STEP_TASKS_PER_NODE=size)
tasks = [subprocess.Popen(command, env=os.environ | step | dict(SLURM_PROCID=str(rank), SLURM_LOCALID=str(rank)))
         for rank in range(int(size))]
sys.exit(max(task.wait() for task in tasks))
"""
"""Stands in for srun: starts the tasks on this machine, with what SLURM tells each of them."""


def kind(words: list[str]) -> str:
    """Which of SMALLER the runs are."""
    named = dict(word.split("=", 1) for word in words if re.match(r"(task|figure|sweep)=", word))
    first = {"figure_3": "cifar10", "network": "digits"}.get(named.get("figure", named.get("sweep")))
    first = first or named.get("task", "").partition("/")[0]
    return first if first in SMALLER else "logreg"


def small(words: list[str]) -> list[str]:
    """The words and what makes their runs small."""
    return [*words, *SMALLER[kind(words)]]


def small_runs(folder: Path) -> Path:
    """A results folder with the runs that pages look at."""
    runs = [(f"logreg/{data}", name) for data in ("breast_cancer", "digits") for name in ("cd_adam", "ef21")]
    for task, algorithm in [*runs, ("digits", "cd_adam")]:
        about = [f"task={task}", f"algorithm={algorithm}", "lr=[0.003,0.01]", "study=first", f"results_dir={folder}"]
        main(small(about))
    for checkpoint in folder.rglob("checkpoint"):  # many files, which nothing here looks at
        shutil.rmtree(checkpoint)
    return folder


def furnish(place: Path, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a folder the current one, with these results, a data file and the examples, and a stand-in for srun on the
    path; data that would be downloaded have stand-ins too."""
    shutil.copytree(results, place / "results")
    (place / "examples").symlink_to(ROOT / "examples")
    with gzip.open(place / "my.svm.gz", "wt") as file:
        file.writelines(f"{row % 2} 1:{row} {2 + row % 3}:0.5\n" for row in range(40))
    programs = place / "bin"
    programs.mkdir()
    (programs / "srun").write_text(SRUN)
    (programs / "srun").chmod(0o755)
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(place)
    monkeypatch.setenv("PATH", os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]))
    monkeypatch.setenv("PYTHONPATH", f"{place}{os.pathsep}{ROOT}")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(compose, "hydra_compose", composed)
    monkeypatch.setattr(libsvm, "load", _of("data.libsvm", _small_rows))
    monkeypatch.setattr(cifar10, "load", _of("data.cifar10", _small_images))
    monkeypatch.setattr(shakespeare, "load", _of("data.shakespeare", _small_text))


def lay_out(page: Path, place: Path) -> None:
    """Write the files that a page shows."""
    for block in blocks(page):
        if block.file:
            target = place / block.file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.body)


def with_files(words: list[str]) -> list[str]:
    """The command, with choices looked for in conf/ here too, where a page has put files into it."""
    composes = words[2] in ("experiments.run", "experiments.reproduce") and Path("conf").is_dir()
    return [*words, "--config-dir=conf"] if composes else words


@cache
def _composed(name: str, *overrides: str) -> DictConfig:
    return hydra_compose(name, list(overrides))


def composed(name: str, overrides: list[str]) -> DictConfig:
    """What Hydra composes, which takes a tenth of a second, longer than the runs; pages repeat themselves."""
    return _composed(name, *overrides)


def _small_rows(name: str, data_dir: str, url: str = "") -> Dataset:
    return synthetic(rows=80, features=6, workers=20)


def _small_images(data_dir: str, url: str = "") -> Images:
    draw = np.random.default_rng(0)
    train, test = (draw.integers(256, size=(count, 32, 32, 3), dtype=np.uint8) for count in (64, 10))
    labels = [np.arange(len(images), dtype=np.uint8) % 10 for images in (train, test)]
    return Images("cifar10", train, labels[0], test, labels[1], mean=(0.5,) * 3, std=(0.25,) * 3)


def _small_text(data_dir: str, url: str = "") -> Text:
    """Of as many kinds of characters as the real one."""
    return Text("shakespeare", np.random.default_rng(0).integers(65, size=4000, dtype=np.uint8))


def _of(module: str, function: Callable) -> Callable:
    """The function, as if it stood in a module of this project: `_target_` may name no other."""
    function.__module__ = module
    return function
