"""A round over torch.distributed with a sharded server: every rank serves part of the coordinates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from ..compressors.base import Identity, Payload, Vector, rebuild, tensors
from ..compressors.blocks import Parts
from ..compressors.shard import Shard, cut_points
from ..core.algorithm import Algorithm, ServerState
from ..core.grouped import GroupedAlgorithms, seed_of_part
from ..utils.seeding import MessageKey
from .gather_broadcast import convert_collective_errors, from_bytes, nbytes, to_bytes
from .tiled import has_tiles, require_shardable, restrict_to_shard, serve


def cuts(algorithm: Algorithm, d: int, ranks: int) -> tuple[int, ...]:
    """Return places 0, …, d that cut a vector into shards of about equal size, at most one per rank.

    Raises ValueError for a method or a compressor that needs the whole vector.
    """
    if not (allowed := _allowed_cuts(algorithm, d)):
        return 0, d
    wanted = [d * rank / ranks for rank in range(1, ranks)]
    return 0, *sorted({min(allowed, key=lambda place: abs(place - one)) for one in wanted}), d


def _allowed_cuts(algorithm: Algorithm, d: int) -> list[int]:
    """Return the places where a vector may be cut.

    The compressors must allow them. If both directions are dense, or the server clips by the norm of all coordinates,
    they must be between pieces. Raises ValueError if the method or a channel may need the whole vector.
    """
    for part in (algorithm, algorithm.uplink, algorithm.downlink):
        if not vars(type(part)).get("is_coordinatewise"):
            raise ValueError(
                f"{type(part).__name__}: may need the whole vector, but a sharded server has only parts; "
                "take cluster.server=rank0, or set is_coordinatewise = True in the class"
            )
    if type(algorithm).server is not Algorithm.server:
        raise ValueError(f"{type(algorithm).__name__}: has a server of its own; take cluster.server=rank0")
    both = [require_shardable(channel.compressor) for channel in (algorithm.uplink, algorithm.downlink)]
    limits = [{*one.cut_points(d)} for one in both if not isinstance(one, Identity)]
    if _needs_norm(algorithm) or not limits:
        limits.append({*cut_points(d)})
    return sorted(set.intersection(*limits))


class Exchange(NamedTuple):
    """A round with a sharded server: the largest number of servers, and the number of successive messages.

    One message goes up and one down. If a message's size `varies`, its length is sent first. Servers also exchange
    numbers that depend on whole vectors.
    """

    servers: int
    exchanges: int


@dataclass(frozen=True)
class _RecordingShard(Shard):
    """A shard that records its questions to the other servers, and uses its own numbers as their answers."""

    asked: list[Tensor]

    def all_gather(self, mine: Tensor, counts: Sequence[int]) -> list[Tensor]:
        self.asked.append(mine)
        return [mine] * len(counts)


def describe_exchange(algorithm: Algorithm, d: int, dtype: torch.dtype) -> Exchange:
    """Return the exchange of a method after its dense rounds. A method that needs the whole vector has one server."""
    try:
        servers, half = len(_allowed_cuts(algorithm, d)) + 1, _RecordingShard(cuts(algorithm, d, 2), 0, [])
    except ValueError:
        return Exchange(1, 2)
    up, down = (require_shardable(channel.compressor) for channel in (algorithm.uplink, algorithm.downlink))
    down.encode_shard(torch.zeros(half.size, dtype=dtype), half, MessageKey.none())
    clips = _needs_norm(algorithm) and not half.is_whole
    return Exchange(servers, 2 + up.varies + down.varies + len(half.asked) + clips)


class ShardedServer:
    """Sends every shard of all workers' payloads to its server, and the servers' answers to all ranks.

    Rank r serves shard r of each part and holds its state. Ranks beyond a part's last shard do not serve it. Servers
    exchange the numbers that depend on whole vectors. Every server receives the messages' scales, and their lengths
    if the size `varies`. The rest is as with one server.

    With `is_tiled`, servers write into their states, tile by tile, and answers are not decoded here.

    algorithm: one or more, each with its part of the vector. shares: every rank's number of workers; None: 1.
    Raises ValueError if a part needs the whole vector.
    """

    def __init__(
        self,
        algorithm: GroupedAlgorithms,
        seed: int,
        group: dist.ProcessGroup | None = None,
        shares: Sequence[int] | None = None,
    ) -> None:
        self.algorithm, self.seed, self.group = algorithm, seed, group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self._shares = shares or [1] * self.size
        if len(algorithm.parts) > 1 and any(map(_needs_norm, algorithm.parts)):
            raise ValueError("servers of several parts clip by the norm of them all, so one needs the whole vector")
        sizes = zip(algorithm.parts, algorithm.sizes, strict=True)
        self.cuts = [cuts(part, d, self.size) for part, d in sizes]
        self._servers = max(map(len, self.cuts)) - 1
        self.own_shards = self._shards(self.rank)
        self._known: dict[Any, Any] = {}
        self._kept: dict[int, Tensor] = {}  # buffers for arriving messages, if `is_tiled`
        self.is_tiled = False

    def start_server(self, x: Tensor) -> tuple[ServerState | None, ...]:
        """Return this rank's states before round 1, for parameters x [*T, d]; None for parts it does not serve."""
        own = zip(self.algorithm.parts, self.own_shards, x.split(self.algorithm.sizes, -1), strict=True)
        return tuple(
            part.start_server(vector[..., shard.begin : shard.end].clone()) if shard else None
            for part, shard, vector in own
        )

    def exchange(self, up: Payload, server: Any, x: Tensor, t: int) -> tuple[Payload, Any]:
        """Send the payloads `up` of this rank's workers. Returns the servers' decoded messages and the new states.

        x [*T, d] is any vector of the run's shape and dtype. `server` is this rank's state of every part. Raises
        LostContact.
        """
        axis = x.dim() - 1  # of the workers, after the trials'
        payloads = self._send_to_servers(up, axis, t)
        down: Payload = ()
        if self.rank < self._servers:
            down, server = self._serve(payloads, server, x, t)
        return self._join(self._send_to_all(down, x, t), t), server

    def _serve(self, payloads: Iterable[Payload], server: Any, x: Tensor, t: int) -> tuple[Payload, Any]:
        answers, states = [], []
        given = zip(self.algorithm.parts, self.own_shards, zip(*payloads, strict=True), server, strict=True)
        for number, (part, shard, of_workers, state) in enumerate(given):
            answer: Payload = ()
            if shard is not None and self.is_tiled and _has_tiles(part, state, t):
                own: Any = self._answers(x, t)[self.rank]
                answer = own[number]
                serve(part, shard, of_workers, state, t, seed_of_part(self.seed, number), answer)
            elif shard is not None:
                here = restrict_to_shard(part, shard)
                aggregate = here.aggregate(list(of_workers), state, t)
                norm = shard.norm(aggregate) if _needs_norm(here) else None
                answer, state = here.server_message(aggregate, state, t, seed_of_part(self.seed, number), norm)
            answers.append(answer)
            states.append(state)
        return tuple(answers), tuple(states)

    def _send_to_servers(self, up: Payload, axis: int, t: int) -> list[Payload]:
        """Send payloads to all servers. Returns all workers' payloads for this one; empty if it serves nothing."""
        codec = self.algorithm.uplink.codec(t)
        parts = [self._cut(up, codec, server) for server in range(self._servers)]
        mine = parts[self.rank] if self.rank < self._servers else ()
        likes = [mine] * self.size if mine else []
        if _varies(codec):
            sizes = swap_messages(list(map(_sizes, parts)), [len(list(tensors(like))) for like in likes], self.group)
            likes = [_resize(like, one.tolist()) for like, one in zip(likes, sizes, strict=True)]
        lead, messages = next(tensors(up)).shape[:axis], [_messages(part, axis + 1) for part in parts]
        arrived = self._swap(messages, likes, [(*lead, share) for share in self._shares])
        rows = (zip(*(tensor.unbind(axis) for tensor in tensors(one)), strict=True) for one in arrived)
        return [rebuild(like, row) for like, of_workers in zip(likes, rows, strict=True) for row in of_workers]

    def _send_to_all(self, down: Payload, x: Tensor, t: int) -> list[Payload]:
        """Send this server's answer to all ranks. Returns the answers of all servers."""
        axis, likes = x.dim() - 1, self._templates(x, t)
        if _varies(self.algorithm.downlink.codec(t)):
            sizes = self._gather_from_servers(_sizes(down or likes[0]), [len(_sizes(like)) for like in likes])
            likes = [_resize(like, one.tolist()) for like, one in zip(likes, sizes, strict=True)]
        mine = _messages(down or likes[0], axis)
        mine = mine if self.rank < self._servers else [one[:0] for one in mine]
        return self._swap([mine] * self.size, likes, [x.shape[:-1]] * self.size)

    def _gather_from_servers(self, mine: Tensor, sizes: list[int]) -> list[Tensor]:
        return swap_messages([mine if self.rank < self._servers else mine[:0]] * self.size, sizes, self.group)

    def _swap(
        self, messages: Sequence[Sequence[Tensor]], likes: Sequence[Payload], leads: Sequence[Sequence[int]]
    ) -> list[Payload]:
        """Send each of the first ranks its messages, and return their payloads for this rank.

        A payload has the form of its `like`, with the leading axes `leads`.
        """
        parts = [
            (one, (*lead, nbytes(one, len(lead))), len(lead))
            for like, lead in zip(likes, leads, strict=False)
            for one in _elements(like)
        ]
        sizes = [math.prod(shape) for _, shape, _ in parts]
        kept = self._kept if self.is_tiled else None
        arrived = swap_messages([one for row in messages for one in row], sizes, self.group, len(messages[0]), kept)
        given = zip(arrived, parts, strict=True)
        found = [tensors(from_bytes(one.view(shape), like, lead)) for one, (like, shape, lead) in given]
        flat = chain.from_iterable(found)
        return [rebuild(like, flat) for like in likes]

    def _templates(self, x: Tensor, t: int) -> list[Payload]:
        """Return a payload for each server, with the shapes and dtypes of its message in round t."""
        return self._answers(x, t)

    def _answers(self, x: Tensor, t: int) -> list[Payload]:
        """Return a payload for each server, with the form of its answer in round t."""
        codec = self.algorithm.downlink.codec(t)
        if codec not in self._known:
            like = codec.encode(torch.zeros_like(x), MessageKey.none())
            self._known[codec] = [self._cut(like, codec, server) for server in range(self._servers)]
        return self._known[codec]

    def _cut(self, payload: Payload, codec: Parts, server: int) -> Payload:
        """Cut a server's part out of a payload of all coordinates."""
        own = zip(codec.compressors, payload, self._shards(server), strict=True)
        return tuple(require_shardable(one).cut(part, shard) if shard else () for one, part, shard in own)

    def _join(self, answers: Sequence[Payload], t: int) -> Payload:
        """Join the servers' shards to the decoded message of every part."""
        if self.is_tiled:
            return tuple(answers)
        found: list[list[Tensor]] = [[] for _ in self.cuts]
        for server, answer in enumerate(answers):
            own = zip(self.algorithm.downlink.codec(t).compressors, answer, self._shards(server), found, strict=True)
            for one, payload, shard, parts in own:
                if shard:
                    parts.append(require_shardable(one).decode_shard(payload, shard))
        return tuple(Vector(torch.cat(parts, -1)) for parts in found)

    @property
    def shards(self) -> list[list[_Served | None]]:
        """The shards of every server."""
        return [self._shards(server) for server in range(self._servers)]

    def _shards(self, server: int) -> list[_Served | None]:
        """Return a server's shard of every part."""
        return [_Served(one, server, self.group) if server < len(one) - 1 else None for one in self.cuts]


