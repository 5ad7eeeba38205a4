"""A run's last whole state on disk: one file for each worker, and one for what they share."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from common.errors import RunError
from common.files import atomic
from experiments.cluster.ranks import Ranks


class Checkpoint:
    """A folder in which `latest` names the complete <round>/, with worker-<i>.pt for every worker and shared.pt.

    Every rank writes the files of its own workers, so that a run can go on with another number of ranks. A new folder
    is named by `latest` once it is complete, and only then is the one before it removed.
    """

    def __init__(self, folder: Path, ranks: Ranks) -> None:
        self._folder, self._ranks = folder, ranks

    def path(self) -> Path | None:
        """The complete one; None where there is none."""
        try:
            return self._folder / (self._folder / "latest").read_text().strip()
        except FileNotFoundError:
            return None

    def found(self) -> bool:
        """Whether there is one, by the first rank's word; all ranks call this, once the run's folder is there.

        Raises RunError on a rank that does not see the folder that the first one sees, and LostContact.
        """
        path = self.path()
        mine = -1 if path is None else int(path.name) if path.name.isdecimal() else 0  # the last for a damaged name
        first = self._ranks.told(mine)
        if not self._folder.parent.is_dir() or (first >= 0 and first != mine):
            raise RunError(
                f"{self._folder.parent}: is not here what it is for rank 0; all machines must share results_dir"
            )
        return first >= 0

    def save(self, state: dict, ids: Sequence[int]) -> None:
        """Replace the checkpoint by a trainer's state; all ranks call this after the same round.

        `ids` are the workers of this process. Raises LostContact.
        """
        target = self._folder / str(state["t"])
        if self._ranks.told(target == self.path()):  # the first rank's word: others may see a change later
            return
        cluster = {**state["cluster"]}
        own = {**cluster.pop("workers"), "statistics": state["statistics"]}
        del own["ids"]
        for position, worker in enumerate(ids):
            _write(target / f"worker-{worker}.pt", _row(own, position))
        if self._ranks.is_first:
            _write(target / "shared.pt", {**state, "cluster": cluster, "statistics": None})
        self._ranks.wait()
        if self._ranks.is_first:
            with atomic(self._folder / "latest") as file:
                file.write_text(f"{target.name}\n")
            for other in self._folder.iterdir():
                if other.is_dir() and other != target:
                    shutil.rmtree(other)

    def load(self, ids: Sequence[int], device: torch.device) -> dict:
        """The state that was saved, with the workers `ids`. Raises whatever a damaged file leads to."""
        path = self.path()
        assert path is not None  # `found` says so
        shared = _read(path / "shared.pt", device)
        rows = [_read(path / f"worker-{worker}.pt", device) for worker in ids]
        own = _stacked(rows)
        statistics = own.pop("statistics")
        workers = {"ids": torch.tensor(ids), **own}
        return {**shared, "cluster": {**shared["cluster"], "workers": workers}, "statistics": statistics}


def _write(target: Path, content: dict[str, Any]) -> None:
    with atomic(target) as file:
        torch.save(content, file)


def _read(file: Path, device: torch.device) -> dict:
    """What `_write` wrote, never running code. Raises ValueError with the file's name where that is not to be had."""
    try:
        return torch.load(file, map_location=device, weights_only=True)
    except Exception as error:  # a damaged file can raise nearly anything, which torch explains at length
        raise ValueError(f"{file.name}: {type(error).__name__}: {str(error).partition('. ')[0]}") from error


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
