"""Finished runs with the settings of a figure's, of whatever code."""

from collections.abc import Sequence
from pathlib import Path

from common.errors import UsageError
from experiments.config import identity
from experiments.config.earlier import today
from experiments.config.schema import RunConfig
from plots.request import folder
from plots.runs.find import find, whole


def finished(runs: Sequence[RunConfig], place: str) -> list[Path]:
    """The folders below `place` of finished runs with the settings of these, in their order; those that diverged are
    finished, too.

    Of several with the same settings the one that finished last. Raises UsageError where there is none, naming it.
    """
    there = {}
    for run in sorted(whole(find(folder("finished_in", place))), key=lambda run: str(run.status.get("time"))):
        if run.is_over and (settings := _settings(run.config)):
            there[settings] = run.folder
    for run in runs:
        if identity.identity(identity.settings(run), {}) not in there:
            raise UsageError(
                f"finished_in={place}: no finished run of {run.algorithm.name} on {run.task.name} with "
                f"lr={list(run.lr)}, seed={run.seed} and the figure's other settings; leave it out to run it"
            )
    return [there[identity.identity(identity.settings(run), {})] for run in runs]


def _settings(config: dict) -> str:
    """What stands for a recorded configuration's settings; "" for one that is none any more."""
    try:
        return identity.identity(identity.settings(today(config)), {})
    except (UsageError, KeyError):
        return ""
