"""A run's last two whole states on disk: of each a file for every worker, one for what they share, and one for every
part of the server where it is in parts."""

import io
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from common.errors import RunError
from common.files import atomic, remove_halves, sync
from experiments.cluster.ranks import Ranks
from experiments.run_store import parts

KEPT = 2
"""How many are kept of a run that is not finished: the one before, for where the newest is damaged."""


class Checkpoint:
    """A folder in which `latest` names the newest complete <round>/, with worker-<i>.pt for every worker, of a server
    in K parts server-<i>-of-<K>.pt for each, and, written when those are all there, shared.pt.

    Every rank writes the files of its own workers and its part of the server, so that a run can go on with another
    number of ranks, and with the server in another form. A file is a line with the SHA-256 of all that follows, a
    line that says what it is (run, round and part), and the tensors.
    """

    def __init__(self, folder: Path, ranks: Ranks) -> None:
        self._folder, self._ranks = folder, ranks
        self._whole = -1  # the round of the newest that this process saved or loaded; -1 for none

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
        if (cuts := state.get("cuts")) and (server := cluster.pop("server")):
            written.append(self._write(t, parts.server(self._ranks.rank, len(cuts) - 1), server))
        sync(*written, self._folder / str(t))
        self._ranks.wait()
        if self._ranks.is_first:
            count = len(cuts) - 1 if cuts else 0
            for other in (self._folder / str(t)).glob("server-*.pt"):  # of a checkpoint that was damaged
                if not other.stem.endswith(f"-of-{count}"):
                    other.unlink()
            self._write(t, "shared", {**state, "cluster": cluster, "statistics": None}, durable=True, servers=count)
            with atomic(self._folder / "latest", durable=True) as file:
                file.write_text(f"{t}\n")
            if self._whole < 0:
                sync(self._folder.parent)  # in which the folder of checkpoints may be new
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
        while (t := self._ranks.from_first(next(rounds, -1))) >= 0:
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
        remove_halves(self._folder.rglob(".*.tmp"))
        self._remove_but(set(self._found()[0][:keep]))

    def _found(self) -> tuple[list[int], list[str]]:
        """What `parts.rounds` finds; on other ranks than the first only where nothing is wrong."""
        found, damage = parts.rounds(self._folder)
        return (found, damage) if self._ranks.is_first or not damage else ([], [])

    def _check_shared(self, here: bool) -> None:
        if not here:
            raise RunError(f"{self._folder.parent}: differs from rank 0's; all machines must share results_dir")

    def _remove_but(self, rounds: set[int]) -> None:
        kept = {str(t) for t in rounds}
        for other in self._folder.glob("*/"):
            if other.name not in kept:
                shutil.rmtree(other)

    def _write(self, t: int, part: str, content: dict[str, Any], durable: bool = False, servers: int = 0) -> Path:
        tensors = io.BytesIO()
        torch.save(content, tensors)
        target = self._folder / str(t) / f"{part}.pt"
        with atomic(target, durable) as file:
            parts.write(file, parts.about(self._folder, t, part, servers), tensors.getbuffer())
        return target

    def _read(self, t: int, part: str, device: torch.device) -> dict:
        """What `_write` wrote. Raises ValueError where the file is not that any more."""
        tensors = parts.read(self._folder, t, part)
        return torch.load(io.BytesIO(tensors), map_location=device, weights_only=True)  # which never runs code

    def _read_all(self, t: int, ids: Sequence[int], device: torch.device) -> dict:
        shared = self._read(t, "shared", device)
        own = _stacked([self._read(t, f"worker-{worker}", device) for worker in ids])
        statistics = own.pop("statistics")
        cluster = {**shared["cluster"], "workers": {"ids": torch.tensor(ids), **own}}
        if cuts := shared.get("cuts"):
            names = [parts.server(number, len(cuts) - 1) for number in range(len(cuts) - 1)]
            cluster["server"] = _joined([self._read(t, name, device) for name in names])
        return {**shared, "cluster": cluster, "statistics": statistics}


def _reason(error: Exception) -> str:
    """What is wrong, in a line: torch explains at length, and a file may hold what a terminal would obey."""
    reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    return repr(reason.partition(". ")[0])[1:-1]


def _row(node: Any, worker: int) -> Any:
    """One worker's part of nested dicts of tensors [*T, W, d], in memory of its own: files hold whole storages."""
    if isinstance(node, dict):
        return {name: _row(part, worker) for name, part in node.items()}
    return None if node is None else node.select(-2, worker).clone()


def _joined(spans: list[Any]) -> Any:
    """The nested dicts of tensors [*T, d] of which each has a span of the coordinates, in order."""
    if isinstance(spans[0], dict):
        return {name: _joined([span[name] for span in spans]) for name in spans[0]}
    return None if spans[0] is None else torch.cat(spans, -1)


def _stacked(rows: list[Any]) -> Any:
    """What `_row` took apart."""
    if isinstance(rows[0], dict):
        return {name: _stacked([row[name] for row in rows]) for name in rows[0]}
    return None if rows[0] is None else torch.stack(rows, -2)
