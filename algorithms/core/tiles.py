"""A round of one worker tile by tile: tiles fit the cache, and no whole vector is copied.

A tile may need a number of the whole vector, such as a scale. It then stops and returns its part of that number.
The parts of all tiles are combined, and every tile repeats the stopped call with the result. A call writes its part
of the state when it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from ..compressors.base import Payload, Shardable, Unpacked
from ..compressors.shard import Shard, measure_pieces, piece
from ..utils.seeding import MessageKey
from .algorithm import (
    Algorithm,
    Answer,
    ReplicaState,
    Sent,
    ServerState,
    WorkerState,
    as_dicts,
    from_dicts,
    leaves,
    nest_leaves,
)
from .update_rules import Lr, Update, in_place

TILE = 2**18
"""Least coordinates of a tile. Tiles consist of whole pieces, so sums equal a whole vector's bit for bit."""


T = TypeVar("T")


class Storage(Protocol):
    """A vector [d] that is read and written in slices."""

    def read(self, begin: int, end: int) -> Tensor: ...

    def write(self, begin: int, values: Tensor) -> None: ...


class States(NamedTuple):
    """The states of one worker and its server, without the model."""

    worker: WorkerState
    server: ServerState
    replica: ReplicaState


def supports_tiles(algorithm: Algorithm, device: torch.device) -> bool:
    """Whether rounds may go tile by tile: only compressors may need the whole vector.

    False on a GPU, which is faster with few large kernels.
    """
    parts = (algorithm, algorithm.uplink, algorithm.downlink, algorithm.update)
    is_coordinatewise = all(vars(type(part)).get("is_coordinatewise") for part in parts)
    return is_coordinatewise and not algorithm.combine.needs_payloads and device.type == "cpu"


