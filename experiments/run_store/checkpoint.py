"""The checkpoints of a run."""

import hashlib
import io
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch

from algorithms.core.algorithm import leaves, map_tensors
from common.errors import RunError
from common.files import atomic_write, remove_partial_files, sync
from experiments.cluster.ranks import Ranks
from plots.runs.checksums import id_of

KEPT = 2
"""Checkpoints of an unfinished run. The older one serves if the newest is damaged."""


class Checkpoint:
    """Saved states of a run, each in a folder <round>/.

    It has worker-<i>.pt for every worker, and server-<i>-of-<K>.pt for each of K parts of a server. shared.pt is
    written last, and a folder without it does not count. Rank 0 writes what the other ranks send it, and reads for
    them, so only its machine needs the folder. A run can resume with another number of ranks, or with its server in
    another form.
    """

    def __init__(self, folder: Path, ranks: Ranks) -> None:
        self._folder, self._ranks = folder, ranks
        self._newest = -1  # the round of the newest that this process saved or loaded; -1 for none

    def save(self, state: dict, ids: Sequence[int]) -> None:
        """Save a trainer's state, and keep the checkpoint before it. All ranks call this after the same round.

        ids: the workers of this process. Raises LostContact, and FileNotFoundError if the run's folder is gone.
        """
        t = state["t"]
        if t == self._newest:
            return
        place = self._folder / str(t)
        cluster = {**state["cluster"]}
        own = {**cluster.pop("workers"), "statistics": state["statistics"]}
        del own["ids"]
        parts: dict[str, Callable[[], Any]] = {
            f"worker-{worker}": partial(_row, own, i, len(ids)) for i, worker in enumerate(ids)
        }
        if (cuts := state.get("cuts")) and (server := cluster.pop("server")):
            parts[f"server-{self._ranks.rank}-of-{len(cuts) - 1}"] = lambda: server
        if self._ranks.is_first:
            for folder in (self._folder, place):
                folder.mkdir(exist_ok=True)  # without parents: a removed run does not come back
        written = []
        for name, tensors in self._ranks.collect(parts, lambda name: _bytes(parts[name]())):
            written.append(_write(place / f"{name}.pt", tensors))
        if self._ranks.is_first:
            sync(*written, place)
            sync(self._folder, self._folder.parent)
            _write(place / "shared.pt", _bytes({**state, "cluster": cluster, "statistics": None}), durable=True)
            self._remove_others({t, self._newest})
        self._newest = t

    def load(self, own: dict, ids: Sequence[int], accept: Callable[[dict], object]) -> dict | None:
        """Load the newest checkpoint that is complete on every rank, with the workers `ids`; None if there is none.

        own: the trainer's current state. Tensors of workers and replica must have its shapes and dtypes.
        accept: raises an error for a state that cannot be this run's. All ranks call this, once the run's folder is
        there. Damage is reported on stderr. Raises RunError if no state is whole, and LostContact.
        """
        damage: list[str] = []
        newest_first = iter(rounds(self._folder))
        while (t := self._ranks.from_first(next(newest_first, -1))) >= 0:
            state = None
            try:
                state = self._read(self._folder / str(t), ids, own)
                accept(state)
            except (MemoryError, torch.OutOfMemoryError):
                raise  # the files may be whole
            except Exception as error:  # damaged files can raise nearly anything
                damage.append(f"{self._folder / str(t)}: {_reason(error)}")
                state = None
            if not self._ranks.any(state is None):
                self._newest = t
                rank = "" if self._ranks.is_first else f"rank {self._ranks.rank}: "
                for what in damage:
                    print(f"{rank}{what}; the checkpoint of round {t} is taken instead", file=sys.stderr, flush=True)
                return state
        if self._ranks.any(bool(damage)):
            what = "; ".join(damage) or "other ranks read damaged files, and report them"
            raise RunError(f"{self._folder}: cannot be resumed ({what}); delete {self._folder.parent} to begin anew")
        return None

    def tidy(self, keep: int = KEPT) -> None:
        """Remove leftovers of killed processes and all but the newest `keep`. The first rank calls this."""
        remove_partial_files(self._folder.rglob(".*.tmp"))
        self._remove_others(set(rounds(self._folder)[:keep]))

    def _read(self, place: Path, ids: Sequence[int], own: dict) -> dict:
        """Read a state with the workers `ids` from a folder. All ranks call this. Raises ValueError for damage."""

        def read(*names: str) -> list[dict]:
            files = self._ranks.fetch([f"{name}.pt" for name in names], lambda name: (place / name).read_bytes())
            device, files = own["statistics"].device, zip(names, files, strict=True)
            return [_load(_tensors(place / f"{name}.pt", content), device) for name, content in files]

        [shared] = read("shared")
        count = len(shared.get("cuts") or [0]) - 1
        parts = read(*(f"worker-{worker}" for worker in ids), *(f"server-{i}-of-{count}" for i in range(count)))
        wanted = {**own["cluster"]["workers"], "statistics": own["statistics"]}
        del wanted["ids"]
        _check_form("shared.pt", shared["cluster"]["replica"], own["cluster"]["replica"])
        for worker, part in zip(ids, parts, strict=False):
            _check_form(f"worker-{worker}.pt", part, _row(wanted, 0, 1))
        statistics = torch.stack([part.pop("statistics") for part in parts[: len(ids)]], -2)
        groups = own["cluster"]["workers"]["ids"]
        joined = map_tensors(parts[: len(ids) : len(ids) // len(groups)], partial(torch.stack, dim=-2))
        cluster = {**shared["cluster"], "workers": {"ids": groups, **joined}}
        if count:
            cluster["server"] = map_tensors(parts[len(ids) :], partial(torch.cat, dim=-1))
        return {**shared, "cluster": cluster, "statistics": statistics}

    def _remove_others(self, rounds: set[int]) -> None:
        for folder in self._folder.glob("*/"):
            if re.fullmatch("[0-9]{1,18}", folder.name) and int(folder.name) not in rounds:
                for file in folder.glob("*.pt"):
                    if re.fullmatch(r"shared|worker-\d+|server-\d+-of-\d+", file.stem):
                        file.unlink()
                with suppress(OSError):  # somebody else's files are in it
                    folder.rmdir()


def rounds(folder: Path) -> list[int]:
    """The rounds of the complete checkpoints in a folder, the newest first."""
    names = (file.parent.name for file in folder.glob("*/shared.pt"))
    return sorted((int(name) for name in names if re.fullmatch("[0-9]{1,18}", name)), reverse=True)


def verify(folder: Path, workers: int) -> None:
    """Raise ValueError unless every complete checkpoint in a folder is undamaged, with all n workers and server
    parts."""
    for place in (folder / str(t) for t in rounds(folder)):
        try:
            shared = _tensors(place / "shared.pt", (place / "shared.pt").read_bytes())
            count = len(_load(shared, torch.device("cpu")).get("cuts") or [0]) - 1
            for part in (*(f"worker-{i}" for i in range(workers)), *(f"server-{i}-of-{count}" for i in range(count))):
                _tensors(place / f"{part}.pt", (place / f"{part}.pt").read_bytes())
        except FileNotFoundError as error:
            raise ValueError(f"{error.filename}: missing") from error
        except Exception as error:  # a damaged file can raise nearly anything
            raise ValueError(f"{place}: {_reason(error)}") from error


def _write(file: Path, tensors: bytes | memoryview, durable: bool = False) -> Path:
    """Write tensors after a line with their SHA-256, which covers the file's run, round and name, too."""
    with atomic_write(file, durable) as temporary, temporary.open("wb") as stream:
        stream.write(_digest(file, tensors))
        stream.write(tensors)
    return file


def _tensors(file: Path, content: bytes | memoryview) -> memoryview:
    """The tensors in a file's content. Raises ValueError if the checksum does not match."""
    end = bytes(content[:100]).find(b"\n") + 1
    tensors = memoryview(content)[end:]
    if bytes(content[:end]) != _digest(file, tensors):
        raise ValueError(f"{file.name}: damaged: the checksum does not match")
    return tensors


def _bytes(content: dict[str, Any]) -> memoryview:
    tensors = io.BytesIO()
    torch.save(content, tensors)
    return tensors.getbuffer()


def _load(tensors: memoryview, device: torch.device) -> dict:
    return torch.load(io.BytesIO(tensors), map_location=device, weights_only=True)  # which never runs code


def _digest(file: Path, tensors: bytes | memoryview) -> bytes:
    digest = hashlib.sha256(f"{id_of(file.parents[2])} {file.parent.name} {file.name}\n".encode())
    digest.update(tensors)
    return f"sha256 {digest.hexdigest()}\n".encode()


def _check_form(file: str, saved: dict, own: dict) -> None:
    """Raise ValueError unless a saved state has this run's tensors. Others may take any amount of memory."""
    forms = [
        {name: leaf is not None and (leaf.dtype, leaf.layout, leaf.shape) for name, leaf in leaves(state)}
        for state in (saved, own)
    ]
    if odd := [str(name) for name in {**forms[0], **forms[1]} if forms[0].get(name) != forms[1].get(name)]:
        raise ValueError(f"{file}: {', '.join(odd)}: other tensors than this run has")


def _reason(error: Exception) -> str:
    """Return an error in a line: torch explains at length, and a file may hold control codes for a terminal."""
    reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    return repr(reason.partition(". ")[0])[1:-1]


def _row(node: dict, worker: int, workers: int) -> dict:
    """Copy one worker's part of nested dicts of tensors [*T, W, d], because files hold whole storages.

    A tensor [*T, G, d] has a row for each group; the worker's part is the row of its group.
    """
    return map_tensors([node], lambda parts: parts[0].select(-2, worker * parts[0].shape[-2] // workers).clone())
