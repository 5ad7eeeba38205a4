"""A round of one worker in place, tile by tile: what it computes with stays in the cache, and no vector is copied.

A number of the whole vector, such as a scale, is not known when a tile begins. The tile then stops and says its part;
when all tiles have, every one begins again, with the answer. Nothing is written before the last question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from ..compressors.base import Shardable, Vector, Wrapper
from ..compressors.shard import Shard, piece
from ..utils.seeding import MessageKey
from .algorithm import Algorithm, ReplicaState, ServerState, WorkerState
from .update_rules import Lr

TILE = 2**17
"""Coordinates of a tile at least. A tile has whole pieces, so that sums are the same bits."""


class Stored(Protocol):
    """A vector [d], wherever it is stored."""

    def read(self, begin: int, end: int) -> Tensor: ...

    def write(self, begin: int, values: Tensor) -> None: ...


class States(NamedTuple):
    """Of one worker and its server. The model is stored elsewhere."""

    worker: WorkerState
    server: ServerState
    replica: ReplicaState


def takes_tiles(algorithm: Algorithm, device: torch.device) -> bool:
    """Whether a round may be `round_in_place`: no part of the method needs the whole vector but by its compressors.

    On a GPU it is not worth it, whose kernels are better few and large.
    """
    parts = (algorithm, algorithm.uplink, algorithm.downlink, algorithm.update)
    apart = all(vars(type(part)).get("is_coordinatewise") for part in parts)
    return apart and not algorithm.combine.needs_payloads and device.type == "cpu"


class InPlace:
    """The states of one worker and its server, for vectors [d], with rounds that write into them.

    Vectors share memory where `is_mirrored` makes them the same vector, and nowhere else. What nobody looks at again
    is not written. offset: where the vectors begin in what is read and written.
    """

    def __init__(self, algorithm: Algorithm, states: States, d: int, offset: int = 0) -> None:
        self._hears = type(algorithm).aggregate is Algorithm.aggregate and algorithm.uplink.is_mirrored
        self._receives = type(algorithm).received is Algorithm.received and algorithm.downlink.is_mirrored
        self.d, self._offset = d, offset
        self.states = self._apart(states)
        vectors, rebuilt = _vectors(self.states, d), _rebuilt(self.states, d)
        mirrors = {"server.aggregate": self._hears, "replica.signal": self._receives}
        kept = [name for name, vector in vectors.items() if vector.stride(-1) and not mirrors.get(name)]
        self._kept = [attrgetter(name) for name in kept]
        self._tiles: list[tuple[Tile, States]] = []
        for begin in range(0, d, size := max(TILE, piece(d))):
            tile = Tile(begin, min(begin + size, d), d)
            here = (vector[..., tile.begin : tile.end] for vector in vectors.values())
            self._tiles.append((tile, rebuilt(here)))

    def round(self, algorithm: Algorithm, gradient: Stored, x: Stored, lr: Lr, t: int, seed: int) -> None:
        """Round t for the worker's gradient [d] at x [d]: new numbers in x and in the states.

        They are those of worker, server and replica one after the other. algorithm: the one that was given, perhaps
        with other hyperparameters.
        """
        answers: list[Tensor] = []
        here = _Here()
        local = here.algorithm(algorithm)
        while asked := list(self._asked(here, answers, partial(self._on_tile, local, gradient, x, lr, t, seed))):
            parts, (answer, *_) = zip(*asked, strict=True)
            answers.append(answer(torch.cat(parts, -1)))

    def _asked(
        self, here: _Here, answers: list[Tensor], step: Callable[[Tile, States], None]
    ) -> Iterator[tuple[Tensor, Callable[[Tensor], Tensor]]]:
        for tile, old in self._tiles:
            here.tile = tile
            tile.begin_with(answers)
            try:
                step(tile, old)
            except _Asked as asked:
                yield asked.mine, asked.answer  # not itself, which holds all that the tile has computed

    def _on_tile(
        self, local: Algorithm, gradient: Stored, x: Stored, lr: Lr, t: int, seed: int, tile: Tile, old: States
    ) -> None:
        worker, server, replica = old
        here = self._offset + tile.begin, self._offset + tile.end
        replica = replace(replica, x=x.read(*here))
        up, worker = local.worker(gradient.read(*here).unsqueeze(0), worker, replica, lr, t, seed)
        aggregate = worker.memory.squeeze(-2) if self._hears else local.aggregate(up, server, t)
        norm = None if local.clip is None else tile.norm(aggregate)
        down, server = local.server_message(aggregate, server, t, seed, norm)
        signal = server.memory if self._receives else local.received(down, replica, t)
        norm = None if local.clip is None else tile.norm(signal)
        replica = local.apply_signal(signal, replica, lr, t, norm)
        new = [get(States(worker, server, replica)) for get in self._kept]
        new = [one.clone() if one._is_view() else one for one in new]  # a view may be of what is written first
        x.write(here[0], replica.x)
        for get, one in zip(self._kept, new, strict=True):
            get(old).copy_(one)

    def _apart(self, states: States) -> States:
        known: set[int] = set()

        def owned(tensor: Tensor) -> Tensor:
            place = tensor.untyped_storage().data_ptr()
            own = tensor.clone() if place in known else tensor
            known.add(place)
            return own

        worker, server, replica = _rebuilt(states, self.d)(map(owned, _vectors(states, self.d).values()))
        if self._hears:  # the server's, which a worker that took over the mean of other workers has but for rounding
            worker = replace(worker, memory=server.aggregate.unsqueeze(-2))
        if self._receives:
            replica = replace(replica, signal=server.memory)
        return States(worker, server, replica)


class _Asked(Exception):
    """A tile's part of what is asked, and what makes the answer of all parts side by side."""

    def __init__(self, mine: Tensor, answer: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.mine, self.answer = mine, answer


class Tile(Shard):
    """A shard whose process has all shards, one after the other: it knows the answers to its first questions."""

    _answers: Iterator[Tensor]

    def __init__(self, begin: int, end: int, d: int) -> None:
        super().__init__((0, begin, end, d), 1)

    def begin_with(self, answers: Sequence[Tensor]) -> None:
        object.__setattr__(self, "_answers", iter(answers))  # a shard is frozen

    def by_piece(self, x: Tensor, measure: Callable[[Tensor], Tensor]) -> Tensor:
        if self.is_whole:
            return super().by_piece(x, measure)
        pieces = x.split(piece(self.d), -1)
        return self._ask(lambda: torch.stack([measure(part) for part in pieces], -1), lambda parts: parts)

    def of_whole(self, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        """What a function makes of whole vectors [..., d], on this tile; x [..., size] is our part."""
        return function(x) if self.is_whole else self._ask(x.clone, function)[..., self.begin : self.end]

    def _ask(self, mine: Callable[[], Tensor], answer: Callable[[Tensor], Tensor]) -> Tensor:
        known = next(self._answers, None)
        if known is None:
            raise _Asked(mine(), answer)
        return known


class _Here:
    """The tile that is computed with now."""

    tile: Tile

    def algorithm(self, algorithm: Algorithm) -> Algorithm:
        """An algorithm for vectors on this tile."""
        uplink, downlink = (
            replace(channel, compressor=_OnTile(channel.compressor, self))
            for channel in (algorithm.uplink, algorithm.downlink)
        )
        return replace(algorithm, uplink=uplink, downlink=downlink)


@dataclass(frozen=True)
class _OnTile(Wrapper):
    """C on a tile, with nothing packed."""

    here: _Here

    def encode(self, x: Tensor, key: MessageKey | None = None) -> Vector:
        return Vector(self(x, key))

    def decode(self, payload: Vector, d: int) -> Tensor:
        return payload.values

    def __call__(self, x: Tensor, key: MessageKey | None = None) -> Tensor:
        one, tile = self.compressor, self.here.tile
        if isinstance(one, Shardable) and one.grain and tile.begin % one.grain == 0:
            return one.dense_shard(x, tile, key)
        return tile.of_whole(x, lambda vectors: one(vectors, key))

    def bits(self, d: int) -> int:
        return self.compressor.bits(self.here.tile.d)

    def pi(self, d: int) -> float:
        return self.compressor.pi(self.here.tile.d)

    def omega(self, d: int) -> float:
        return self.compressor.omega(self.here.tile.d)


def _vectors(state: Any, d: int, name: str = "") -> dict[str, Tensor]:
    """The vectors [..., d] of a state by dotted names."""
    if isinstance(state, Tensor):
        return {name: state} if state.shape[-1] == d else {}
    found: dict[str, Tensor] = {}
    for part in _parts(state):
        found |= _vectors(getattr(state, part), d, f"{name}.{part}" if name else part)
    return found


def _rebuilt(state: Any, d: int) -> Callable[[Iterator[Tensor]], Any]:
    """What makes a state like this one out of other `_vectors`."""
    if isinstance(state, Tensor) and state.shape[-1] == d:
        return next
    if not (names := _parts(state)):
        return lambda _: state
    kind, parts = type(state), {name: _rebuilt(getattr(state, name), d) for name in names}
    return lambda vectors: kind(**{name: part(vectors) for name, part in parts.items()})


def _parts(state: Any) -> Sequence[str]:
    return [one.name for one in fields(state)] if is_dataclass(state) else getattr(state, "_fields", ())
