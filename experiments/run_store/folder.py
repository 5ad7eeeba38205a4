"""One run's folder on disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from functools import wraps
from itertools import count
from pathlib import Path

import yaml

from common.errors import RunError, UsageError
from common.files import atomic_write, hold_lock, name_in_errors, refuse_links, remove_partial_files, sync
from experiments.cluster.ranks import Ranks
from experiments.config import identity
from experiments.config.compose import Config
from experiments.config.schema import RunConfig
from experiments.run_store.checkpoint import Checkpoint, rounds
from experiments.run_store.code import digests, find_edits
from plots.runs.checksums import as_json, as_row, as_yaml, id_of, last_checksum
from plots.runs.columns import column
from plots.runs.files import FILES, METRICS, STATUS, read_json, read_rows, read_yaml
from plots.runs.read import RunRecord, open_run


def _on_first_rank(method: Callable[..., None]) -> Callable[..., None]:
    """Decorate a method of RunFolder to do nothing on the other ranks."""

    @wraps(method)
    def write(self: RunFolder, *arguments: object, **details: object) -> None:
        if self._ranks.is_first:
            method(self, *arguments, **details)

    return write


class RunFolder:
    """results/<task>/<algorithm>/<id>/

    config.yaml       the resolved configuration      metrics.jsonl  one row per evaluation and trial
    status.json       running | interrupted | failed | finished
    environment.json  commit, versions, hardware, data
    code.json         commit, and digests of the modules that it computes with
    checkpoint/       the last two whole states       summary.json   final and best metrics, bits, seconds

    All but metrics.jsonl are replaced atomically. metrics.jsonl only grows, but resuming cuts it back to the
    checkpoint, so that no row is there twice. Checksums (`plots.runs.checksums`) show later changes, and status.json
    has the least size of metrics.jsonl. Only rank 0 reads and writes, so only its machine needs the folder. Files
    survive a power cut, and rows do once a checkpoint relies on them.
    """

    def __init__(self, path: Path, ranks: Ranks | None = None, stale: str = "rerun") -> None:
        self.path = path
        self.aside: Path | None = None  # where `lock` moved a run of other code
        self.edits: list[str] = []  # of the code since then
        self._stale = stale
        self.metrics = path / METRICS
        self._ranks = ranks or Ranks()
        self._run = id_of(path)
        self._last: int | None = None  # the checksum of the last row; None before this process has written
        self._checkpoint = Checkpoint(path / "checkpoint", self._ranks)

    @classmethod
    def of_run(cls, run: RunConfig, ranks: Ranks | None = None) -> RunFolder:
        """Return the folder of a run."""
        return cls(identity.folder(run), ranks, run.stale)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes out. A run that other code began or finished is put aside, unless `stale` keeps it.

        Raises RunError if another process is already at this run.
        """
        with ExitStack() as locks:
            # Twice if the folder is put aside, because others may wait for the first lock too.
            while self._ranks.is_first:
                self.path.mkdir(parents=True, exist_ok=True)
                refuse_links(self.path, "checkpoint/*", "checkpoint/*/*")
                locks.enter_context(hold_lock(self.path / ".lock", "run", "results_dir", patience=0.5))
                run = self._read_record()
                edits = self._edits(run) if run else []
                if not edits:
                    break
                self.edits = edits
                names = (self.path.with_name(f"{self.path.name}.{number}") for number in count(1))
                self.aside = next(name for name in names if not name.exists())
                self.path.rename(self.aside)
            yield

    def is_writable(self) -> bool:
        """Whether this user may change it; another user may read and show it."""
        return os.access(self.path, os.W_OK)

    def is_finished(self) -> bool:
        """Whether today's code finished the run. Only the first rank can tell; it verifies all but the checkpoint.

        Raises RunError if something is damaged.
        """
        run = self._read_record()
        return run is not None and run.is_finished and not self._edits(run)

    def is_over(self) -> bool:
        """Like `is_finished`, and true of a diverged run too. Raises the errors of `is_finished`."""
        run = self._read_record()
        return run is not None and run.is_over and not self._edits(run)

    def began_with_data(self, data_sha256: object) -> bool:
        """Whether the run began with these data. Only the first rank can tell."""
        return self._ranks.is_first and self._read_json("environment.json").get("data_sha256") == data_sha256

    def resume_round(self) -> int:
        """Return the round to resume training from, 0 after an edit of its code. Raises as `is_finished` does."""
        run = self._read_record()
        return 0 if run is None or self._edits(run) else max(rounds(self.path / "checkpoint"), default=0)

    def _edits(self, run: RunRecord) -> list[str]:
        return [] if self._stale == "keep" else find_edits(run.code)

    @_on_first_rank
    def set_status(self, status: str, **details: object) -> None:
        """Record a status with the time and details."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._write_status({"status": status, "time": now, **details})

    @_on_first_rank
    def write_config(self, config: Config, only: Sequence[str] = ()) -> None:
        """Record the configuration. Raises UsageError if it could not be read again.

        only: replace these keys alone. A finished run gets new labels and colours this way.
        """
        target = self.path / "config.yaml"
        with self._explain_damage():
            run = open_run(self.path) if only else None
        config = {**run.config, **{key: config[key] for key in only}} if run else config
        content = as_yaml(yaml.safe_dump(config, sort_keys=False, allow_unicode=True), self._run)
        try:
            read_yaml(content, target)
        except ValueError as error:
            raise UsageError(f"{error}; it needs shorter lists, texts or fewer levels") from error
        if not target.exists() or target.read_bytes() != content:
            self._write(target.name, content)

    @_on_first_rank
    def begin(self, packages: Sequence[str], environment: dict) -> None:
        """Record the loaded code and the environment, and drop rows that an earlier try without a checkpoint left.
        `packages` are the user's."""
        revision = {name: environment[name] for name in ("commit", "uncommitted_changes")}
        self._write_json("code.json", {**revision, "modules": digests(packages)})
        self._write_json("environment.json", environment)
        self.metrics.touch()
        self._cut(0)

    @_on_first_rank
    def note_resume(self, t: int, environment: dict) -> None:
        """Add the environment of the rounds after t to environment.json, if it differs from the one before."""
        recorded = self._read_json("environment.json")
        resumed = recorded.get("resumed", [])
        before = resumed[-1] if resumed else recorded
        if any(before.get(name) != fact for name, fact in environment.items()):
            self._write_json("environment.json", {**recorded, "resumed": [*resumed, {"round": t, **environment}]})

    @_on_first_rank
    def append(self, rows: list[dict]) -> None:
        """Add rows to metrics.jsonl, all of them or none."""
        lines, last = [], last_checksum(self.metrics) if self._last is None else self._last
        for row in rows:
            line, last = as_row(row, last)
            lines.append(line)
        size = self.metrics.stat().st_size
        try:
            with name_in_errors(self.metrics), self.metrics.open("ab") as file:
                file.write(b"".join(lines))
        except OSError:
            with suppress(OSError):
                os.truncate(self.metrics, size)
            raise
        self._last = last

    def snapshot(self, state: dict) -> dict:
        """Return a trainer's state with the size in bytes of metrics.jsonl that belongs to it."""
        return {**state, "metrics_size": self.metrics.stat().st_size if self._ranks.is_first else 0}

    def save(self, snapshot: dict, ids: Sequence[int]) -> None:
        """Save a checkpoint; every rank gives its workers `ids`.

        Raises LostContact, and RunError if the folder is gone.
        """
        self.check_exists()
        if self._ranks.is_first:
            sync(self.metrics, self.path)
        self._checkpoint.save(snapshot, ids)

    @_on_first_rank
    def check_exists(self) -> None:
        """Raise RunError if the folder was removed while its run trains. It is not created again."""
        if not self.path.is_dir():
            raise RunError(f"{self.path}: the folder was removed; the same command begins anew")

    def resume(self, own: dict, ids: Sequence[int], restore: Callable[[dict], object]) -> bool:
        """Give `restore` the state of the newest whole checkpoint, and cut metrics.jsonl back to it.

        own: the trainer's current state. restore: takes the saved state; raises an error for one that cannot be this
        run's. Returns whether there is a checkpoint. Raises RunError if none can be resumed, and LostContact.
        """

        def accept(state: dict) -> None:
            if self._ranks.is_first and (size := self.metrics.stat().st_size) < state["metrics_size"]:
                raise ValueError(f"{self.metrics.name}: is shorter than it was then, {size} bytes")
            restore(state)

        state = self._checkpoint.load(own, ids, accept)
        if state and self._ranks.is_first:
            self._cut(state["metrics_size"])
        return state is not None

    @_on_first_rank
    def tidy(self, **keep: int) -> None:
        """Remove leftovers of killed processes: halves of files, and all checkpoints but the newest two or `keep`."""
        remove_partial_files(self.path.glob(".*.tmp"))
        self._checkpoint.tidy(**keep)

    @_on_first_rank
    def finish(self, packages: Sequence[str], summary: dict) -> None:
        """Record the summary, code that was loaded since the beginning, and then that the run is finished."""
        recorded = self._read_json("code.json")
        modules = {**digests(packages), **recorded["modules"]}
        if modules != recorded["modules"]:
            self._write_json("code.json", {**recorded, "modules": modules})
        self._write_json("summary.json", summary)
        self.set_status("finished")

    def round(self) -> int:
        """Return the round of the last row so far, 0 without one."""
        with suppress(OSError, ValueError):
            return open_run(self.path).round
        return 0

    def outcome(self) -> list[str]:
        """Return a line for each step size of a finished run: the last measurements of the model, and its cost."""
        lines = []
        for row in (trial["final"] for trial in self._read_json("summary.json")["trials"]):
            measured = ", ".join(f"{name} {row[name]:.4g}" for name in row if column(name).filled_by == "task")
            lines.append(f"lr {row['lr']:g}: {measured} after {row['round']} rounds and {row['bits']} bits")
        return lines

    def rows(self) -> Iterator[dict]:
        """Yield every row of metrics.jsonl. Raises RunError if one is damaged."""
        with self._explain_damage():
            yield from read_rows(self.path)

    def _cut(self, size: int) -> None:
        """Keep the first `size` bytes of metrics.jsonl. status.json is rewritten first, so that the folder is whole
        for readers in between, and after a kill in between."""
        self._last = last_checksum(self.metrics, size)
        if (self.path / STATUS).exists():
            self._write_status(self._read_json(STATUS), size)
        os.truncate(self.metrics, size)

    def _read_record(self) -> RunRecord | None:
        """Read the record, verified; None on the other ranks and if the run was never begun."""
        if not self._ranks.is_first or not any((self.path / name).exists() for name in FILES):
            return None
        with self._explain_damage():
            return open_run(self.path)

    @contextmanager
    def _explain_damage(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            what = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else error
            raise RunError(f"{what}; delete {self.path} to begin anew, or put back its files") from error

    def _read_json(self, name: str) -> dict:
        with self._explain_damage():
            return read_json(self.path / name)

    def _write_json(self, name: str, content: dict) -> None:
        self._write(name, as_json(content, self._run))

    def _write_status(self, content: dict, size: int | None = None) -> None:
        """Write status.json, with the first `size` bytes of rows or all. If no file can be added, overwrite the last
        one in place."""
        content = {**content, "metrics_size": self.metrics.stat().st_size if size is None else size}
        try:
            self._write_json(STATUS, content)
        except OSError:
            if not (self.path / STATUS).exists():
                raise
            with (self.path / STATUS).open("r+b") as file:
                file.write(as_json(content, self._run))
                file.truncate()

    def _write(self, name: str, content: bytes) -> None:
        with atomic_write(self.path / name, durable=True) as file:
            file.write_bytes(content)
