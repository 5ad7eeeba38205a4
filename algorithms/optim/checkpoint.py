"""One checkpoint of torch.distributed.checkpoint for all ranks, to load on the same or another number of ranks.

    dcp.save({"model": model.state_dict(), "optimizer": distributed_state(optimizer)}, checkpoint_id=folder)

    dcp.load({"model": model.state_dict()}, checkpoint_id=folder)
    load_distributed(optimizer, folder)

Common state is saved once. Each rank saves its worker and server. Every part has a digest.
"""

import json
from os import PathLike
from typing import Any
from warnings import catch_warnings, filterwarnings

import torch
from torch import Tensor
from torch.distributed.checkpoint import FileSystemReader, load  # pyright: ignore[reportPrivateImportUsage]
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

from ..core.algorithm import leaves, nest_leaves
from .optimizer import CompressedOptimizer
from .optimizer_state import round_state, state_digest

_ALIKE = ("t", "skipped", "meter")  # equal on all ranks


def distributed_state(optimizer: CompressedOptimizer) -> dict[str, Tensor]:
    """Return this rank's tensors for `dcp.save`, by dotted names. Raises TypeError for another optimizer.

    Keys of your own in parameter groups are saved if JSON can hold their values.
    """
    if not isinstance(optimizer, CompressedOptimizer):
        raise TypeError(
            f"{type(optimizer).__name__}: distributed_state takes a CompressedOptimizer; "
            "save the state_dict() of every rank in a file of its own"
        )
    saved = optimizer.state_dict()
    state = round_state(saved)
    of = {name: value for name, value in state["of"].items() if name != "rank"}
    groups = [{name: value for name, value in group.items() if _fits_json(value)} for group in saved["param_groups"]]
    alike = {name: state[name] for name in _ALIKE} | {"param_groups": groups}
    text = json.dumps({"of": of, **alike}, default=float)
    about = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)
    parts = {"alike": {"about": about, **state["replica"]}, f"worker-{optimizer.rank}": state["worker"]}
    if state["server"] is not None:
        parts[f"server-{optimizer.rank}"] = state["server"]
    flat = {}
    for part, node in parts.items():
        found = {name: leaf for name, leaf in leaves(node) if isinstance(leaf, Tensor)}
        flat |= {f"{part}.{name}": leaf for name, leaf in found.items()} | {f"{part}.digest": _digest(found)}
    return flat


def _fits_json(value: Any) -> bool:
    try:
        json.dumps(value, default=float)
    except (TypeError, ValueError, RuntimeError):
        return False
    return True


def load_distributed(optimizer: CompressedOptimizer, folder: str | PathLike[str], key: str = "optimizer") -> None:
    """Load a checkpoint that has `distributed_state` of all ranks under `key`. Call it on every rank.

    The same number of ranks resumes bit for bit. Another number gets the parameters, moments and the server's state.
    Every worker then starts from the mean of the saved workers' memories, because the server relies only on it. With
    error feedback it is mean_i δ_i, which is still to be sent. In a Markov sequence it is mean_i ĝ_i = ĝ.

    Raises ValueError for a missing or damaged checkpoint, and wherever `load_state_dict` does. With another number of
    ranks it also rejects methods whose workers keep their own moments, or memories whose mean does not suffice.
    Then nothing has changed.
    """
    saved = _Saved(folder, key)
    alike = saved.part("alike")
    about = json.loads(bytes(alike.pop("about").tolist()))
    before, own = about["of"]["workers"], round_state(optimizer.state_dict())
    if before == optimizer.workers:
        worker = saved.part(f"worker-{optimizer.rank}")
    else:
        _check_mean(optimizer, own["worker"], before)
        workers = [saved.part(f"worker-{rank}") for rank in range(before)]
        worker = dict(leaves(own["worker"]))
        for name, leaf in workers[0].items():
            if leaf.is_floating_point():  # leaves out the worker's number
                worker[name] = torch.stack([one[name] for one in workers]).mean(0)
        about["of"]["workers"] = optimizer.workers
    found = {"worker": worker, "replica": alike, "server": _server(optimizer, saved, before)}
    state = {
        "of": {**about["of"], "rank": optimizer.rank},
        **{name: about[name] for name in _ALIKE},
        **{name: nest_leaves(leaves_found, own[name]) for name, leaves_found in found.items()},
    }
    state["digest"] = state_digest(state)
    optimizer.load_state_dict({"state": {0: state}, "param_groups": about["param_groups"]})


