"""A round's two messages over torch.distributed, where every rank serves a part of the coordinates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from ..compressors.base import Compressor, Identity, Payload, Shardable, Vector, Wrapper, rebuild, tensors
from ..compressors.shard import Shard, places
from ..core.algorithm import Algorithm, ServerState
from ..utils.seeding import MessageKey
from .gather_broadcast import contact, from_bytes, to_bytes


def cuts(algorithm: Algorithm, d: int, ranks: int) -> tuple[int, ...]:
    """Where a vector of d coordinates is cut into shards of about one size, for as many ranks at most: 0, …, d.

    Raises ValueError for a method or a compressor that needs the vector as a whole.
    """
    if not (allowed := _allowed(algorithm, d)):
        return 0, d
    wanted = [d * rank / ranks for rank in range(1, ranks)]
    return 0, *sorted({min(allowed, key=lambda place: abs(place - one)) for one in wanted}), d


def _allowed(algorithm: Algorithm, d: int) -> list[int]:
    """Where a vector may be cut: where its compressors may be, and between pieces where both directions are dense or
    the server needs a norm of all coordinates to clip by.

    Raises ValueError unless the classes of the method and of both channels say that servers may have shards.
    """
    for part in (algorithm, algorithm.uplink, algorithm.downlink):
        if not vars(type(part)).get("is_coordinatewise"):
            raise ValueError(
                f"{type(part).__name__}: may need the whole vector, but a sharded server has only parts; "
                "take cluster.server=rank0, or say is_coordinatewise = True in the class"
            )
    if type(algorithm).server is not Algorithm.server:
        raise ValueError(f"{type(algorithm).__name__}: has a server of its own; take cluster.server=rank0")
    both = [_shardable(channel.compressor) for channel in (algorithm.uplink, algorithm.downlink)]
    limits = [{*one.places(d)} for one in both if not isinstance(one, Identity)]
    if _needs_norm(algorithm) or not limits:
        limits.append({*places(d)})
    return sorted(set.intersection(*limits))


class Exchange(NamedTuple):
    """A round with a sharded server: how many ranks can serve at most, and how many messages follow one another.

    These are one up and one down, before either the lengths of messages of compressors that `varies`, and what
    servers tell one another of whole vectors.
    """

    servers: int
    exchanges: int


@dataclass(frozen=True)
class _Asking(Shard):
    """A shard that notes what it asks of others, who have the same."""

    asked: list[Tensor]

    def everyones(self, mine: Tensor, counts: Sequence[int]) -> list[Tensor]:
        self.asked.append(mine)
        return [mine] * len(counts)


def exchange(algorithm: Algorithm, d: int, dtype: torch.dtype) -> Exchange:
    """The exchange of a method after its dense rounds; of a method that needs the whole vector, with one server."""
    try:
        servers, half = len(_allowed(algorithm, d)) + 1, _Asking(cuts(algorithm, d, 2), 0, [])
    except ValueError:
        return Exchange(1, 2)
    up, down = (_shardable(channel.compressor) for channel in (algorithm.uplink, algorithm.downlink))
    down.encode_shard(torch.zeros(half.size, dtype=dtype), half, MessageKey.none())
    clips = _needs_norm(algorithm) and not half.is_whole
    return Exchange(servers, 2 + up.varies + down.varies + len(half.asked) + clips)


class ShardedServer:
    """Carries every shard of all workers' payloads to the rank that serves it, and the servers' answers to all.

    Rank r serves the coordinates cuts[r] to cuts[r + 1] and has their state, ranks beyond the last cut none. Servers
    tell one another what must be known of whole vectors. What crosses is what would cross to one server, but that
    every server gets the scale of a message and, where payloads' size `varies`, how long each is.

    shares: how many workers every rank has. timeout: seconds after which servers that wait for one another give up.
    """

    def __init__(
        self, algorithm: Algorithm, seed: int, shares: Sequence[int], cuts: tuple[int, ...], timeout: float
    ) -> None:
        self.algorithm, self.seed, self._shares = algorithm, seed, shares
        self._shards = [Shard(cuts, number) for number in range(len(cuts) - 1)]
        servers: Any = None  # all ranks
        if len(self._shards) < len(shares):  # which every rank calls
            with contact():
                servers = dist.new_group(list(range(len(self._shards))), timeout=timedelta(seconds=timeout))
        rank = dist.get_rank()
        self.served = _Served(cuts, rank, servers) if rank < len(self._shards) else None
        self._templates: dict[Shardable, list[Payload]] = {}

    def exchange(
        self, up: Payload, server: ServerState | None, x: Tensor, t: int
    ) -> tuple[Payload, ServerState | None]:
        """The servers' message of round t, decoded, for the payload `up` of this rank's workers, and the new state.

        x [*T, d] is any vector of the run's shape and dtype; `server` is this rank's part of the state, None where it
        serves nothing. Raises LostContact.
        """
        axis = x.dim() - 1  # of the workers, after those of the trials
        arrived = self._to_servers(up, axis, t)
        message: Payload = ()
        if self.served is not None:
            assert server is not None
            uplink, downlink = (
                replace(channel, compressor=_OnShard(channel.compressor, self.served))
                for channel in (self.algorithm.uplink, self.algorithm.downlink)
            )
            here = replace(self.algorithm, uplink=uplink, downlink=downlink)
            payloads = (from_bytes(one, like, axis) for part, like in arrived for one in part.unbind(axis))
            aggregate = here.aggregate(payloads, server, t)
            norm = self.served.norm(aggregate) if _needs_norm(here) else None
            message, server = here.server_message(aggregate, server, t, self.seed, norm)
        return Vector(self._to_all(message, x, t)), server

    def _to_servers(self, up: Payload, axis: int, t: int) -> list[tuple[Tensor, Payload]]:
        """From every rank the bytes [*T, W, b] that it sends to this server, and a payload of the form of one
        worker's; nothing where this rank serves nothing."""
        codec = _shardable(self.algorithm.uplink.codec(t))
        parts = [codec.cut(up, shard) for shard in self._shards]
        mine = parts[self.served.number] if self.served else ()
        like = rebuild(mine, (tensor.select(axis, 0) for tensor in tensors(mine)))
        likes = [like] * len(self._shares)
        if codec.varies:
            sizes = [_sizes(part) for part in parts]
            told = self._swap(sizes, [len(list(tensors(like)))] * len(likes))
            likes = [_resize(like, one.tolist()) for one in told]
        lead = next(tensors(up)).shape[:axis]
        shapes = [(*lead, share, _nbytes(like, axis)) for share, like in zip(self._shares, likes, strict=True)]
        messages = [to_bytes(part, axis + 1).flatten() for part in parts]
        arrived = self._swap(messages, [math.prod(shape) if self.served else 0 for shape in shapes])
        if not self.served:
            return []
        return [(part.view(shape), like) for part, shape, like in zip(arrived, shapes, likes, strict=True)]

    def _swap(self, messages: list[Tensor], sizes: list[int]) -> Sequence[Tensor]:
        return swapped(messages + [messages[0][:0]] * (len(self._shares) - len(messages)), sizes)

    def _to_all(self, message: Payload, x: Tensor, t: int) -> Tensor:
        """The message [*T, d] of which every server gives the payload of its shard."""
        codec, axis = _shardable(self.algorithm.downlink.codec(t)), x.dim() - 1
        if codec not in self._templates:
            like = codec.encode(torch.zeros_like(x), MessageKey.none())
            self._templates[codec] = [codec.cut(like, shard) for shard in self._shards]
        likes = self._templates[codec]
        if codec.varies:
            own = _sizes(message if self.served else likes[0])
            told = self._from_servers(own, [len(_sizes(like)) for like in likes])
            likes = [_resize(like, one.tolist()) for like, one in zip(likes, told, strict=True)]
        shapes = [(*x.shape[:-1], _nbytes(like, axis)) for like in likes]
        mine = to_bytes(message, axis).flatten() if self.served else x.new_empty(0, dtype=torch.uint8)
        messages = self._from_servers(mine, [math.prod(shape) for shape in shapes])
        arrived = zip(self._shards, messages, shapes, likes, strict=True)
        payloads = ((from_bytes(one.view(shape), like, axis), shard) for shard, one, shape, like in arrived)
        return torch.cat([codec.decode_shard(payload, shard) for payload, shard in payloads], -1)

    def _from_servers(self, mine: Tensor, sizes: list[int]) -> Sequence[Tensor]:
        messages = [mine if self.served else mine[:0]] * len(self._shares)
        return self._swap(messages, sizes + [0] * (len(self._shares) - len(sizes)))[: len(sizes)]


