"""Read run folders."""

from __future__ import annotations

import fcntl
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import chain
from operator import getitem
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from zlib import crc32

from pydantic_core import from_json

from common.files import require_regular
from plots.runs import checksums
from plots.runs.columns import declare, default_metric
from plots.runs.files import (
    CONFIG,
    ENVIRONMENT,
    FILES,
    METRICS,
    STATUS,
    all_lines,
    last_rows,
    read_json,
    read_lines,
    read_yaml,
)

if TYPE_CHECKING:  # the status command need not wait for them
    import numpy as np
    import pandas as pd

STATES = ("finished", "running", "interrupted", "failed", "gone", "missing", "damaged")
"""States of a run. `gone`: its status is running, but no process has it. `missing`: a sweep listed it only."""

Answer = TypeVar("Answer")


def _setting(*keys: str) -> Any:
    return property(lambda run: reduce(getitem, keys, run.config))


@dataclass(frozen=True)
class RunRecord:
    """A run's folder: its configuration, environment and progress, from its files.

    For a missing run, `folder` is the file that it would be started from. A damaged run has only `error`, the reason.
    """

    folder: Path
    state: str
    config: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)
    last: list[dict[str, Any]] = field(default_factory=list)  # the rows of the last evaluation
    verified: tuple[int, int] = (0, -1)  # the verified bytes of metrics.jsonl, and their CRC-32
    code: dict[str, str] = field(default_factory=dict)  # digests of the code it was begun with, by module
    error: str = ""

    @property
    def id(self) -> str:
        """Twelve hexadecimal digits: the folder's name."""
        return self.folder.stem

    task = _setting("task", "name")
    algorithm = _setting("algorithm", "name")
    display = _setting("algorithm", "display")  # label, color and marker
    seed = _setting("seed")
    workers = _setting("cluster", "workers")
    rounds = _setting("rounds")  # planned
    lrs = _setting("lr")  # its step sizes, as configured

    @property
    def study(self) -> str | None:
        return self.config.get("study")

    @property
    def is_finished(self) -> bool:
        return self.state == "finished"

    @property
    def is_over(self) -> bool:
        """Whether the run is finished or diverged: no more rows will come."""
        return self.is_finished or (self.state == "failed" and bool(self.status.get("diverged")))

    @property
    def commit(self) -> str:
        """The commit it was begun with, and whether files had uncommitted changes."""
        commit = (self.environment.get("commit") or "unknown")[:7]
        return commit + " with changes" * bool(self.environment.get("uncommitted_changes"))

    @property
    def round(self) -> int:
        """The number of rounds known to be done."""
        return max(self.last[-1].get("round", 0) if self.last else 0, self.status.get("round", 0))

    @property
    def metric(self) -> str | None:
        """The metric that selects its step sizes; None if it was not measured yet."""
        measured = (name for row in self.last for name in row if row[name] is not None)
        return default_metric(measured, self.environment.get("metric"))

    @cached_property
    def rows(self) -> dict[str, np.ndarray]:
        """The complete rows of metrics.jsonl: an array for each column except the checksum. A missing value is NaN.

        Rows verified when the run was opened are not verified again, unless the file was replaced.
        Raises ValueError with the file and line if it is damaged.
        """
        import numpy as np

        size, digest = self.verified
        content = require_regular(self.folder / METRICS).read_bytes()[:size]
        if crc32(content) != digest:
            content = b"".join(read_lines(self.folder))
        rows = from_json(b"[%b]" % content[:-1].replace(b"\n", b","))  # in a third of json.loads' time
        names = dict.fromkeys(chain.from_iterable(rows))
        values = zip(*((names | row).values() for row in rows), strict=True)  # a missing one is None
        columns = {name: np.array(each) for name, each in zip(names, values, strict=True) if name != checksums.KEY}
        return {name: each.astype(float) if each.dtype.kind not in "ifb" else each for name, each in columns.items()}


def table(runs: Sequence[RunRecord]) -> pd.DataFrame:
    """Concatenate the rows of runs, with columns that identify and label each run.

    These are task, algorithm, compressor, seed, run (the id), planned_rounds, d, batch_size (a worker's; missing for
    full gradients) and selected_by (the task's metric). `plots.runs.network` reads workers, ranks, servers, exchanges
    and stages, trials (how many step sizes) and, if a run has them, groups. Drawing reads task_label and the looks.
    """
    import numpy as np
    import pandas as pd

    names = dict.fromkeys(name for run in runs for name in run.rows)
    nothing = [np.full(len(run.rows["round"]), math.nan) for run in runs]
    rows = pd.DataFrame({
        name: np.concatenate([run.rows.get(name, none) for run, none in zip(runs, nothing, strict=True)])
        for name in names
    })  # fmt: skip
    about = repeat_by_row(runs, [_facts(run) for run in runs])
    first = ["task", "algorithm", "compressor", "seed"]
    return pd.concat([about[first], rows, about.drop(columns=first)], axis=1)


