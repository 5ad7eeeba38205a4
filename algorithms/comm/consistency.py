"""What ranks compare before they step together: some bytes beside every payload, in the same two collectives."""

import struct
from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from ..compressors.base import Payload
from ..utils.seeding import MessageKey, keyed_seed
from .gather_broadcast import GatherBroadcast, contact

BYTES = 32
"""Of a header and of a verdict: they are no communication of the algorithm, and no meter counts them."""

_BLOCKS, _COLUMNS = 61, 64  # of a digest's layout; rows of 64 numbers are added up at the speed of memory
_GO, _SKIP, _DIFFER = range(3)  # what a verdict begins with; _DIFFER and more name the quantity
_ADVICE = {
    "round": "every rank loads the state that it saved in the same step",
    "lr": "a scheduler is given the same number on every rank, such as the mean of all ranks' losses",
    "x": "parameters are changed from outside on all ranks alike or not at all, on machines that compute alike",
    "settings": "lr, weight_decay, betas and momentum of every parameter group are the same on every rank",
}


class Disagreement(RuntimeError):
    """A rank is not where the others are: `rank`, in `step` (from 1; 0 before the first), differs in `quantity`."""

    def __init__(self, rank: int, step: int, quantity: str, why: str) -> None:
        super().__init__(rank, step, quantity, why)
        self.rank, self.step, self.quantity, self.why = rank, step, quantity, why

    def __str__(self) -> str:
        return f"step {self.step}: rank {self.rank} differs from the others in {self.quantity}: {self.why}"


class Beside(NamedTuple):
    """A payload with what crosses beside it: a header up, a verdict down."""

    control: Tensor  # int64 [..., 4]
    payload: Payload


class ConsistentGatherBroadcast(GatherBroadcast):
    """A wire on which ranks that differ do not step, and on which all step or none does.

    A rank's header is round, lr, a digest of x, and in one number a digest of its other settings and, as last bit,
    whether its gradient is usable. The server compares headers, and sends its verdict.
    """

    _next = 1  # the round that the others take this rank to be in

    def step(
        self, up: Payload, server: Any, x: Tensor, lr: float, t: int, usable: bool, settings: object = ""
    ) -> tuple[Payload | None, Any]:
        """What `exchange` returns, or None and the state as it was where a rank's gradient is not `usable`.

        x [d] are this rank's parameters before round t; settings: what else is to be the same on all ranks, as text.
        Raises Disagreement, on every rank, and LostContact.
        """
        header = [t, _bits(lr), digest(x), keyed_seed(str(settings)) >> 1 << 1 | usable]
        if t != self._next:  # a state was loaded, perhaps not everywhere, and messages of round t may be longer
            key = MessageKey(self.seed, "up", self._next, (self.rank,))
            nothing = self.algorithm.uplink.codec(self._next).encode(torch.zeros_like(x).unsqueeze(0), key)
            self._compare(nothing, server, x, [*header[:-1], header[-1] & ~1], like=self._next)
        down, server = self._compare(up, server, x, header, like=t)
        self._next = t if down is None else t + 1
        return down, server

    def _compare(
        self, up: Payload, server: Any, x: Tensor, header: list[int], like: int
    ) -> tuple[Payload | None, Any]:
        answer, server = self.exchange(Beside(torch.tensor([header], device=x.device), up), server, x, like)
        assert isinstance(answer, Beside)
        kind, rank, theirs, expected = answer.control.tolist()
        if kind >= _DIFFER:
            raise _disagreement(list(_ADVICE)[kind - _DIFFER], rank, header[0], theirs, expected)
        return (answer.payload if kind == _GO else None), server

    def _serve(self, payloads: Iterable[Payload], server: Any, x: Tensor, t: int) -> tuple[Payload, Any]:
        arrived = [message for message in payloads if isinstance(message, Beside)]
        verdict = _verdict(torch.stack([message.control for message in arrived]).tolist())
        if verdict[0] == _GO:
            down, server = super()._serve([message.payload for message in arrived], server, x, t)
        else:
            down = super()._template(x, t)
        return Beside(torch.tensor(verdict, device=x.device), down), server

    def _template(self, x: Tensor, t: int) -> Payload:
        return Beside(torch.zeros(4, dtype=torch.int64, device=x.device), super()._template(x, t))


def check_consistency(device: torch.device, group: dist.ProcessGroup | None = None, **quantities: object) -> None:
    """Raise Disagreement on every rank of a group where they differ in the text of a quantity. One collective.

    Also raises LostContact.
    """
    mine = torch.tensor([keyed_seed(str(value)) for value in quantities.values()], device=device)
    everyone = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    with contact():
        dist.all_gather(everyone, mine, group)
    if found := _odd_one([row.tolist() for row in everyone]):
        rank, index = found
        name, own = list(quantities.items())[index]
        here = dist.get_rank(group)
        raise Disagreement(rank, 0, name, f"on rank {here} it is {own}; start all ranks with the same")


def digest(vector: Tensor) -> int:
    """64 bits that depend on every bit of a vector [d], whatever its dtype, and on where it stands; read once.

    Blocks of rows of whole numbers are summed, and the sums hashed: one bit changes one sum, an exchange of two
    coordinates none where they share block and column.
    """
    raw = vector.view(torch.uint8)
    whole = len(raw) - len(raw) % (8 * _BLOCKS * _COLUMNS)
    bits = blake2b(raw[whole:].cpu().numpy().tobytes(), digest_size=8)
    if whole:
        bits.update(raw[:whole].view(torch.int64).view(_BLOCKS, -1, _COLUMNS).sum(1).cpu().numpy().tobytes())
    return int.from_bytes(bits.digest(), "little", signed=True)


def is_finite(vector: Tensor) -> bool:
    # The sum of squares is the fastest pass; where it is not finite it may have overflowed.
    return bool(vector.dot(vector).isfinite()) or bool(vector.isfinite().all())


def _verdict(headers: list[list[int]]) -> list[int]:
    """[what to do, and where ranks differ: the rank, its value and the others']."""
    same = [[*header[:-1], header[-1] >> 1] for header in headers]
    if found := _odd_one(same):
        rank, index = found
        return [_DIFFER + index, rank, same[rank][index], _commonest(row[index] for row in same)]
    return [_GO if all(header[-1] & 1 for header in headers) else _SKIP, 0, 0, 0]


def _disagreement(quantity: str, rank: int, t: int, theirs: int, expected: int) -> Disagreement:
    advice = _ADVICE[quantity]
    if quantity == "round":
        return Disagreement(rank, expected, quantity, f"{theirs} instead of {expected}; {advice}")
    if quantity == "lr":
        return Disagreement(rank, t, quantity, f"{_float(theirs)} instead of {_float(expected)}; {advice}")
    return Disagreement(rank, t, quantity, advice)


def _odd_one(rows: list[list[int]]) -> tuple[int, int] | None:
    """The first rank that has another value than most, and the number of the value; None where all rows are equal."""
    for index, values in enumerate(zip(*rows, strict=True)):
        expected = _commonest(values)
        for rank, value in enumerate(values):
            if value != expected:
                return rank, index
    return None


def _commonest(values: Iterable[int]) -> int:
    return Counter(values).most_common(1)[0][0]


def _bits(number: float) -> int:
    return struct.unpack("<q", struct.pack("<d", number))[0]


def _float(bits: int) -> float:
    return struct.unpack("<d", struct.pack("<q", bits))[0]
