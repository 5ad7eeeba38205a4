"""Messages in parts, each of which leaves as soon as its part of the gradient is there."""

from collections.abc import Iterable
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from ..compressors import Payload
from ..compressors.base import rebuild, tensors
from .consistency import AgreeingWire, Beside
from .gather_broadcast import contact, from_bytes, to_bytes


class _Left(NamedTuple):
    """A part's payload on its way to rank 0."""

    like: Payload  # as rank 0 reads it
    message: Tensor  # uint8 [1, bytes], kept as long as it is read from
    arriving: list[Tensor] | None  # on rank 0, where every rank's will be
    sending: dist.Work


class OverlappingWire(AgreeingWire):
    """An agreeing wire of algorithms side by side, whose payloads may go up part by part, ahead of the header.

    What crosses, and what comes of it, is the same as on the wire that waits for all of them: a header says whether
    what has left counts.
    """

    _left: tuple[_Left, ...] = ()

    def is_open(self, t: int) -> bool:
        """Whether parts may leave in round t: not before ranks have agreed that it is the next."""
        return t == self._next

    def leave(self, payload: Payload) -> None:
        """Send a part's payload [1, …] up, while this rank goes on; the last part first, and then all others.

        Raises LostContact.
        """
        message = to_bytes(payload, 1)
        arriving = [torch.empty_like(message) for _ in range(self.size)] if self.rank == 0 else None
        with contact():
            sending = dist.gather(message, arriving, dst=0, group=self._group, async_op=True)
        assert sending is not None  # this rank is one of the group
        like = rebuild(payload, (tensor.select(0, 0) for tensor in tensors(payload)))
        self._left = (_Left(like, message, arriving, sending), *self._left)

    def _ahead(self, payload: Payload) -> None:
        if len(payload) > 1:  # as others, who go on, have sent theirs
            for part in reversed(payload):
                self.leave(part)  # pyright: ignore[reportArgumentType]: a payload a part

    def _arrived(self, up: Payload, axis: int) -> Iterable[Payload] | None:
        left, self._left = self._left, ()
        if not left:
            return super()._arrived(up, axis)
        assert isinstance(up, Beside)
        headers = super()._arrived(Beside(up.control, ()), axis)
        for part in left:
            with contact():
                part.sending.wait()
        if headers is None:
            return None
        return [
            Beside(header[0], tuple(_of(rank, part) for part in left))  # pyright: ignore[reportArgumentType]: a Beside
            for rank, header in enumerate(headers)
        ]


def _of(rank: int, part: _Left) -> Payload:
    """What a rank has sent."""
    assert part.arriving is not None  # this is rank 0
    return from_bytes(part.arriving[rank][0], part.like, 0)
