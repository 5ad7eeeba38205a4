"""Run folders: what their files say, and what they fail to say."""

from __future__ import annotations

import fcntl
import json
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, reduce
from itertools import islice
from operator import getitem
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from plots.runs.checksums import KEY
from plots.runs.columns import axes, declare, metric_among
from plots.runs.files import (
    BEGUN,
    CONFIG,
    FINISHED,
    METRICS,
    STATUS,
    configuration,
    last_rows,
    parsed,
    read_json,
    read_small,
    whole_rows,
)

if TYPE_CHECKING:  # whoever looks at a status alone need not wait for them
    import numpy as np
    import pandas as pd

STATES = ("finished", "running", "interrupted", "failed", "gone", "missing", "damaged")
"""What a run can be; `gone`: it says running, but no process has it any more, `missing`: written down by a sweep and
never begun."""

_RECORDED = ("finished", "running", "interrupted", "failed")
_AT_ONCE = 1 << 13  # rows that are objects of Python at a time: as these they take ten times the memory
Answer = TypeVar("Answer")


def _setting(*keys: str) -> Any:
    """A property that is what a run's configuration has there."""
    return property(lambda run: reduce(getitem, keys, run.config))


@dataclass(frozen=True)
class RunRecord:
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
    def is_over(self) -> bool:
        """Whether it is finished, or ended where a number was not finite: what it has is all that came of it."""
        return self.is_finished or (self.state == "failed" and bool(self.status.get("diverged")))

    @property
    def commit(self) -> str:
        """That of the code that it was begun with, and whether files were edited then."""
        commit = (self.environment.get("commit") or "unknown")[:7]
        return commit + " with changes" * bool(self.environment.get("uncommitted_changes"))

    def shown_as(self, task: Mapping[str, str], algorithm: Mapping[str, str]) -> RunRecord:
        """The same run with other displays: figures that share runs need not draw them alike."""
        looks = {"task": task, "algorithm": algorithm}
        shown = {group: {**self.config[group], "display": dict(look)} for group, look in looks.items()}
        return replace(self, config=self.config | shown)

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
            return read_json(self.folder / "code.json").get("modules", {})
        except (OSError, ValueError):
            return {}

    @cached_property
    def numbers(self) -> dict[str, np.ndarray]:
        """The columns of every whole row of metrics.jsonl, without its checksum; a run may be in the middle of a row.

        What a row does not have is NaN. Raises ValueError, naming the file and line, where it is damaged.
        """
        lines, parts = self.lines(), []
        while some := list(islice(lines, _AT_ONCE)):
            with self._naming():
                parts.append(_columns(json.loads(b"[%b]" % b",".join(some))))
        with self._naming():
            numbers = stacked(parts)
            if parts:
                _require_order(numbers, len(self.lrs))
        return numbers

    @property
    def rows(self) -> pd.DataFrame:
        """The same as a table."""
        import pandas as pd

        return pd.DataFrame(self.numbers)

    @property
    def height(self) -> int:
        """How many whole rows it has."""
        return len(self.numbers.get("round", ()))

    def lines(self) -> Iterator[bytes]:
        """The whole lines of metrics.jsonl, all of them verified once the last one is taken. Raises as `rows`."""
        return whole_rows(self.folder, self.status)

    @property
    def columns(self) -> list[str]:
        """The names of the rows' columns."""
        return list(self.numbers)

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """Say of which file it is that something is no row of a run."""
        try:
            yield
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"{self.folder / METRICS}: not rows of a run ({error})") from error

    def frame(self) -> pd.DataFrame:
        """The rows with what identifies and labels the run beside them, as `table` has them."""
        return table([self])


def table(runs: Sequence[RunRecord]) -> pd.DataFrame:
    """The rows of runs, one run after the other, with what identifies and labels it in columns beside them.

    These are task, algorithm, compressor, seed, run (the id), planned_rounds, d, batch_size (a worker's, missing
    where gradients are of all rows); for `plots.runs.network` workers, ranks and trials, the number of step sizes;
    for drawing task_label, label, color, marker; and selected_by, the metric that the task declares.
    """
    import pandas as pd

    frame = pd.DataFrame(stacked([run.numbers for run in runs]))
    for place, (name, values) in enumerate(beside(runs, _identity).items()):
        frame.insert(place, name, values)
    return frame.assign(**beside(runs, _labels))


def beside(runs: Sequence[RunRecord], facts: Callable[[RunRecord], dict[str, Any]]) -> dict[str, Any]:
    """Columns of what holds for a whole run, each value repeated for every row of its run."""
    import numpy as np
    import pandas as pd

    each = pd.DataFrame([facts(run) for run in runs])
    rows = np.repeat(range(len(runs)), [run.height for run in runs])
    return {str(name): each[name].array.take(rows) for name in each}


def _identity(run: RunRecord) -> dict[str, Any]:
    compressor = run.config["compressor"]["_target_"].rpartition(".")[2]
    return {"task": run.task, "algorithm": run.algorithm, "compressor": compressor, "seed": run.seed}


def _labels(run: RunRecord) -> dict[str, Any]:
    facts = {
        "run": run.id,
        "planned_rounds": run.rounds,
        "d": run.environment.get("d", math.nan),
        "batch_size": run.config["task"].get("batch_size"),
        "workers": run.workers,
        "ranks": run.environment.get("ranks", 1),
        **exchange(run.environment),
        "trials": len(set(run.numbers["trial"])),
        "task_label": run.config["task"]["display"]["label"],
    }
    return {**facts, "selected_by": run.environment.get("metric"), **run.display}


