"""A track of the leaderboard: conf/leaderboard/<name>.yaml fixes everything that its entries share."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import yaml
from annotated_types import Gt, Le, MinLen
from pydantic import ValidationError

from common.errors import UsageError
from common.names import explain_unknown
from experiments.config.classes import Classes
from experiments.config.compose import choices, compose, roots
from experiments.config.messages import explain_hydra_errors
from plots.claims.check import Metric
from plots.runs.columns import TABLE, column, declare, higher_is_better
from plots.runs.options import Options


class Goal(Options):
    """The metric of a task and the levels that entries should reach."""

    metric: Metric
    levels: Annotated[tuple[float, ...], MinLen(1)]  # the easiest first
    overrides: tuple[str, ...] = ()  # for the task's runs


class Tuning(Options):
    """How every method is tuned."""

    seed: int  # of the trials; never judged
    share: Annotated[float, Gt(0), Le(1)]  # rounds of a trial, as a share of a run's
    trials: Annotated[int, Gt(0)]  # at most, on each task
    factors: Annotated[tuple[float, ...], MinLen(1)]  # step sizes to try, as multiples of a method's usual one


class Track(Options):
    """A track. `version` is a hash of its file's settings. Entries of different versions are not compared."""

    name: str
    version: str
    tasks: Annotated[Mapping[str, Goal], MinLen(1)]  # by the names of conf/task
    tuning: Tuning
    seeds: Annotated[tuple[int, ...], MinLen(1)]  # all of them are judged
    overrides: tuple[str, ...] = ()  # for every run

    def model_post_init(self, context: Any, /) -> None:
        """Raise ValueError if the tuning seed is also judged."""
        if self.tuning.seed in self.seeds:
            raise ValueError(f"tuning.seed={self.tuning.seed}: is one of the judged seeds")


def read_track(name: str, packages: Sequence[str] = ()) -> Track:
    """The track of this name in conf/leaderboard, of this project or of a package. Raises UsageError."""
    places = roots(packages)
    files = [place / "leaderboard" / f"{name}.yaml" for place in places]
    file = next(filter(Path.is_file, files), None)
    if file is None:
        raise UsageError(explain_unknown(f"track={name}: no such track", name, choices("leaderboard", places)))
    content = yaml.safe_load(file.read_text())
    version = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]
    try:
        track = Track.model_validate({**content, "name": name, "version": version})
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"{file}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    for task, goal in track.tasks.items():
        _check_goal(goal, task, packages, f"{file}: tasks.{task}")
    return track


def _check_goal(goal: Goal, task: str, packages: Sequence[str], place: str) -> None:
    """Declare the task's columns if the goal needs them. Raises UsageError for a metric without a better direction,
    and unless each level is harder than the one before."""
    if not column(goal.metric).better:
        words = [f"packages=[{','.join(packages)}]", f"task={task}"]
        with explain_hydra_errors(words):
            node = compose(words, packages=packages)["task"]
        own = getattr(Classes(packages).import_target(node, "task"), "columns", ())
        declare(map(asdict, own))
        if not column(goal.metric).better:
            known = dict.fromkeys(each.name for each in (*TABLE, *own) if each.better and each.filled_by == "task")
            raise UsageError(explain_unknown(f"{place}.metric={goal.metric}: no such metric", goal.metric, known))
    if list(goal.levels) != sorted(set(goal.levels), reverse=not higher_is_better(goal.metric)):
        raise UsageError(f"{place}.levels={list(goal.levels)}: must be in order, the easiest first")
