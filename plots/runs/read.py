"""Run folders: what their files say, and what they fail to say."""

from __future__ import annotations

import fcntl
import io
import json
import math
import os
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import groupby
from operator import getitem
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from plots.runs.columns import declare, metric_among

if TYPE_CHECKING:  # whoever looks at a status alone need not wait for it
    import pandas as pd

STATES = ("finished", "running", "interrupted", "failed", "gone", "missing", "damaged")
"""What a run can be; `gone`: it says running, but no process has it any more, `missing`: written down by a sweep and
never begun."""

_RECORDED = ("finished", "running", "interrupted", "failed")
_TAIL = 1 << 16  # bytes, more than an evaluation's rows
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _setting(*keys: str) -> Any:
    """A property that is what a run's configuration has there."""
    return property(lambda run: reduce(getitem, keys, run.config))


@dataclass(frozen=True)
class Run:
    """A run's folder: what it was set to, what it ran on and how far it came, as its files say.

    Of one that is missing `folder` is the file that it would be started from. Of one that is damaged there is nothing
    but `error`, which says why.
    """

    folder: Path
    state: str
    config: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)
    last: list[dict[str, Any]] = field(default_factory=list)  # the rows of the last evaluation
    error: str = ""

    @property
    def id(self) -> str:
        """Twelve hexadecimal digits: the folder's name."""
        return self.folder.stem

    task = _setting("task", "name")
    algorithm = _setting("algorithm", "name")
    display = _setting("algorithm", "display")  # how it is drawn
    seed = _setting("seed")
    workers = _setting("cluster", "workers")
    rounds = _setting("rounds")  # how many it is to have
    lrs = _setting("lr")  # its step sizes, as configured

    @property
    def study(self) -> str | None:
        return self.config.get("study")

    @property
    def is_finished(self) -> bool:
        return self.state == "finished"

    @property
    def round(self) -> int:
        """How many rounds are done, as far as is known."""
        return max(self.last[-1].get("round", 0) if self.last else 0, self.status.get("round", 0))

    @property
    def metric(self) -> str | None:
        """What its task selects step sizes by; None where that was not measured yet."""
        measured = (name for row in self.last for name in row if row[name] is not None)
        return metric_among(measured, self.environment.get("metric"))

    @cached_property
    def code(self) -> dict[str, str]:
        """By module the digest of the code that the run was begun with; empty where the folder does not say."""
        try:
            content = read_json(self.folder / "code.json")
        except (OSError, ValueError):
            return {}
        return {module: digest for module, digest in content.items() if module != "kept"}

    @cached_property
    def rows(self) -> pd.DataFrame:
        """Every whole row of metrics.jsonl; a run that is being written may end in the middle of one.

        `lr` is the configured one, also of runs from before there was a `step_size`, which had that in its place.
        Raises ValueError, naming the file, where it is damaged.
        """
        import pandas as pd

        file = self.folder / "metrics.jsonl"
        text = file.read_text()
        whole = text[: text.rfind("\n") + 1]
        try:
            frame = pd.read_json(io.StringIO(whole), lines=True, precise_float=True, dtype=False)
        except ValueError as error:
            raise ValueError(f"{file}: not rows of JSON ({error}); delete the run or move it elsewhere") from error
        if "step_size" in frame or not {"lr", "trial"} <= set(frame):
            return frame
        configured = frame["trial"].map(dict(enumerate(self.lrs)))
        return frame.assign(step_size=frame["lr"], lr=configured)

    @property
    def columns(self) -> list[str]:
        """The names of the rows' columns."""
        return [str(name) for name in self.rows]

    def frame(self) -> pd.DataFrame:
        """The rows with what identifies and labels the run in columns beside them.

        These are task, algorithm, compressor, seed, run (the id), d; for drawing task_label, label, color, marker;
        and selected_by, the metric that the task declares.
        """
        algorithm, task = self.config["algorithm"], self.config["task"]
        frame = self.rows.copy()
        frame.insert(0, "task", task["name"])
        frame.insert(1, "algorithm", algorithm["name"])
        frame.insert(2, "compressor", self.config["compressor"]["_target_"].rpartition(".")[2])
        frame.insert(3, "seed", self.seed)
        return frame.assign(
            run=self.id,
            d=self.environment.get("d", math.nan),
            task_label=task["display"]["label"],
            selected_by=self.environment.get("metric"),
            **algorithm["display"],
        )