def repeat_by_row(runs: Sequence[RunRecord], facts: Sequence[Mapping[str, Any]] | pd.DataFrame) -> pd.DataFrame:
    """Make table columns of facts about runs: each fact is repeated for every row of its run."""
    import pandas as pd

    each = pd.DataFrame(facts)
    return each.loc[each.index.repeat([len(run.rows["round"]) for run in runs])].reset_index(drop=True)


def _facts(run: RunRecord) -> dict[str, Any]:
    d = run.environment.get("d", math.nan)
    return {
        "task": run.task,
        "algorithm": run.algorithm,
        "compressor": run.config["compressor"]["_target_"].rpartition(".")[2],
        "seed": run.seed,
        "run": run.id,
        "planned_rounds": run.rounds,
        "d": d,
        "batch_size": run.config["task"].get("batch_size"),
        "workers": run.workers,
        "ranks": run.environment.get("ranks", 1),
        # The possible servers, and the exchanges and stages per round: as recorded, else what holds for any method.
        "servers": run.environment.get("servers", -(-d // 2**12)),
        "exchanges": run.environment.get("exchanges", 2),
        "stages": run.environment.get("stages", 1),
        "trials": len(set(run.rows["trial"].tolist())),
        "task_label": run.config["task"]["display"]["label"],
        "selected_by": run.environment.get("metric"),
        **run.display,
        **({"groups": groups} if (groups := run.config["cluster"].get("groups")) else {}),
    }


def open_run(place: Path) -> RunRecord:
    """Open the run in a folder and verify its files. For a file, return the missing run that a sweep recorded in it.

    Raises OSError, and ValueError for a damaged file, with its name and the damage.
    """
    return retry(lambda: _read_folder(place))


def retry(look: Callable[[], Answer]) -> Answer:
    """Return `look()`. If it finds damage, look again: a run under way may have changed a file between two reads."""
    try:
        return look()
    except (OSError, ValueError):
        return look()


def _read_folder(place: Path) -> RunRecord:
    if place.is_file():
        return _check(RunRecord(place, "missing", read_yaml(place.read_bytes(), place)))
    if place.is_symlink() and not (place / CONFIG).exists():
        raise ValueError(f"{place}: a link, which is not followed; put the folder itself there")
    there = [name for name in FILES if os.path.exists(f"{place}/{name}")]  # not a dangling link
    config = read_yaml(checksums.read(place / CONFIG), place / CONFIG)
    parts = {name: read_json(place / name) for name in there if name.endswith(".json")}
    status = parts.get(STATUS, {"status": "running"})  # a run that has just begun has none yet
    lines = all_lines(place, status) if METRICS in there else []
    last, content = last_rows(lines), b"".join(lines)
    state, facts = status["status"], parts.get(ENVIRONMENT, {})
    if state == "running" and _is_free(place / ".lock"):
        state = "gone"
    needed = FILES if state == "finished" else FILES[:-1] if STATUS in there or last else ()
    if missing := [name for name in needed if name not in there]:
        raise ValueError(f"{place}: {state}, but without {' and '.join(missing)}")
    declare(facts.get("columns", []))
    code, error = parts.get("code.json", {}).get("modules", {}), " ".join(str(status.get("error", "")).split())
    verified = len(content), crc32(content)
    return _check(RunRecord(place, state, config, facts, status, last, verified, code, error))


def _check(run: RunRecord) -> RunRecord:
    """Return the run. Raises ValueError if its configuration lacks a key that every reader needs."""
    for name, kind in (("task", str), ("algorithm", str), ("display", dict), ("seed", int), ("workers", int),
                       ("rounds", int), ("lrs", list)):  # fmt: skip
        with suppress(KeyError, TypeError):
            if isinstance(getattr(run, name), kind):
                continue
        raise ValueError(f"{run.folder}: a configuration without {name}")
    return run


def _is_free(lock: Path) -> bool:
    """Whether no process has the run: its lock can be shared. The lock is released at once."""
    with suppress(FileNotFoundError), require_regular(lock).open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:  # held, or on a file system that cannot tell
            return False
    return True
