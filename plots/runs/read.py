"""Run folders: what their files say."""

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
from plots.runs.columns import declare, metric_among
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

if TYPE_CHECKING:  # whoever looks at a status alone need not wait for them
    import numpy as np
    import pandas as pd

STATES = ("finished", "running", "interrupted", "failed", "gone", "missing", "damaged")
"""What a run can be; `gone`: it says running, but no process has it any more, `missing`: written down by a sweep and
never begun."""

Answer = TypeVar("Answer")


def _setting(*keys: str) -> Any:
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
    verified: tuple[int, int] = (0, -1)  # how much of metrics.jsonl was verified, and its CRC-32
    code: dict[str, str] = field(default_factory=dict)  # by module the digest of the code that it was begun with
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
    def rows(self) -> dict[str, np.ndarray]:
        """The whole rows of metrics.jsonl: an array for each column but the checksum. A missing value is NaN.

        Rows that were verified when the run was opened are not verified again, unless the file was replaced.
        Raises ValueError, naming the file and line, where it is damaged.
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
    """The rows of runs, one run after the other, with what identifies and labels it in columns beside them.

    These are task, algorithm, compressor, seed, run (the id), planned_rounds, d, batch_size (a worker's, missing
    where gradients are of all rows); for `plots.runs.network` workers, ranks and trials, the number of step sizes,
    and groups if any run has them; for drawing task_label, label, color, marker; and selected_by, the metric that the
    task declares.
    """
    import numpy as np
    import pandas as pd

    names = dict.fromkeys(name for run in runs for name in run.rows)
    nothing = [np.full(len(run.rows["round"]), math.nan) for run in runs]
    rows = pd.DataFrame({
        name: np.concatenate([run.rows.get(name, none) for run, none in zip(runs, nothing, strict=True)])
        for name in names
    })  # fmt: skip
    about = beside(runs, [_about(run) for run in runs])
    first = ["task", "algorithm", "compressor", "seed"]
    return pd.concat([about[first], rows, about.drop(columns=first)], axis=1)


def beside(runs: Sequence[RunRecord], facts: Sequence[Mapping[str, Any]] | pd.DataFrame) -> pd.DataFrame:
    """What holds for a whole run in a table's columns, each value repeated for every row of its run."""
    import pandas as pd

    each = pd.DataFrame(facts)
    return each.loc[each.index.repeat([len(run.rows["round"]) for run in runs])].reset_index(drop=True)


def _about(run: RunRecord) -> dict[str, Any]:
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
        # How many could serve, and how often messages crossed: as recorded, or what holds of any method.
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
    """The run in a folder, with its files verified. For a file, the missing run that a sweep recorded in it.

    Raises ValueError, naming the file and what is wrong with it, where one is damaged, and OSError.
    """
    return retry(lambda: _examined(place))


def retry(look: Callable[[], Answer]) -> Answer:
    """What a look at a folder gives. Where it finds damage a second look decides: of a run that is under way one file
    may have been read before a change and another after it."""
    try:
        return look()
    except (OSError, ValueError):
        return look()


def _examined(place: Path) -> RunRecord:
    """What lies in a folder, after its files are verified."""
    if place.is_file():
        return _checked(RunRecord(place, "missing", read_yaml(place.read_bytes(), place)))
    if place.is_symlink() and not (place / CONFIG).exists():
        raise ValueError(f"{place}: a link, which is not followed; put the folder itself there")
    there = [name for name in FILES if os.path.exists(f"{place}/{name}")]  # no link that leads nowhere
    config = read_yaml(checksums.read(place / CONFIG), place / CONFIG)
    parts = {name: read_json(place / name) for name in there if name.endswith(".json")}
    status = parts.get(STATUS, {"status": "running"})  # one that has only just begun has none yet
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
    return _checked(RunRecord(place, state, config, facts, status, last, verified, code, error))


def _checked(run: RunRecord) -> RunRecord:
    """The same run. Raises ValueError if its configuration lacks a key that every reader needs."""
    for name, kind in (("task", str), ("algorithm", str), ("display", dict), ("seed", int), ("workers", int),
                       ("rounds", int), ("lrs", list)):  # fmt: skip
        with suppress(KeyError, TypeError):
            if isinstance(getattr(run, name), kind):
                continue
        raise ValueError(f"{run.folder}: a configuration without {name}")
    return run


def _is_free(lock: Path) -> bool:
    """Whether no process is at the run: whether its lock could be shared, which is given back at once."""
    with suppress(FileNotFoundError), require_regular(lock).open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:  # held, or on a file system that cannot tell
            return False
    return True