def _check_mean(optimizer: CompressedOptimizer, own: dict[str, Any], before: int) -> None:
    change = f"this state is of {before} workers, not {optimizer.workers}, and every worker has"
    algorithms = optimizer.algorithms
    for algorithm, worker in zip(algorithms, [own] if len(algorithms) == 1 else own.values(), strict=True):
        if worker["moments"]:
            raise ValueError(
                f"{change} moments of its own gradients, which other workers cannot use: start {before} ranks"
            )
        if worker["memory"] is not None and not algorithm.uplink.mean_memory_suffices:
            kind = type(algorithm.uplink).__name__
            raise ValueError(
                f"{change} a memory, and {kind} does not state that their mean suffices (mean_memory_suffices): "
                f"start {before} ranks"
            )


def _server(optimizer: CompressedOptimizer, saved: "_Saved", ranks: int) -> dict[str, Tensor]:
    """Return this rank's part of the server's state, from the parts that up to `ranks` ranks saved."""
    parts = [saved.part(f"server-{rank}") for rank in range(ranks) if saved.has(f"server-{rank}")]
    state = {name: torch.cat([part[name] for part in parts if name in part], -1) for name in parts[0]}
    shards = optimizer.shards
    for name in state if shards else ():
        shard = shards[int(name.split(".")[0]) if len(shards) > 1 else 0]
        state[name] = state[name][..., shard.begin : shard.end].clone() if shard else state[name][..., :0]
    return state


def _digest(tensors: dict[str, Tensor]) -> Tensor:
    return torch.tensor(state_digest(dict(sorted(tensors.items()))))


class _Saved:
    """A checkpoint's tensors under a key, read by this process only."""

    def __init__(self, folder: str | PathLike[str], key: str) -> None:
        self._folder, self._key = folder, key
        try:
            found = FileSystemReader(folder).read_metadata().state_dict_metadata
        except (OSError, CheckpointException) as error:
            raise ValueError(f"{folder}: has no checkpoint of torch.distributed.checkpoint") from error
        self._kinds = {
            name: kind
            for name, kind in found.items()
            if name.startswith(f"{key}.") and isinstance(kind, TensorStorageMetadata)
        }
        if f"{key}.alike.about" not in self._kinds:
            raise ValueError(f"{folder}: has no distributed_state of an optimizer under {key!r}")

    def has(self, name: str) -> bool:
        return f"{self._key}.{name}.digest" in self._kinds

    def part(self, name: str) -> dict[str, Tensor]:
        """Load the tensors of a part, by their names in it. Raises ValueError for a damaged one."""
        prefix = f"{self._key}.{name}."
        loaded = {
            full: torch.empty(kind.size, dtype=kind.properties.dtype)
            for full, kind in self._kinds.items()
            if full.startswith(prefix)
        }
        try:
            with catch_warnings():
                filterwarnings("ignore", "torch.distributed is disabled")  # every rank loads by itself
                load(loaded, checkpoint_id=self._folder, no_dist=True)
        except (OSError, CheckpointException) as error:
            raise ValueError(f"{self._folder}: {name} cannot be read: {error}") from error
        found = {full.removeprefix(prefix): tensor for full, tensor in loaded.items()}
        digest = found.pop("digest", None)
        if digest is None or digest != _digest(found):
            raise ValueError(f"{self._folder}: {name} is damaged or missing: its digest does not match")
        return found