def swapped(messages: Sequence[Tensor], sizes: Sequence[int], group: dist.ProcessGroup | None = None) -> list[Tensor]:
    """What every rank of a group sent to this one, so many numbers each, where it sends [*] to each of them.

    All receives are posted before anything is sent: gloo's all_to_all_single, which does not, takes up to twice as
    long, and its all_gather goes round a ring. Raises LostContact.
    """
    mine = dist.get_rank(group)
    arrived = [
        message if rank == mine else message.new_empty(size)
        for rank, (message, size) in enumerate(zip(messages, sizes, strict=True))
    ]
    operations = [
        dist.P2POp(act, message, group=group, group_peer=rank)
        for act, row in ((dist.irecv, arrived), (dist.isend, messages))
        for rank, message in enumerate(row)
        if rank != mine and len(message)
    ]
    with contact():
        for work in dist.batch_isend_irecv(operations) if operations else ():
            work.wait()
    return arrived


@dataclass(frozen=True)
class _Served(Shard):
    """A shard that this rank serves: it asks the other servers for what it must know of theirs."""

    servers: dist.ProcessGroup | None

    def everyones(self, mine: Tensor, counts: Sequence[int]) -> list[Tensor]:
        lead, messages = mine.shape[:-1], [mine.flatten()] * len(counts)
        theirs = swapped(messages, [math.prod(lead) * count for count in counts], self.servers)
        return [one.view(*lead, count) for one, count in zip(theirs, counts, strict=True)]


