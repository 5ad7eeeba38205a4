"""Ranks compare their states before every round. The bytes for this travel with each payload."""

import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import reduce
from hashlib import blake2b
from math import isfinite
from operator import or_
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import torch
import torch.distributed as dist
from torch import Tensor

from ..compressors.base import Payload
from ..compressors.blocks import Parts
from ..core.grouped import GroupedAlgorithms
from ..utils.seeding import MessageKey, keyed_seed
from .gather_broadcast import GatherBroadcast, check_size, convert_collective_errors
from .nodes import Nodes
from .sharded_server import ShardedServer

_NUMBERS = 5  # in a header or verdict, before the flags of parameters
BYTES = 8 * _NUMBERS
"""Size of these numbers. Meters do not count them or the flags, because they are not part of an algorithm."""

SHARDED_FROM = 2**22
"""If coordinates times workers reach this, servers on all ranks are faster than one (benchmarks/README.md)."""

_FLAGS = 63  # flags of parameters per signed 64-bit number
_BLOCKS, _COLUMNS = 61, 64  # layout of a digest; rows of 64 numbers are added at the speed of memory
_GO, _SKIP, _REFUSED, _DIFFER = range(4)  # first number of a verdict; _DIFFER + i: quantity i differs
_ADVICE = {
    "round": "load states that all ranks saved in the same step",
    "lr": "give schedulers the same number on every rank, such as the mean of all ranks' losses",
    "x": "give every rank the same number of steps (DistributedDataParallel.join is not supported), change "
    "parameters on all ranks alike, and use machines that compute alike",
    "replicated": "parameters outside this optimizer must be equal too; average their gradients over the ranks",
    "settings": "set lr, weight_decay, betas and momentum of every parameter group alike on all ranks",
}


Readiness = Literal["ready", "not finite", "refused"]
"""State of a rank before a round: it can step, its gradient is not finite, or it cannot step and raises an error."""

_READINESS = get_args(Readiness)


class Disagreement(RuntimeError):
    """A rank differs from the others: `rank`, in `step` (from 1; 0 before the first), in `quantity`."""

    def __init__(self, rank: int, step: int, quantity: str, why: str) -> None:
        super().__init__(rank, step, quantity, why)
        self.rank, self.step, self.quantity, self.why = rank, step, quantity, why

    def __str__(self) -> str:
        return f"step {self.step}: rank {self.rank} differs from the others in {self.quantity}: {self.why}"


class CheckedPayload(NamedTuple):
    """A payload with its control numbers: a header on the way up, a verdict on the way down."""

    control: Tensor  # int64 [..., _NUMBERS + ⌈parameters / 63⌉]
    payload: Payload


_Wire = GatherBroadcast if TYPE_CHECKING else object  # the subclasses below inherit from one of two wires