def swap_messages(
    messages: Sequence[Tensor],
    sizes: Sequence[int],
    group: dist.ProcessGroup | None = None,
    each: int = 1,
    kept: dict[int, Tensor] | None = None,
) -> list[Tensor]:
    """Send messages [*] to the first ranks of a group, and return their messages for this rank.

    Every rank gets the next `each` messages. sizes: the number of elements of each arriving message. kept: their
    buffers, which this function adds and enlarges.

    All receives are posted before anything is sent. gloo's all_to_all_single posts them later and takes up to twice
    as long; its all_gather uses a ring. Raises LostContact.
    """
    mine, arrived = dist.get_rank(group), []
    for index, size in enumerate(sizes):
        if index // each == mine:
            arrived.append(messages[index])
        elif kept is None:
            arrived.append(messages[0].new_empty(size))
        else:
            if index not in kept or len(kept[index]) < size:
                kept[index] = messages[0].new_empty(size)
            arrived.append(kept[index][:size])
    operations = [
        dist.P2POp(act, message, group=group, group_peer=index // each)
        for act, row in ((dist.irecv, arrived), (dist.isend, messages))
        for index, message in enumerate(row)
        if index // each != mine and len(message)
    ]
    with convert_collective_errors():
        for work in dist.batch_isend_irecv(operations) if operations else ():
            work.wait()
    return arrived


@dataclass(frozen=True)
class _Served(Shard):
    """A shard that this rank serves. It exchanges numbers with the servers of the other shards."""

    group: dist.ProcessGroup | None

    def all_gather(self, mine: Tensor, counts: Sequence[int]) -> list[Tensor]:
        lead, messages = mine.shape[:-1], [mine.flatten()] * len(counts)
        theirs = swap_messages(messages, [math.prod(lead) * count for count in counts], self.group)
        return [one.view(*lead, count) for one, count in zip(theirs, counts, strict=True)]


def _has_tiles(part: Algorithm, state: ServerState, t: int) -> bool:
    return part.clip is None and has_tiles(part.uplink, None, t) and has_tiles(part.downlink, state.memory, t)


def _needs_norm(algorithm: Algorithm) -> bool:
    return algorithm.clip is not None and type(algorithm).server_message is not Algorithm.server_message


def _elements(payload: Payload) -> list[Payload]:
    return [(one,) if isinstance(one, Tensor) else one for one in payload]


def _messages(payload: Payload, lead: int) -> list[Tensor]:
    """Return the bytes [*] of every element of a payload. A single contiguous tensor is not copied."""
    found = []
    for one in _elements(payload):
        [*parts] = tensors(one)
        lone = len(parts) == 1 and parts[0].is_contiguous()
        found.append((parts[0].unsqueeze(-1).view(torch.uint8) if lone else to_bytes(one, lead)).flatten())
    return found


def _varies(codec: Parts) -> bool:
    return any(require_shardable(one).varies for one in codec.compressors)


def _sizes(payload: Payload) -> Tensor:
    found = list(tensors(payload))
    return torch.tensor([tensor.shape[-1] for tensor in found], device=found[0].device)


def _resize(payload: Payload, sizes: list[int]) -> Payload:
    """Return a payload of the same form, with these sizes of the tensors' last axes."""
    parts = zip(tensors(payload), sizes, strict=True)
    return rebuild(payload, (tensor.new_empty(*tensor.shape[:-1], size) for tensor, size in parts))
