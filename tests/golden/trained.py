"""The one place where the golden trajectories meet the harness."""

import torch
from torch import Tensor

from experiments.cluster.ranks import Ranks
from experiments.config.run import load_run
from experiments.training.build import build_trainer

Row = dict[str, float | int | None]

LEFT_OUT = {"seconds", "mean_norm"}
"""What is a machine's own, and columns that the recorded trajectories do not have."""


def trained(overrides: list[str]) -> tuple[list[Row], Tensor]:
    """Train the run of a command line on one thread: its rows without LEFT_OUT, and its final parameters [T, d]."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        run = load_run(overrides)
        trainer = build_trainer(run, Ranks())
        rows = trainer.evaluate()
        for t in range(1, trainer.rounds + 1):
            due = run.is_due(t)
            trainer.step(diagnose=due)
            if due:
                rows += trainer.evaluate()
    finally:
        torch.set_num_threads(threads)
    kept = [{name: value for name, value in row.items() if name not in LEFT_OUT} for row in rows]
    return kept, trainer.state.replica.x
