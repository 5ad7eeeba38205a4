"""Send runs to wandb while they train, or keep them for `wandb sync`."""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import sha256
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal

from experiments.loggers.logger import Logger, Row, Say, one_line, wandb_name, wandb_row
from plots.runs.columns import column, higher_is_better, sign
from plots.runs.files import read_json
from plots.runs.read import RunRecord, open_run

if TYPE_CHECKING:
    import wandb

BITS = wandb_name("bits")
"""The x-axis of every curve."""

TARGETS = {
    "grad_norm": [1e-1, 3e-2, 1e-2, 1e-3, 1e-4, 1e-6],
    "test_accuracy": [0.5, 0.6, 0.7, 0.8, 0.9],
}


@dataclass
class _Curve:
    """One step size of a run, which is one run of wandb."""

    run: "wandb.Run"
    rows: int = 0
    summary: dict[str, Any] = field(default_factory=dict)


class WandbLogger(Logger):
    """Sends rows to wandb, or keeps them in the run's folder where wandb is offline.

    A run with one step size is one run of wandb with the same id. A grid of step sizes is one run of wandb for each,
    since wandb compares runs. Rows that wandb already has under an id are not sent again; a new run after an edit has
    another id. Raises ValueError if wandb is missing.
    """

    title = "wandb"

    def __init__(
        self,
        project: str = "cd-adam",  # where the runs are shown
        entity: str | None = None,  # whose project; null: your own default
        mode: Literal["online", "offline"] | None = None,  # null: as your wandb says, offline without a login
        init_timeout: float = 15,  # seconds for wandb to begin a run; offline after that
        finish_timeout: float = 30,  # seconds for wandb to take what is left at a run's end
        targets: dict = TARGETS,  # the summary has the bits to each of these levels, as bits_to/grad_norm/1e-1
    ) -> None:
        if getattr(find_spec("wandb"), "origin", None) is None:  # a folder of that name is no package
            raise ValueError("the package wandb is not installed; pip install wandb, or leave logger=wandb out")
        self.project, self.entity, self.targets = project, entity, targets
        self.mode: Any = mode  # from `begin` on: wandb's own
        self._timeouts: dict[str, Any] = {"init_timeout": init_timeout, "finish_timeout": finish_timeout}
        self._curves: list[_Curve] = []

    def begin(self, folder: Path, say: Say) -> None:
        """Begin a run of wandb for each step size, offline if that fails online."""
        import wandb  # takes a second

        sent = folder / "wandb" / "sent"  # there if wandb may already have rows
        if any(folder.glob("wandb/*/*.synced")):
            sent.touch()
        for old in folder.glob("wandb/*run-*"):  # all rows are logged again
            shutil.rmtree(old, ignore_errors=True)
        if not os.access(os.path.expanduser("~"), os.W_OK):  # where its service would keep its log
            os.environ.setdefault("WANDB_CACHE_DIR", str(folder / "wandb"))
        record = open_run(folder)
        self.mode, reason = mode_and_reason(self.mode)
        try:
            self._curves = self._start_runs(record)
        except Exception as error:
            if self.mode != "online":
                raise
            wandb.teardown()  # or the ids would still be in use
            self.mode, reason = "offline", f"it could not begin online ({one_line(error)})"
            self._curves = self._start_runs(record)
        if self.mode == "online":
            sent.parent.mkdir(exist_ok=True)
            sent.touch()
            say(f"wandb: {self._curves[0].run.url}")
        else:  # `wandb sync` would append to the rows that it sent before
            once = f"wandb sync {quote(str(folder))}/wandb/offline-run-*"
            again = "give the command again with logger.mode=online"
            to_send = "" if self.mode == "disabled" else f"; to send it: {again if sent.exists() else once}"
            say(f"wandb: {self.mode}, {reason}{to_send}")

    def log(self, row: Row) -> None:
        """Log x and y in one call, without a step of ours, so that wandb's own step counts rows."""
        curve = self._curves[row["trial"]]
        update_summary(curve.summary, row, self.targets)
        curve.rows += 1
        if curve.rows > curve.run.starting_step:
            curve.run.log(wandb_row(row))

    def finish(self, status: str) -> None:
        """Add the summary and end the runs, all at once. A stopped or failed run is failed in wandb.

        Raises TimeoutError where wandb does not take everything in time.
        """
        if self._curves:
            with ThreadPoolExecutor(len(self._curves)) as pool:
                list(pool.map(lambda curve: self._finish(curve, status), self._curves))

    def _start_runs(self, record: RunRecord) -> list[_Curve]:
        import wandb

        settings = wandb.Settings(silent=True, console="off", finish_timeout_raises=True, **self._timeouts)
        curves = []
        for trial in range(len(record.lrs)):
            curve = wandb.init(
                **self._arguments(record, trial),
                mode=self.mode,
                resume="allow",
                dir=str(record.folder),
                settings=settings,
                reinit="create_new",
            )
            curve.define_metric(BITS)
            curve.define_metric("*", step_metric=BITS)
            curves.append(_Curve(curve))
        return curves

    def _arguments(self, record: RunRecord, trial: int) -> dict[str, Any]:
        """Return the arguments of wandb.init for one curve. An agent of wandb's sweeps brings the id itself."""
        facts, lr, variables = record.environment, record.lrs[trial], os.environ
        is_grid, step = len(record.lrs) > 1, f"-lr{lr:g}"
        name = variables.get("WANDB_NAME")
        usual = f"{record.algorithm}-{record.task}-n{record.workers}-s{record.seed}{step}"
        kind = "tune" if is_grid else "train" if facts.get("ranks", 1) > 1 else "simulate"
        tags = [record.study, (facts.get("commit") or "")[:12], *variables.get("WANDB_TAGS", "").split(",")]
        own = {key: value for key, value in record.config.items() if key not in ("logger", "results_dir", "data_dir")}
        return {
            "project": self.project,
            "entity": self.entity,
            "id": (not is_grid and variables.get("WANDB_RUN_ID")) or ids(record.folder, record.lrs)[trial],
            "name": name + step * is_grid if name else usual,
            "group": variables.get("WANDB_RUN_GROUP") or group(record.study, record.task, record.workers),
            "job_type": kind,
            "tags": [tag[:64] for tag in dict.fromkeys(filter(None, tags))],  # wandb takes no longer ones
            "config": {**own, "cluster": {**own["cluster"], "size": record.workers}, "lr": lr, "environment": facts},
        }

    def _finish(self, curve: _Curve, status: str) -> None:
        try:
            curve.run.summary.update({"status": status, **curve.summary})
        finally:
            curve.run.finish(exit_code=int(status in ("interrupted", "failed")))