@dataclass(frozen=True)
class _OnShard(Wrapper):
    """C on a shard of the coordinates."""

    shard: Shard

    def encode(self, x: Tensor, key: MessageKey | None = None) -> Payload:
        return _shardable(self.compressor).encode_shard(x, self.shard, key)

    def decode(self, payload: Payload, d: int) -> Tensor:
        return _shardable(self.compressor).decode_shard(payload, self.shard)

    def sent(self, payload: Payload, d: int) -> Tensor:
        return self.compressor.sent(payload, self.shard.size)

    def bits(self, d: int) -> int:
        return self.compressor.bits(self.shard.d)

    def omega(self, d: int) -> float:
        return self.compressor.omega(self.shard.d)


def _needs_norm(algorithm: Algorithm) -> bool:
    return algorithm.clip is not None and type(algorithm).server_message is not Algorithm.server_message


def _shardable(compressor: Compressor) -> Shardable:
    """The compressor itself. Raises ValueError where it needs the vector as a whole."""
    if not isinstance(compressor, Shardable):
        raise ValueError(
            f"{compressor}: needs the whole vector, but a sharded server has only parts; take "
            "cluster.server=rank0, or make the compressor a `Shardable`"
        )
    return compressor


def _sizes(payload: Payload) -> Tensor:
    found = list(tensors(payload))
    return torch.tensor([tensor.shape[-1] for tensor in found], device=found[0].device)


def _resize(payload: Payload, sizes: list[int]) -> Payload:
    """A payload of the same form whose tensors have other last axes."""
    parts = zip(tensors(payload), sizes, strict=True)
    return rebuild(payload, (tensor.new_empty(*tensor.shape[:-1], size) for tensor, size in parts))


def _nbytes(payload: Payload, lead: int) -> int:
    return sum(math.prod(tensor.shape[lead:]) * tensor.element_size() for tensor in tensors(payload))
