"""Encode and decode messages tile by tile: tiles fit the cache, and whole vectors are written in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from ..compressors.base import Compressor, Payload, Shardable, Wrapper, tensors
from ..compressors.shard import Shard, piece, whole_shard
from ..core import tiles
from ..core.algorithm import Algorithm, ServerState
from ..core.channels import Channel
from ..core.update_rules import in_place
from ..utils.seeding import MessageKey


def has_tiles(channel: Channel, memory: object, t: int) -> bool:
    """Whether the messages of round t can be made tile by tile, given the sender's memory."""
    codec = channel.codec(t)
    fits = isinstance(codec, Shardable) and codec.grain and tiles.TILE % codec.grain == 0
    return bool(fits and vars(type(channel)).get("is_coordinatewise")) and isinstance(memory, Tensor | None)


def send(channel: Channel, w: Tensor, memory: Tensor | None, key: MessageKey, message: Payload) -> None:
    """`Channel.send` for w [..., d]. Writes the payload into `message` and the new memory into w."""
    codec: Any = channel.codec(key.round)

    def run(tile: Shard) -> None:
        here = slice(tile.begin, tile.end)
        local = replace(channel, compressor=ShardCompressor(channel.compressor, tile))
        payload, kept = local.send(w[..., here], None if memory is None else memory[..., here], key)
        _write(codec.cut(message, tile), payload)
        if kept is not None:
            w[..., here] = kept

    run_by_tile(whole_shard(w.shape[-1]), run)


def serve(
    algorithm: Algorithm, shard: Shard, up: Sequence[Payload], state: ServerState, t: int, seed: int, message: Payload
) -> None:
    """`Algorithm.server` on a shard. Writes the payload into `message` and the new state into `state`."""
    uplink: Any = algorithm.uplink.codec(t)
    downlink: Any = algorithm.downlink.codec(t)
    aggregate, memory = state.aggregate, state.memory
    known: dict[int, Tensor] = {}  # aggregates of tiles that wait for a number of the whole vector

    def run(tile: Shard) -> None:
        within = _relative_to(tile, shard)
        here = slice(within.begin, within.end)
        old = ServerState(aggregate[..., here], None if memory is None else memory[..., here])
        local = restrict_to_shard(algorithm, tile)
        if tile.begin not in known:
            known[tile.begin] = local.aggregate([uplink.cut(payload, within) for payload in up], old, t)
            if algorithm.uplink.needs_last:
                known[tile.begin] = old.aggregate.copy_(known[tile.begin])
        payload, new = local.server_message(known[tile.begin], old, t, seed)
        del known[tile.begin]
        _write(downlink.cut(message, within), payload)
        if memory is not None:
            old.memory.copy_(new.memory)

    token = in_place.set(True)
    try:
        run_by_tile(shard, run)
    finally:
        in_place.reset(token)


def decode_tiles(channel: Channel, shard: Shard, payload: Payload, t: int) -> Iterator[tuple[int, Tensor]]:
    """Decode a shard's message tile by tile. Yields each tile's first coordinate and its values."""
    codec: Any = channel.codec(t)
    for tile in tiles_of(shard) if has_tiles(channel, None, t) else [shard]:
        part = payload if tile is shard else codec.cut(payload, _relative_to(tile, shard))
        yield tile.begin, codec.decode_shard(part, tile)


def run_by_tile(shard: Shard, run: Callable[[Shard], None]) -> None:
    """Run a function for every tile of a shard.

    A call stops at a number of the whole vector, such as a norm. With this number it runs again for every tile. It
    writes only after the last such number.
    """
    all_tiles, results = tiles_of(shard), []
    while True:
        parts = []
        for tile in all_tiles:
            tile.restart(results)
            try:
                run(tile)
            except tiles.Reduction as needed:
                parts.append(needed.part)
        if not parts:
            return
        results.append(shard.gather_pieces(torch.cat(parts, -1)))


def tiles_of(shard: Shard) -> list[tiles.Tile]:
    """Return the shard's tiles. Each consists of whole pieces."""
    edges = [*range(shard.begin, shard.end, max(tiles.TILE, piece(shard.d))), shard.end]
    return [tiles.Tile(begin, end, shard.d) for begin, end in pairwise(edges)]


def restrict_to_shard(algorithm: Algorithm, shard: Shard) -> Algorithm:
    """Return the algorithm for vectors on a shard."""
    return algorithm.with_compressors(lambda one: ShardCompressor(one, shard))


@dataclass(frozen=True)
class ShardCompressor(Wrapper):
    """C on a shard of the coordinates."""

    shard: Shard

    def encode(self, x: Tensor, key: MessageKey | None = None) -> Payload:
        return require_shardable(self.compressor).encode_shard(x, self.shard, key)

    def decode(self, payload: Payload, d: int) -> Tensor:
        return require_shardable(self.compressor).decode_shard(payload, self.shard)

    def sent_mask(self, payload: Payload, d: int) -> Tensor:
        return self.compressor.sent_mask(payload, self.shard.size)

    def whole_size(self, d: int) -> int:
        return self.shard.d


def require_shardable(compressor: Compressor) -> Shardable:
    """Return the compressor. Raises ValueError if it needs the whole vector."""
    if not isinstance(compressor, Shardable):
        raise ValueError(
            f"{compressor}: needs the whole vector, but a sharded server has only parts; take "
            "cluster.server=rank0, or make the compressor a `Shardable`"
        )
    return compressor


def _relative_to(tile: Shard, shard: Shard) -> Shard:
    """Return the tile with coordinates counted from the shard's begin."""
    return Shard((0, tile.begin - shard.begin, tile.end - shard.begin, shard.size), 1)


def _write(to: Payload, payload: Payload) -> None:
    for one, new in zip(tensors(to), tensors(payload), strict=True):
        one.copy_(new)