def exchange(environment: Mapping[str, Any]) -> dict[str, int]:
    """How many could serve in a run with a server in parts, and how often messages crossed one after the other: as
    recorded, or what holds of any method where an older run does not say."""
    d = environment.get("d") or 1
    return {"servers": environment.get("servers", -(-d // 2**12)), "exchanges": environment.get("exchanges", 2)}


def open_run(place: Path) -> RunRecord:
    """What lies in a run's folder, with `RunRecord.rows` read when they are asked for; of a file, the missing run
    that a sweep wrote down there.

    Raises ValueError, naming the file and what is wrong with it, where one is damaged, and OSError.
    """
    return twice(lambda: _examined(place))


def verified(folder: Path) -> RunRecord | None:
    """The same after all that the folder holds but the checkpoint is verified, every row too; None of a run that was
    never begun. Raises as `open_run`."""

    def look() -> RunRecord | None:
        if not any((folder / name).exists() for name in FINISHED):
            return None
        run = _examined(folder)
        if (folder / METRICS).exists():
            deque(run.lines(), maxlen=0)
        return run

    return twice(look)


def twice(look: Callable[[], Answer]) -> Answer:
    """What a look at a folder gives. Where it finds damage a second look decides: of a run that is under way one file
    may have been read before a change and another after it."""
    try:
        return look()
    except (OSError, ValueError):
        return look()


def _examined(place: Path) -> RunRecord:
    """What lies in a folder, after its small files and the rows of the last evaluation are verified."""
    if place.is_file():
        return RunRecord(place, "missing", configuration(place, place.read_bytes()))
    contents = read_small(place)
    there = {*contents}
    if CONFIG not in contents:
        raise ValueError(f"{place / CONFIG}: missing")
    config = configuration(place / CONFIG, contents.pop(CONFIG))
    parts = {name: parsed(place / name, content) for name, content in contents.items()}
    facts = parts.get("environment.json", {})
    try:
        declare(facts.get("columns", []))
    except (TypeError, AttributeError) as error:
        raise ValueError(f"{place / 'environment.json'}: damaged ({error})") from error
    status = parts.get(STATUS, {"status": "running"})  # one that has only just begun has none yet
    state = _state(place, status)
    last = last_rows(place, status)
    needed = FINISHED if state == "finished" else BEGUN if STATUS in parts or last else ()
    missing = [name for name in needed if name not in there and not (place / name).exists()]
    if missing:
        raise ValueError(f"{place}: {state}, but without {' and '.join(missing)}")
    error = " ".join(str(status.get("error", "")).split())
    return RunRecord(place, state, config, facts, status, last, error)


def _state(folder: Path, status: dict[str, Any]) -> str:
    """The state of a run by what status.json says. Raises ValueError where that is no status."""
    state = status.get("status")
    if state not in _RECORDED:
        raise ValueError(f"{folder / STATUS}: {state}: no such status")
    try:
        datetime.fromisoformat(status.get("time", "2000-01-01"))
        _ = status.get("round", 0) >= 0
    except (ValueError, TypeError) as error:
        raise ValueError(f"{folder / STATUS}: damaged ({error})") from error
    return "gone" if state == "running" and _is_free(folder / ".lock") else state


def stacked(parts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The columns of tables of numbers, one table's behind the other's; NaN where one has no such column."""
    import numpy as np

    names = dict.fromkeys(name for part in parts for name in part)
    lengths = [len(next(iter(part.values()), ())) for part in parts]
    return {
        name: np.concatenate(
            [part[name] if name in part else np.full(rows, np.nan) for part, rows in zip(parts, lengths, strict=True)]
        )
        for name in names
    }


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """The columns of rows, without their checksums. Raises ValueError for one that holds anything but numbers."""
    import numpy as np

    names: dict[str, Any] = {}
    for row in rows:
        names |= row
    names.pop(KEY, None)
    columns = {}
    for name in names:
        values = [row.get(name) for row in rows]
        column = np.array(values)
        if column.dtype.kind == "O" and all(value is None or isinstance(value, int | float) for value in values):
            column = column.astype(float)
        if column.dtype.kind not in "biuf" or column.ndim > 1:
            raise ValueError(f"no numbers in {name}")
        columns[name] = column
    return columns


def _require_order(numbers: Mapping[str, np.ndarray], trials: int) -> None:
    """Raise ValueError unless these are evaluations one after the other, each a row a trial."""
    import numpy as np

    needed = [*axes(), "trial", "lr"]
    missing = [name for name in needed if name not in numbers or np.isnan(numbers[name]).any()]
    if missing:
        raise ValueError(f"rows without {', '.join(missing)}")
    rounds = numbers["round"]
    number = np.arange(len(rounds))
    first = rounds[number - number % trials]
    if (numbers["trial"] != number % trials).any() or (rounds != first).any():
        raise ValueError("rows of an evaluation are missing, doubled or out of place")
    begun = rounds[::trials]
    if (begun[1:] <= begun[:-1]).any():
        raise ValueError("rounds do not ascend")


def _is_free(lock: Path) -> bool:
    """Whether no process is at the run: whether its lock could be shared, which is given back at once."""
    with suppress(FileNotFoundError), lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:  # held, or on a file system that cannot tell
            return False
    return True