def open_run(place: Path) -> Run:
    """What lies in a run's folder, with `Run.rows` read when they are asked for; of a file, the missing run that a
    sweep wrote down there.

    Raises ValueError, naming the place, where that is damaged.
    """
    try:
        if place.is_file():
            return Run(place, "missing", _read_config(place))
        config = _read_config(place / "config.yaml")
        environment = place / "environment.json"
        facts = read_json(environment) if environment.exists() else {}
        declare(facts.get("columns", []))
        status = read_status(place) or {"status": "running"}  # one that has only just begun has none yet
        state = status["status"]
        if state == "running" and _is_free(place / ".lock"):
            state = "gone"
        last = _last_rows(place / "metrics.jsonl")
        run = Run(place, state, config, facts, status, last, " ".join(str(status.get("error", "")).split()))
        _ = run.round >= 0  # a number, whoever wrote it
        return run
    except (OSError, ValueError, LookupError, TypeError, AttributeError, yaml.YAMLError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(f"{place}: not a whole run folder ({reason}); delete it or move it elsewhere") from error


def read_json(file: Path) -> dict[str, Any]:
    """An object of JSON. Raises ValueError, naming the file, for anything else, and OSError."""
    try:
        content = json.loads(file.read_text())
    except ValueError as error:
        raise ValueError(f"{file}: damaged ({error})") from error
    if not isinstance(content, dict):
        raise ValueError(f"{file}: damaged (not an object)")
    return content


def read_status(folder: Path) -> dict[str, Any] | None:
    """What status.json says; None for a run never begun. Raises ValueError, naming the place, where it cannot be."""
    file = folder / "status.json"
    if not file.exists():
        return None
    status = read_json(file)
    if status.get("status") not in _RECORDED:
        raise ValueError(f"{file}: {status.get('status')}: no such status")
    missing = [name for name in ("metrics.jsonl", "summary.json") if not (folder / name).exists()]
    if status["status"] == "finished" and missing:
        raise ValueError(f"{folder}: finished, but without {' and '.join(missing)}")
    return status


def _read_config(file: Path) -> dict[str, Any]:
    """A run's configuration, in which what all readers use is there and of its kind."""
    with file.open("rb") as stream:
        config = yaml.load(stream, Loader=_Loader)
    numbers = (config["rounds"], config["seed"], config["cluster"]["workers"], *config["lr"])
    names = (config["task"]["name"], config["algorithm"]["name"])
    for values, kind, what in ((numbers, int | float, "number"), (names, str, "name")):
        for value in values:
            if not isinstance(value, kind):
                raise TypeError(f"{file.name}: {value!r} where a {what} must stand")
    return config


def _last_rows(file: Path) -> list[dict[str, Any]]:
    """The whole lines of metrics.jsonl about its last evaluation, read from its end; empty where there are none."""
    if not file.exists():
        return []
    with file.open("rb") as stream:
        begin = max(0, stream.seek(0, os.SEEK_END) - _TAIL)
        stream.seek(begin)
        lines = stream.read().split(b"\n")[bool(begin) : -1]
    rows = (json.loads(line) for line in reversed(lines))
    _, last = next(groupby(rows, key=lambda row: row.get("round")), (None, ()))
    return list(last)[::-1]


def _is_free(lock: Path) -> bool:
    """Whether no process is at the run: whether its lock could be shared, which is given back at once."""
    with suppress(FileNotFoundError), lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
