"""One run's folder on disk: what lies in it, and how it gets there whole."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path

import torch
import yaml
from filelock import FileLock, Timeout

from common.errors import RunError, is_full
from common.files import atomic, naming
from experiments.cluster.ranks import Ranks
from experiments.config.compose import Config
from experiments.record.checkpoint import Checkpoint
from plots.runs.columns import column
from plots.runs.read import open_run, read_json, read_status


def _by_first_rank(method: Callable[..., None]) -> Callable[..., None]:
    """A method of RunFolder that does nothing on the other ranks."""

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
    code.json         digests of the modules that it computes with
    checkpoint/       the last whole state            summary.json   final and best metrics, bits, seconds

    All but metrics.jsonl are replaced atomically. metrics.jsonl only grows, except that resuming cuts it back to
    what it was at the checkpoint, so that no row stands there twice. Of several ranks the first alone writes, except
    that each saves its own workers; all of them read, so that several machines must share the folder.
    """

    def __init__(self, path: Path, ranks: Ranks | None = None) -> None:
        self.path = path
        self.metrics = path / "metrics.jsonl"
        self._ranks = ranks or Ranks()
        self._checkpoint = Checkpoint(path / "checkpoint", self._ranks)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out. Raises RunError when one is already at this run.

        `experiments.status` holds the lock for a moment to see whether anyone does; that is waited for.
        """
        if not self._ranks.is_first:
            yield
            return
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(self.path / ".lock", timeout=0.5):
                yield
        except Timeout as error:
            raise RunError(f"{self.path}: another process is at this run; wait for it or stop it") from error

    def is_finished(self) -> bool:
        """Whether the run is, as the first rank can tell. Raises RunError where that cannot be told."""
        with self._readable():
            return self._ranks.is_first and (read_status(self.path) or {}).get("status") == "finished"

    @_by_first_rank
    def set_status(self, status: str, **details: object) -> None:
        """Record a status with the time and anything worth knowing about it."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        content = {"status": status, "time": now, **details}
        try:
            self._write_json("status.json", content)
        except OSError as error:
            target = self.path / "status.json"
            if not (is_full(error) and target.exists()):
                raise
            with target.open("r+") as file:  # over the one before, which takes no room
                file.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
                file.truncate()

    @_by_first_rank
    def describe(self, config: Config, keep: Sequence[str] = ()) -> None:
        """Record the configuration; a run known by its identity may since have got another label or colour.

        keep: keys that stay as they were recorded.
        """
        target = self.path / "config.yaml"
        recorded = yaml.safe_load(target.read_text()) if keep and target.exists() else {}
        config = {**config, **{key: recorded[key] for key in keep if key in recorded}}
        text = yaml.safe_dump(config, sort_keys=False, allow_unicode=True)
        if not target.exists() or target.read_text() != text:
            with atomic(target) as file:
                file.write_text(text)

    @_by_first_rank
    def begin(self, code: dict[str, str], environment: dict) -> None:
        """Record the digest of every module that the run computes with, which its id follows from, and what it runs
        on; and drop whatever rows an earlier try without a checkpoint left."""
        self._write_json("code.json", code)
        self._write_json("environment.json", environment)
        self.metrics.write_bytes(b"")

    @_by_first_rank
    def note_resume(self, t: int, environment: dict) -> None:
        """Add to environment.json what the rounds after t run on, where that has changed."""
        recorded = self._read_json("environment.json")
        resumed = recorded.setdefault("resumed", [])
        latest = resumed[-1] if resumed else recorded
        if any(latest.get(key) != value for key, value in environment.items()):
            resumed.append({"round": t, **environment})
            self._write_json("environment.json", recorded)

    @_by_first_rank
    def append(self, rows: list[dict]) -> None:
        """Add rows to metrics.jsonl."""
        with naming(self.metrics), self.metrics.open("a") as file:
            file.write("".join(json.dumps(row) + "\n" for row in rows))

    def snapshot(self, state: dict) -> dict:
        """A trainer's state together with how many bytes of metrics.jsonl belong to it."""
        size = self.metrics.stat().st_size if self._ranks.is_first else 0
        return {**state, "run": self.path.name, "metrics_size": size}

    def save(self, snapshot: dict, ids: Sequence[int]) -> None:
        """Replace the checkpoint; every rank gives the workers `ids` that it has. Raises LostContact."""
        self._checkpoint.save(snapshot, ids)

    def resume(self, ids: Sequence[int], device: torch.device) -> dict | None:
        """The state of the checkpoint, with metrics.jsonl cut back to it; None where there is none."""
        if not self._checkpoint.found():
            return None
        try:
            saved = self._checkpoint.load(ids, device)
            size = saved["metrics_size"]
            if saved["run"] != self.path.name:
                raise ValueError(f"it is of another configuration, run {saved['run']}")
            if self._ranks.is_first:
                written = self.metrics.read_bytes()
                if len(written) < size or (size and written[size - 1 : size] != b"\n"):
                    raise ValueError("metrics.jsonl is not what it was then")
                os.truncate(self.metrics, size)
        except Exception as error:
            raise self.unusable(error) from error
        return saved

    def unusable(self, error: Exception) -> RunError:
        """What to raise where the checkpoint is not that of this run."""
        return RunError(f"{self._checkpoint.path()}: cannot be resumed ({error!r}); delete {self.path} to begin anew")

    @_by_first_rank
    def finish(self, summary: dict) -> None:
        """Record the summary, then that the run is finished."""
        self._write_json("summary.json", summary)
        self.set_status("finished")

    def summary(self) -> dict:
        """The summary of a finished run."""
        return self._read_json("summary.json")

    def round(self) -> int:
        """The round of the last row so far; 0 where there is none."""
        try:
            return open_run(self.path).round
        except ValueError:
            return 0

    def outcome(self) -> list[str]:
        """In a line for each step size of a finished run: what was last measured of the model, and what it cost."""
        lines = []
        for row in (trial["final"] for trial in self.summary()["trials"]):
            measured = ", ".join(f"{name} {row[name]:.4g}" for name in row if column(name).filled_by == "task")
            lines.append(f"lr {row['lr']:g}: {measured} after {row['round']} rounds and {row['bits']} bits")
        return lines

    def rows(self) -> list[dict]:
        """Every row of metrics.jsonl."""
        return [json.loads(line) for line in self.metrics.read_text().splitlines()]

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Say what to do where a file is damaged."""
        try:
            yield
        except ValueError as error:
            raise RunError(f"{error}; delete {self.path} to begin anew") from error

    def _read_json(self, name: str) -> dict:
        with self._readable():
            return read_json(self.path / name)

    def _write_json(self, name: str, content: dict) -> None:
        with atomic(self.path / name) as file:
            file.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
