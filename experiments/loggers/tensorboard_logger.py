"""Runs written for TensorBoard while they train."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from threading import Event, Thread

from experiments.loggers.layout import named
from experiments.loggers.logger import Logger
from experiments.loggers.rows import rows
from experiments.loggers.service import one_line
from plots.runs.read import open_run

PAUSE = 1.0  # seconds between two looks for new rows
PATIENCE = 30.0  # seconds for the last of them


class TensorboardLogger(Logger):
    """Writes event files into a run's folder, for `tensorboard --logdir results`.

    A thread reads metrics.jsonl and writes every row twice, over rounds under wandb's names, and over bits under the
    same names below `bits/`: TensorBoard has one axis of whole numbers. Its time is the run's own `seconds`. A run of
    several step sizes is one curve for each. A resumed run is written anew. Raises ValueError where tensorboard is
    missing.
    """

    def __init__(self) -> None:
        if getattr(find_spec("tensorboard"), "origin", None) is None:  # a folder of that name is no package
            raise ValueError("the package tensorboard is not installed; pip install tensorboard, or leave it out")

    @contextmanager
    def mirroring(self, folder: Path, say: Callable[[str], None]) -> Iterator[None]:
        """Write the run; see Logger."""
        over = Event()
        writing = Thread(target=_write, args=(folder, lambda: over.wait(PAUSE), say), daemon=True)
        writing.start()
        try:
            yield
        finally:
            over.set()
            writing.join(PATIENCE)

    def skipped(self, folder: Path, say: Callable[[str], None]) -> None:
        """Write it whole where it is not there yet."""
        if not (folder / "tensorboard").exists():
            _write(folder, lambda: True, say)


def _write(folder: Path, ended: Callable[[], bool], say: Callable[[str], None]) -> None:
    try:
        from torch.utils.tensorboard import SummaryWriter  # takes seconds to import

        run, place = open_run(folder), folder / "tensorboard"
        shutil.rmtree(place, ignore_errors=True)
        many = len(run.lrs) > 1
        curves = [SummaryWriter(str(place / f"lr{lr:g}" if many else place)) for lr in run.lrs]
        try:
            for row in rows(folder / "metrics.jsonl", ended):
                for name, value in named(row).items():
                    curves[row["trial"]].add_scalar(name, value, row["round"], row["seconds"])
                    curves[row["trial"]].add_scalar(f"bits/{name}", value, row["bits"], row["seconds"])
        finally:
            for curve in curves:
                curve.close()
    except Exception as error:  # whatever a second place does, the run goes on
        say(f"tensorboard: incomplete ({one_line(error)})")
