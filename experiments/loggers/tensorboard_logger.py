"""Write runs for TensorBoard while they train."""

import shutil
from importlib.util import find_spec
from pathlib import Path

from experiments.loggers.logger import Logger, Row, Say, wandb_row
from plots.runs.read import open_run


class TensorboardLogger(Logger):
    """Writes event files into a run's folder, for `tensorboard --logdir results`.

    TensorBoard has one axis of whole numbers, so every value is written twice: over rounds, and below `bits/` over
    bits. Its time is the run's `seconds`. A run with several step sizes has one curve for each.
    Raises ValueError where tensorboard is missing.
    """

    title = "tensorboard"

    def __init__(self) -> None:
        if getattr(find_spec("tensorboard"), "origin", None) is None:  # a folder of that name is no package
            raise ValueError("the package tensorboard is not installed; pip install tensorboard, or leave it out")
        self._curves: list = []

    def begin(self, folder: Path, say: Say) -> None:
        from torch.utils.tensorboard import SummaryWriter  # takes seconds to import

        place, lrs = folder / "tensorboard", open_run(folder).lrs
        shutil.rmtree(place, ignore_errors=True)
        self._curves = [SummaryWriter(str(place / f"lr{lr:g}" if len(lrs) > 1 else place)) for lr in lrs]

    def log(self, row: Row) -> None:
        for name, value in wandb_row(row).items():
            self._curves[row["trial"]].add_scalar(name, value, row["round"], row["seconds"])
            self._curves[row["trial"]].add_scalar(f"bits/{name}", value, row["bits"], row["seconds"])

    def finish(self, status: str) -> None:
        for curve in self._curves:
            curve.close()