def mode_and_reason(wanted: str | None) -> tuple[str, str]:
    """Return wandb's mode, and why it is not online. It never asks to log in.

    wanted: None for the mode of WANDB_MODE or wandb's settings. Raises ValueError if these are wrong.
    """
    import wandb

    mode = wanted or wandb.setup(wandb.Settings(silent=True)).settings.mode
    if mode in ("offline", "dryrun", "disabled"):
        return mode, "as asked"
    is_known = wandb.login(prompt=False, verify=False)
    return ("online", "") if is_known else ("offline", "not logged in (wandb login)")


def bits_to(metric: str, level: float) -> str:
    """The name of the bits to a level: `bits_to/grad_norm/3e-2`, without a dot, which wandb takes for a path."""
    sign, digits, exponent = Decimal(str(level)).normalize().as_tuple()
    return f"bits_to/{metric}/{'-' * sign}{''.join(map(str, digits))}e{exponent}"


def update_summary(summary: dict[str, Any], row: Mapping[str, Any], targets: Mapping[str, Sequence[float]]) -> None:
    """Update a run's summary with its next row: final and best metrics, totals, and the bits to each target.

    targets: levels by metric. The first row at or below a level reaches it; for an accuracy, at or above.
    """
    for name, value in row.items():
        if value is None:
            continue
        for level in targets.get(name, ()):
            if sign(name) * value <= sign(name) * level:
                summary.setdefault(bits_to(name, level), row["bits"])
        if column(name).filled_by == "task":
            summary[f"final/{name}"] = value
            if isfinite(value) and column(name).better:
                better = max if higher_is_better(name) else min
                summary[f"best/{name}"] = better(summary.get(f"best/{name}", value), value)
    summary |= {f"total/{name}": row[name] for name in ("bits", "seconds")}


def group(study: str | None, task: str, workers: int) -> str:
    """The group of runs with the same figure or sweep, task and number of workers."""
    return f"{study or 'runs'}/{task}/n{workers}"


def ids(folder: Path, lr: Sequence[float]) -> list[str]:
    """The ids in wandb of a run's curves, one for each step size.

    If an older run of other code lies beside the folder, the ids end with a digest of this run's code.
    """
    run, code = folder.name, folder / "code.json"
    if code.exists() and any(folder.parent.glob(f"{run}.*")):
        run += "-" + sha256(json.dumps(read_json(code)["modules"], sort_keys=True).encode()).hexdigest()[:8]
    return [f"{run}-{trial}" for trial in range(len(lr))] if len(lr) > 1 else [run]