class Consistent(_Wire):
    """Compares the ranks in every round. Either all ranks step or none does.

    A rank's header has the round, lr, a digest of x, a digest of parameters outside the optimizer, and one number for
    its other settings and its readiness. One flag per parameter follows: whether it has a gradient. Every server
    compares the headers of all ranks, and sends its verdict with the flags of all ranks, joined by or.

    nodes: each node's first rank exchanges its messages. parameters: the number of flags. needs_all: whether a
    round needs a gradient of every parameter. period: the number of steps per round.
    """

    def __init__(
        self, algorithm: Any, seed: int, nodes: Nodes, parameters: int = 0, needs_all: bool = False, period: int = 1
    ) -> None:
        group: Any = nodes.group
        super().__init__(algorithm, seed, group)
        self._nodes, self._parameters, self._needs_all = nodes, parameters, needs_all
        self._next = self._period = period  # _next: the round that the other ranks expect

    def step(
        self,
        up: Payload,
        server: Any,
        x: Tensor,
        lr: float,
        t: int,
        readiness: Readiness = "ready",
        settings: object = "",
        replicated: int = 0,
        gradient_flags: int = 0,
        digest_of_x: int | None = None,
    ) -> tuple[Payload | None, Any, int]:
        """Compare ranks and exchange messages.

        Returns the server's payload, its new state, and the gradient flags of all ranks. If a rank is not ready or
        gradients are missing (see `may_step`), the round is skipped: the payload is None and the state unchanged.

        x [d]: this rank's parameters before round t. settings: all other values that must be equal on all ranks,
        compared as text. replicated: a digest of parameters outside the optimizer. gradient_flags: bit i is set if
        parameter i has a gradient. digest_of_x: the parameters' digest, if x is only a template.
        Raises Disagreement, on every rank except those that refuse, and LostContact.
        """
        of_settings = keyed_seed(str(settings)) >> 2 << 2
        [lr_bits] = struct.unpack("<q", struct.pack("<d", lr))
        digest_of_x = digest(x) if digest_of_x is None else digest_of_x
        header = [t, lr_bits, digest_of_x, replicated, of_settings | _READINESS.index(readiness)]
        flags = [gradient_flags >> at & (1 << _FLAGS) - 1 for at in range(0, self._parameters, _FLAGS)]
        if t != self._next:  # a state was loaded, perhaps not on all ranks, and messages of round t may be longer
            key = MessageKey(self.seed, "up", self._next, (self.rank,))
            nothing = self.algorithm.uplink.codec(self._next).encode(torch.zeros_like(x).unsqueeze(0), key)
            unready = of_settings | _READINESS.index("not finite")
            self._compare(nothing, server, x, [*header[:-1], unready, *flags], like=self._next)
        down, server, gradient_flags = self._compare(up, server, x, [*header, *flags], like=t)
        self._next = t if down is None else t + self._period
        return down, server, gradient_flags

    def _compare(
        self, up: Payload, server: Any, x: Tensor, header: list[int], like: int
    ) -> tuple[Payload | None, Any, int]:
        check_size(up, 1, self.algorithm.uplink, x, like)
        control = self._nodes.gather(torch.tensor([header], device=x.device))
        if self._nodes.leads:
            answer, server = self.exchange(CheckedPayload(control, up), server, x, like)
        else:
            answer = self._join(self._templates(x, like), like)
        answer = self._nodes.broadcast(answer)
        assert isinstance(answer, CheckedPayload)
        kind, rank, theirs, expected, _, *flags = answer.control.tolist()
        if kind >= _DIFFER:
            raise _disagreement(list(_ADVICE)[kind - _DIFFER], rank, header[0], theirs, expected)
        if kind == _REFUSED and header[_NUMBERS - 1] & 3 != _READINESS.index("refused"):
            raise Disagreement(rank, header[0], "parameters", "it cannot step; see the error of that rank")
        return (answer.payload if kind == _GO else None), server, _join_flags(flags)

    def _serve(self, payloads: Iterable[Payload], server: Any, x: Tensor, t: int) -> tuple[Payload, Any]:
        arrived = [message for message in payloads if isinstance(message, CheckedPayload)]
        headers = torch.stack([message.control for message in arrived]).view(len(self._nodes.order), -1).tolist()
        headers = [header for _, header in sorted(zip(self._nodes.order, headers, strict=True))]
        flags = [reduce(or_, of_ranks) for of_ranks in zip(*(header[_NUMBERS:] for header in headers), strict=True)]
        verdict = _verdict([header[:_NUMBERS] for header in headers])
        if verdict[0] == _GO and not may_step(_join_flags(flags), self._parameters, self._needs_all):
            verdict[0] = _SKIP
        if verdict[0] == _GO:
            down, server = super()._serve([message.payload for message in arrived], server, x, t)
        else:
            down = super()._templates(x, t)[self.rank]
        return CheckedPayload(torch.tensor([*verdict, *flags], device=x.device), down), server

    def _templates(self, x: Tensor, t: int) -> list[Payload]:
        numbers = _NUMBERS + -(-self._parameters // _FLAGS)
        control = torch.zeros(numbers, dtype=torch.int64, device=x.device)
        return [CheckedPayload(control, one) for one in super()._templates(x, t)]

    def _join(self, answers: Sequence[Any], t: int) -> Payload:
        return CheckedPayload(answers[0].control, super()._join([one.payload for one in answers], t))


class ConsistentGatherBroadcast(Consistent, GatherBroadcast):
    """A server on rank 0."""


class ConsistentShardedServer(Consistent, ShardedServer):
    """A server on every rank, for its part of the coordinates."""

    def _cut(self, payload: Payload, codec: Parts, server: int) -> Payload:
        if isinstance(payload, CheckedPayload):
            return CheckedPayload(payload.control, super()._cut(payload.payload, codec, server))
        return super()._cut(payload, codec, server)


def connect(
    algorithm: GroupedAlgorithms, seed: int, nodes: Nodes, parameters: int = 0, needs_all: bool = False
) -> ConsistentGatherBroadcast | ConsistentShardedServer:
    """Return the faster wire: one server for few coordinates, else one per rank. Arguments as for `Consistent`."""
    given = algorithm, seed, nodes, parameters, needs_all
    if nodes.size > 1 and nodes.size * sum(algorithm.sizes) >= SHARDED_FROM:
        with suppress(ValueError):  # a compressor needs the whole vector
            return ConsistentShardedServer(*given)
    return ConsistentGatherBroadcast(*given)


def may_step(gradient_flags: int, parameters: int, needs_all: bool) -> bool:
    """Whether enough parameters have a gradient: all if `needs_all`, otherwise at least one."""
    return gradient_flags == (1 << parameters) - 1 if needs_all else bool(gradient_flags) or not parameters


def check_consistency(device: torch.device, group: dist.ProcessGroup | None = None, **quantities: object) -> None:
    """Compare quantities between the ranks of a group, as text, in one collective.

    Raises Disagreement on every rank if they differ, and LostContact.
    """
    mine = torch.tensor([keyed_seed(str(value)) for value in quantities.values()], device=device)
    everyone = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    with convert_collective_errors():
        dist.all_gather(everyone, mine, group)
    if found := _first_difference([row.tolist() for row in everyone]):
        rank, index = found
        name, own = list(quantities.items())[index]
        here = dist.get_rank(group)
        raise Disagreement(rank, 0, name, f"on rank {here} it is {own}; start all ranks with the same")


def digest(vector: Tensor, blocks: int = _BLOCKS) -> int:
    """Return a 64-bit hash of a vector [d] of any dtype, in one pass.

    It sums the bits as integers, by block and column, and hashes the sums. One changed bit changes one sum. It does
    not detect swapped coordinates of the same block and column. Fewer blocks are faster for short vectors.
    """
    raw = vector.contiguous().unsqueeze(-1).view(torch.uint8).flatten()
    raw = raw.clone() if raw.storage_offset() % 8 else raw
    whole = len(raw) - len(raw) % (8 * blocks * _COLUMNS)
    bits = blake2b(raw[whole:].cpu().numpy().tobytes(), digest_size=8)
    if whole:
        bits.update(raw[:whole].view(torch.int64).view(blocks, -1, _COLUMNS).sum(1).cpu().numpy().tobytes())
    return int.from_bytes(bits.digest(), "little", signed=True)


def digest_of_all(tensors: Iterable[Tensor]) -> int:
    """Return a digest of tensors of any shapes and dtypes, without copying contiguous ones."""
    return keyed_seed(*(digest(tensor.detach().flatten(), blocks=8) for tensor in tensors))


def is_finite(vector: Tensor) -> bool:
    # The sum of squares is the fastest pass, but it may overflow.
    return isfinite(vector.dot(vector).item()) or bool(vector.isfinite().all())


def _verdict(headers: list[list[int]]) -> list[int]:
    """Return the numbers of a verdict: its kind, the rank that differs, its value, the others' value, and 0."""
    same = [[*header[:-1], header[-1] >> 2] for header in headers]
    if found := _first_difference(same):
        rank, index = found
        return [_DIFFER + index, rank, same[rank][index], _most_common(row[index] for row in same), 0]
    readiness = [_READINESS[header[-1] & 3] for header in headers]
    if "refused" in readiness:
        return [_REFUSED, readiness.index("refused"), 0, 0, 0]
    return [_SKIP if "not finite" in readiness else _GO, 0, 0, 0, 0]


def _join_flags(flags: Sequence[int]) -> int:
    return sum(some << _FLAGS * number for number, some in enumerate(flags))


def _disagreement(quantity: str, rank: int, t: int, theirs: int, expected: int) -> Disagreement:
    advice = _ADVICE[quantity]
    if quantity == "round":
        return Disagreement(rank, expected, quantity, f"{theirs} instead of {expected}; {advice}")
    if quantity == "lr":
        return Disagreement(rank, t, quantity, f"{_float(theirs)} instead of {_float(expected)}; {advice}")
    return Disagreement(rank, t, quantity, advice)


def _first_difference(rows: list[list[int]]) -> tuple[int, int] | None:
    """Return the first rank with another value than most, and the value's index; None if all rows are equal."""
    for index, values in enumerate(zip(*rows, strict=True)):
        expected = _most_common(values)
        for rank, value in enumerate(values):
            if value != expected:
                return rank, index
    return None


def _most_common(values: Iterable[int]) -> int:
    return Counter(values).most_common(1)[0][0]


def _float(bits: int) -> float:
    return struct.unpack("<d", struct.pack("<q", bits))[0]