class TiledStates:
    """The states of one worker and its server for vectors [d]. `round` writes into them.

    Vectors that `is_mirrored` makes equal share memory; no others do. Vectors that no later round reads are not
    written. offset: where the vectors begin in the storage of gradient and x.
    """

    def __init__(self, algorithm: Algorithm, states: States, d: int, offset: int = 0) -> None:
        self._shares_aggregate = type(algorithm).aggregate is Algorithm.aggregate and algorithm.uplink.is_mirrored
        self._shares_signal = type(algorithm).receive is Algorithm.receive and algorithm.downlink.is_mirrored
        self.d, self._offset = d, offset
        self.states = self._separate(states)
        vectors = _vectors(self.states, d)
        mirrors = {"server.aggregate": self._shares_aggregate, "replica.signal": self._shares_signal}
        kept = [name for name, vector in vectors.items() if vector.stride(-1) and not mirrors.get(name)]
        parts = [name.split(".", 1) for name in kept]
        self._kept = {part: [attrgetter(name) for own, name in parts if own == part] for part in States._fields}
        own = type(algorithm).worker_message, type(algorithm.update).worker_message
        self._worker_reads_x = own != (Algorithm.worker_message, Update.worker_message)
        size = max(TILE, piece(d))
        self._current = _CurrentTile(size)
        self._tiles: list[tuple[Tile, States]] = []
        begins = range(0, max(d - size // 2, 1), size)
        for begin, end in pairwise([*begins, d]):
            tile = Tile(begin, end, d)
            slices = {name: vector[..., tile.begin : tile.end] for name, vector in vectors.items()}
            self._tiles.append((tile, _with_vectors(self.states, slices)))

    def round(self, algorithm: Algorithm, gradient: Storage, x: Storage, lr: Lr, t: int, seed: int) -> None:
        """Round t for the worker's gradient [d] at x [d]: update x and the states.

        The numbers equal those of worker, server and replica on whole vectors. algorithm: the constructor's; its
        hyperparameters may differ.
        """
        local = algorithm.with_compressors(lambda one: _TileCompressor(one, self._current))
        steps = [self._step(number, local, gradient, x, lr, t, seed) for number in range(len(self._tiles))]
        token = in_place.set(True)
        try:
            while reductions := [one for one in (next(step, None) for step in steps) if one]:
                self._current.result = reductions[0].combine(torch.cat([one.part for one in reductions], -1))
        finally:
            in_place.reset(token)

    def _step(
        self, place: int, local: Algorithm, gradient: Storage, x: Storage, lr: Lr, t: int, seed: int
    ) -> Steps[None]:
        tile, (worker, server, replica) = self._tiles[place]
        bounds = self._offset + tile.begin, self._offset + tile.end

        def work() -> Sent:
            at = replace(replica, x=x.read(*bounds)) if self._worker_reads_x else replica
            return local.worker(gradient.read(*bounds).unsqueeze(0), worker, at, lr, t, seed)

        def serve() -> Answer:
            aggregate = worker.memory.squeeze(-2) if up is None else local.aggregate(up, server, t)
            norm = None if local.clip is None else tile.norm(aggregate)
            return local.server_message(aggregate, server, t, seed, norm)

        def move() -> ReplicaState:
            at = replace(replica, x=x.read(*bounds))
            signal = server.memory if self._shares_signal else local.receive(down, at, t)
            norm = None if local.clip is None else tile.norm(signal)
            return local.apply_signal(signal, at, lr, t, norm)

        up: Payload | None
        up, sent = yield from self._current.steps(tile, work)
        if self._shares_aggregate:
            up = None
        self._write("worker", worker, sent)
        del sent  # a tile that waits must hold little
        down, answered = yield from self._current.steps(tile, serve)
        self._write("server", server, answered)
        del answered
        up = None
        moved = yield from self._current.steps(tile, move)
        self._write("replica", replica, moved)
        x.write(bounds[0], moved.x)

    def _write(self, part: str, old: object, new: object) -> None:
        """Write the new vectors of one part into the old ones, unless they are there already."""
        pairs = [(get(old), get(new)) for get in self._kept[part]]
        # A view may show a vector that is written first.
        for to, one in [(to, one.clone() if one._is_view() else one) for to, one in pairs if one is not to]:
            to.copy_(one)

    def _separate(self, states: States) -> States:
        known: set[int] = set()
        vectors = _vectors(states, self.d)
        for name, vector in vectors.items():
            place = vector.untyped_storage().data_ptr()
            if place in known:
                vectors[name] = vector.clone()
            known.add(place)
        worker, server, replica = _with_vectors(states, vectors)
        if self._shares_aggregate:  # exact; a worker loaded from the mean of other workers has it up to rounding
            worker = replace(worker, memory=server.aggregate.unsqueeze(-2))
        if self._shares_signal:
            replica = replace(replica, signal=server.memory)
        return States(worker, server, replica)


class Reduction(Exception):
    """A tile's part of a number of the whole vector, and the function that computes this number from all parts."""

    def __init__(self, part: Tensor, combine: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.part, self.combine = part, combine


Steps = Generator[Reduction, None, T]
"""Computation for a tile that stops at every reduction. All tiles have the same reductions."""


class Tile(Shard):
    """A shard in a process that has all shards. It keeps the results of its first reductions."""

    _results: Iterator[Tensor]

    def __init__(self, begin: int, end: int, d: int) -> None:
        super().__init__((0, begin, end, d), 1)

    def restart(self, results: Sequence[Tensor]) -> None:
        """Start again. Reductions return these results in order; the one after them raises Reduction."""
        object.__setattr__(self, "_results", iter(results))  # a shard is frozen

    def measure_pieces(self, x: Tensor, measure: Callable[[Tensor], Tensor]) -> Tensor:
        if self.is_whole:
            return super().measure_pieces(x, measure)
        return self._reduce(lambda: measure_pieces(x, piece(self.d), measure), lambda parts: parts)

    def apply_to_whole(self, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply a function to the whole vector [..., d], and return this tile of the result. x: this tile."""
        return function(x) if self.is_whole else self._reduce(x.clone, function)[..., self.begin : self.end]

    def _reduce(self, part: Callable[[], Tensor], combine: Callable[[Tensor], Tensor]) -> Tensor:
        result = next(self._results, None)
        if result is None:
            raise Reduction(part(), combine)
        return result


class _CurrentTile:
    """The current tile. All tiles begin at multiples of `size`."""

    tile: Tile
    result: Tensor  # of the last reduction

    def __init__(self, size: int) -> None:
        self.size = size

    def steps(self, tile: Tile, function: Callable[[], T]) -> Steps[T]:
        """Run a function for a tile, and return its result."""
        results: list[Tensor] = []
        while True:
            self.tile = tile
            tile.restart(results)
            try:
                return function()
            except Reduction as needed:
                reduction = needed.with_traceback(None)  # which would keep the tile's tensors alive
            yield reduction
            results.append(self.result)


@dataclass(frozen=True)
class _TileCompressor(Unpacked):
    """C on the current tile. Payloads are C(x), unpacked."""

    current: _CurrentTile

    def __call__(self, x: Tensor, key: MessageKey | None = None) -> Tensor:
        one, tile = self.compressor, self.current.tile
        if isinstance(one, Shardable) and one.grain and (tile.is_whole or self.current.size % one.grain == 0):
            return one.compress_shard(x, tile, key)
        return tile.apply_to_whole(x, lambda vectors: one(vectors, key))

    def whole_size(self, d: int) -> int:
        return self.current.tile.d


def _vectors(states: States, d: int) -> dict[str, Tensor]:
    """Return the vectors [..., d] among states, by dotted names."""
    return {name: one for name, one in leaves(as_dicts(states)) if isinstance(one, Tensor) and one.shape[-1] == d}


def _with_vectors(states: States, vectors: Mapping[str, Tensor]) -> States:
    like = as_dicts(states)
    return from_dicts(nest_leaves({**dict(leaves(like)), **vectors}, like), states)
