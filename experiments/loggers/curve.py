"""One curve: a wandb run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import wandb

from experiments.loggers.layout import AGAINST_BITS, BITS, Options, named
from experiments.loggers.login import Mode
from experiments.loggers.tally import Tally


class Curve:
    """A trial of a run as one run of wandb.

    A run with one step size is one curve with the run's id. A grid of step sizes, trained as one batch, is as many,
    `<id>-<trial>`, all open at once: wandb compares runs, not lines within one.

    Every row is one call that holds x and y, never with a step of ours, so that wandb's own step counts rows. Where
    it already has rows of this id, those are not sent again: the rows of an id are always the same.
    """

    def __init__(self, arguments: dict[str, Any], options: Options, folder: str, mode: Mode) -> None:
        """Begin it in `<folder>/wandb`. `arguments` are those of layout.arguments. Raises whatever wandb does."""
        settings = wandb.Settings(
            silent=True,
            console="off",
            save_code=False,
            disable_code=True,
            disable_git=True,
            host="",
            symlink=False,
            init_timeout=options["init_timeout"],
            finish_timeout=options["finish_timeout"],
            finish_timeout_raises=True,
            x_disable_meta=True,
            x_disable_stats=True,
            x_disable_machine_info=True,
            x_save_requirements=False,
        )
        resume = "allow" if mode == "online" else None
        self._run = wandb.init(
            **arguments, resume=resume, mode=mode, dir=folder, settings=settings, reinit="create_new"
        )
        self._run.define_metric(BITS)
        for name in AGAINST_BITS:
            self._run.define_metric(name, step_metric=BITS)
        self._tally = Tally(options["targets"])
        self._there = self._run.starting_step
        self._rows = 0

    @property
    def url(self) -> str | None:
        """Where it is shown; None offline."""
        return self._run.url

    @property
    def sent(self) -> int:
        """How many rows wandb did not have before."""
        return max(0, self._rows - self._there)

    def log(self, row: Mapping[str, Any]) -> None:
        """The next row of metrics.jsonl, from its first one on."""
        self._tally.add(row)
        self._rows += 1
        if self._rows > self._there:
            self._run.log(named(row))

    def finish(self, status: str) -> None:
        """Add the summary and end the run, for wandb as failed where it was stopped or failed.

        Raises TimeoutError where wandb did not take all of it in time.
        """
        self._run.summary.update(self._tally.summary(status))
        self._run.finish(exit_code=int(status in ("interrupted", "failed")))
