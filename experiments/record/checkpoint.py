"""A run's last two whole states on disk: of each one file for every worker, and one for what they share."""

import hashlib
import io
import json
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from common.errors import RunError
from common.files import atomic, sync
from experiments.cluster.ranks import Ranks

KEPT = 2
"""How many are kept of a run that is not finished: the one before, for where the newest is damaged."""


class Checkpoint:
    """A folder in which `latest` names the newest complete <round>/, with worker-<i>.pt for every worker and, written
    when those are all there, shared.pt.

    Every rank writes the files of its own workers, so that a run can go on with another number of ranks. A file is a
    line with the SHA-256 of all that follows, a line that says what it is (run, round and part), and the tensors.
    """

    def __init__(self, folder: Path, ranks: Ranks, durable: bool = True) -> None:
        self._folder, self._ranks, self._durable = folder, ranks, durable
        self._whole = -1  # the round of the newest that this process saved or loaded; -1 for none

    def round(self) -> int | None:
        """The round of the newest, as `latest` names it; None where it does not."""
        try:
            return _number((self._folder / "latest").read_bytes().strip().decode("ascii", "replace"))
        except FileNotFoundError:
            return None

    def save(self, state: dict, ids: Sequence[int]) -> None:
        """Add a trainer's state, and keep the checkpoint before it; all ranks call this after the same round.

        `ids` are the workers of this process. Raises LostContact, and FileNotFoundError where the run's folder is
        gone.
        """
        t = state["t"]
        if t == self._whole:
            return
        for folder in (self._folder, self._folder / str(t)):
            folder.mkdir(exist_ok=True)  # without parents: what was removed meanwhile does not come back
        cluster = {**state["cluster"]}
        own = {**cluster.pop("workers"), "statistics": state["statistics"]}
        del own["ids"]
        written = [self._write(t, f"worker-{worker}", _row(own, i)) for i, worker in enumerate(ids)]
        if self._durable:
            sync(*written, self._folder / str(t))
        self._ranks.wait()
        if self._ranks.is_first:
            self._write(t, "shared", {**state, "cluster": cluster, "statistics": None}, self._durable)
            with atomic(self._folder / "latest", self._durable) as file:
                file.write_text(f"{t}\n")
            self._remove_but({t, self._whole})
        self._whole = t

    def load(
        self, ids: Sequence[int], device: torch.device, accept: Callable[[dict], object] = lambda state: None
    ) -> dict | None:
        """The newest state that is whole on every rank, with the workers `ids`; None where none was ever saved.

        accept: raises an error for a state that cannot be this run's. All ranks call this, once the run's folder is
        there. What is damaged is said on stderr. Raises RunError where there is no whole one, or on a rank that does
        not see the folder that the first one sees, and LostContact.
        """
        found, damage = self._found()
        rounds = iter(found)
        while (t := self._ranks.told(next(rounds, -1))) >= 0:
            self._check_shared((self._folder / str(t) / "shared.pt").is_file())
            state = None
            try:
                state = self._read_all(t, ids, device)
                accept(state)
            except (MemoryError, torch.OutOfMemoryError):
                raise  # says nothing of the files
            except Exception as error:  # what they may hold instead can raise nearly anything
                damage.append(f"{self._folder / str(t)}: {_reason(error)}")
                state = None
            if not self._ranks.any(state is None):
                self._whole = t
                rank = "" if self._ranks.is_first else f"rank {self._ranks.rank}: "
                for what in damage:
                    print(f"{rank}{what}; the checkpoint of round {t} is taken instead", file=sys.stderr, flush=True)
                return state
        self._check_shared(self._folder.parent.is_dir())
        if self._ranks.any(bool(damage)):
            what = "; ".join(damage) or "what other ranks read is damaged, as they say"
            raise RunError(f"{self._folder}: cannot be resumed ({what}); delete {self._folder.parent} to begin anew")
        return None

    def tidy(self, keep: int = KEPT) -> None:
        """Remove what killed processes left here and all but the newest `keep`; the first rank calls this."""
        for temporary in self._folder.rglob(".*.tmp"):
            temporary.unlink(missing_ok=True)
        self._remove_but(set(self._found()[0][:keep]))

    def _found(self) -> tuple[list[int], list[str]]:
        """The rounds of the complete ones, in the order in which they are tried, and what is wrong with `latest`."""
        numbers = (_number(file.parent.name) for file in self._folder.glob("*/shared.pt"))
        complete = sorted((t for t in numbers if t is not None), reverse=True)
        newest = self.round()
        if newest in complete:
            return [t for t in complete if t <= newest], []
        if not (self._ranks.is_first and (complete or (self._folder / "latest").exists())):
            return [], []
        named = "no round" if newest is None else f"round {newest}, which is not there"
        return complete, [f"{self._folder / 'latest'}: names {named}"]

    def _check_shared(self, here: bool) -> None:
        if not here:
            raise RunError(
                f"{self._folder.parent}: is not here what it is for rank 0; all machines must share results_dir"
            )

    def _remove_but(self, rounds: set[int]) -> None:
        kept = {str(t) for t in rounds}
        for other in self._folder.glob("*/"):
            if other.name not in kept:
                shutil.rmtree(other)

    def _about(self, t: int, part: str) -> dict[str, Any]:
        return {"run": self._folder.parent.name, "round": t, "part": part}

    def _write(self, t: int, part: str, content: dict[str, Any], durable: bool = False) -> Path:
        tensors = io.BytesIO()
        torch.save(content, tensors)
        about = json.dumps(self._about(t, part)).encode() + b"\n"
        target = self._folder / str(t) / f"{part}.pt"
        with atomic(target, durable) as file, file.open("wb") as stream:
            stream.write(_digest(about, tensors.getbuffer()))
            stream.write(about)
            stream.write(tensors.getbuffer())
        return target

    def _read(self, t: int, part: str, device: torch.device) -> dict:
        """What `_write` wrote. Raises ValueError where the file is not that any more."""
        file = self._folder / str(t) / f"{part}.pt"
        with file.open("rb") as stream:
            digest, about, tensors = stream.readline(), stream.readline(), stream.read()
        if digest.startswith(b"PK"):  # a zip, as torch leaves it
            raise ValueError(f"{file.name}: of an older version, without a checksum")
        if digest != _digest(about, tensors):
            raise ValueError(f"{file.name}: damaged, its checksum is another")
        found, wanted = json.loads(about), self._about(t, part)
        if found["run"] != wanted["run"]:
            raise ValueError(f"{file.name}: of another configuration, run {found['run']}")
        if found != wanted:
            raise ValueError(f"{file.name}: holds {found['part']} of round {found['round']}")
        return torch.load(io.BytesIO(tensors), map_location=device, weights_only=True)  # which never runs code

    def _read_all(self, t: int, ids: Sequence[int], device: torch.device) -> dict:
        shared = self._read(t, "shared", device)
        if shared["t"] != t:
            raise ValueError(f"shared.pt: its state is that of round {shared['t']}")
        own = _stacked([self._read(t, f"worker-{worker}", device) for worker in ids])
        statistics = own.pop("statistics")
        workers = {"ids": torch.tensor(ids), **own}
        return {**shared, "cluster": {**shared["cluster"], "workers": workers}, "statistics": statistics}


def _number(name: str) -> int | None:
    """The round that a folder's name is; None where it is none."""
    return int(name) if re.fullmatch("0|[1-9][0-9]{,17}", name) else None


def _reason(error: Exception) -> str:
    """What is wrong, in a line: torch explains at length, and a file may hold what a terminal would obey."""
    reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    return repr(reason.partition(". ")[0])[1:-1]


def _digest(*parts: bytes | memoryview) -> bytes:
    """A file's first line."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return f"sha256 {digest.hexdigest()}\n".encode()


def _row(node: Any, worker: int) -> Any:
    """One worker's part of nested dicts of tensors [*T, W, d], in memory of its own: files hold whole storages."""
    if isinstance(node, dict):
        return {name: _row(part, worker) for name, part in node.items()}
    return None if node is None else node.select(-2, worker).clone()


def _stacked(rows: list[Any]) -> Any:
    """What `_row` took apart."""
    if isinstance(rows[0], dict):
        return {name: _stacked([row[name] for row in rows]) for name in rows[0]}
    return None if rows[0] is None else torch.stack(rows, -2)
