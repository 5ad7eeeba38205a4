"""Every run below a results folder: its state, how far it is, and where it lies.

    python -m experiments.status
    python -m experiments.status results other/results

State is one of finished, running, interrupted (stopped by someone, to be resumed), failed, gone (it says running, but
no process has it any more), missing (written down by a sweep, never begun) and damaged. Away from a terminal every
run is one line, its columns separated by tabs. Nothing is changed.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import yaml
from rich.console import Console

from common import tables
from common.progress import duration

_FILES = {"status.json", "config.yaml", "metrics.jsonl"}
_STATES = ("finished", "running", "interrupted", "failed", "gone", "missing", "damaged")
_TAIL = 1 << 16  # bytes, more than a row
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass
class Run:
    """What is known of one run; None for what is not."""

    folder: Path
    state: str = "damaged"
    done: int | None = None  # rounds
    total: int | None = None
    bits: int | None = None
    left: float | None = None  # seconds
    task: str | None = None
    algorithm: str | None = None
    workers: int | None = None
    seed: int | None = None
    lr: tuple[float, ...] = ()
    error: str = ""

    def row(self) -> list[str]:
        """As it stands in the table."""
        few = self.lr if len(self.lr) < 4 else (self.lr[0], self.lr[-1])
        lr = (" " if few is self.lr else " … ").join(f"{value:g}" for value in few)
        cells = (self.bits, self.left and duration(self.left), self.task, self.algorithm, self.workers, self.seed)
        rounds = f"{_or_dash(self.done)}/{_or_dash(self.total)}"
        return [self.state, rounds, *map(_or_dash, cells), lr or "–", str(self.folder)]


_COLUMNS = ("state", "rounds", "bits", "left", "task", "algorithm", "n", "seed", "lr", "folder")


def runs(root: Path) -> list[Run]:
    """All runs below a folder, and those that its sweeps wrote down and that were never begun."""
    found = [_known(Run(folder), _fill_in) for folder in _folders(root)]
    begun = {run.folder.name for run in found}
    frozen = {file.stem: file for file in sorted(root.glob("sweeps/**/jobs/*.yaml"))}
    found += [_known(Run(file), _fill_in_frozen) for id, file in frozen.items() if id not in begun]
    return sorted(found, key=_place)


def main(arguments: list[str] | None = None) -> None:
    """The command line above."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.status", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", type=Path, metavar="DIR", default=[Path("results")])
    options = parser.parse_args(arguments)
    for folder in options.folders:
        if not folder.is_dir():
            parser.error(f"{folder}: no such folder; give a results folder, that of results_dir=...")
    console = Console()
    found = [run for folder in options.folders for run in runs(folder)]
    if found:
        tables.show(console, _COLUMNS, [run.row() for run in found])
    counts = Counter(run.state for run in found)
    lines = [f"{run.folder}: {run.error}" for run in found if run.error]
    lines += [", ".join(f"{counts[state]} {state}" for state in _STATES if counts[state]) or "no runs"]
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _folders(root: Path) -> Iterator[Path]:
    """The run folders in and below `root`."""
    for path, folders, files in os.walk(root):
        if not _FILES.isdisjoint(files):
            yield Path(path)
            folders.clear()
        elif Path(path) == root:
            folders[:] = [name for name in folders if name not in ("sweeps", "figures")]


def _known(run: Run, fill_in: Callable[[Run], None]) -> Run:
    """The run with what its files say; what they fail to say is its error."""
    try:
        fill_in(run)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, yaml.YAMLError) as error:
        run.state, run.error = "damaged", " ".join(f"{type(error).__name__}: {error}".split())
    return run


def _fill_in_frozen(run: Run) -> None:
    _describe(run, run.folder)
    run.state, run.done = "missing", 0


def _fill_in(run: Run) -> None:
    _describe(run, run.folder / "config.yaml")
    status = _status(run.folder)
    last = _last_row(run.folder / "metrics.jsonl")
    run.done = max(last.get("round", 0), status.get("round", 0))
    run.bits, run.error = last.get("bits"), " ".join(str(status.get("error", "")).split())
    run.state = status["status"]
    if run.state not in ("finished", "running", "interrupted", "failed"):
        raise ValueError(f"status.json: {run.state}: no such status")
    if run.state == "finished":
        run.done = run.total
        missing = [name for name in ("metrics.jsonl", "summary.json") if not (run.folder / name).exists()]
        if missing:
            raise ValueError(f"finished, but without {' and '.join(missing)}")
    elif run.state == "interrupted":
        run.error = ""
    elif run.state == "running":
        if _is_free(run.folder / ".lock"):
            run.state = "gone"
        else:
            run.left = _left(run, status, last)


def _describe(run: Run, file: Path) -> None:
    with file.open("rb") as stream:
        config = yaml.load(stream, Loader=_Loader)
    run.total, run.seed, run.workers = (
        int(n) for n in (config["rounds"], config["seed"], config["cluster"]["workers"])
    )
    run.lr = tuple(float(lr) for lr in config["lr"])
    run.task, run.algorithm = str(config["task"]["name"]), str(config["algorithm"]["name"])


def _status(folder: Path) -> dict:
    """What status.json says; a run that has only just begun has none yet."""
    try:
        return json.loads((folder / "status.json").read_text())
    except FileNotFoundError:
        return {"status": "running"}


def _last_row(file: Path) -> dict:
    """The last whole line of metrics.jsonl, read from its end; empty where there is none."""
    try:
        with file.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - _TAIL))
            lines = stream.read().split(b"\n")[:-1]
    except FileNotFoundError:
        return {}
    return json.loads(lines[-1]) if lines else {}


def _is_free(lock: Path) -> bool:
    """Whether no process is at the run: whether its lock could be shared, which is given back at once."""
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except FileNotFoundError:
        return True
    return True


def _left(run: Run, status: dict, last: dict) -> float | None:
    """Seconds for the rounds that are left at the pace of those since the run was begun or resumed."""
    begin = datetime.fromisoformat(status["time"]).timestamp()
    measured = (run.folder / "metrics.jsonl").stat().st_mtime
    rounds = last.get("round", 0) - status.get("round", 0)
    if rounds <= 0 or measured <= begin:
        return None
    return max(1.0, (measured - begin) / rounds * (run.total - last["round"]) - (time.time() - measured))


def _place(run: Run) -> tuple:
    """By which runs are ordered."""
    return (run.task or "", run.algorithm or "", run.workers or 0, run.seed or 0, run.lr, str(run.folder))


def _or_dash(value: object) -> str:
    return "–" if value is None else str(value)


if __name__ == "__main__":
    main()
