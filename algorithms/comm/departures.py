"""The messages of one round, made part by part as gradients come to be known: the last part first."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..compressors import Payload
from ..core.algorithm import ReplicaState, WorkerState
from ..core.grouped import SideBySide
from .consistency import is_finite
from .overlapping import OverlappingWire


class Made(NamedTuple):
    """What one part sends."""

    payload: Payload
    worker: WorkerState  # after it
    gradient: Tensor  # [size], as it was then
    usable: bool  # whether that was finite; otherwise the message is of zeros


class Departures:
    """Which parts of a round have all their gradients, and what was made of them.

    sizes: of all parts, in coordinates. wire: on which parts may leave ahead of the round's header; None: on none.
    """

    def __init__(self, sizes: Sequence[int], wire: OverlappingWire | None) -> None:
        self._sizes, self._wire = tuple(sizes), wire if len(sizes) > 1 else None
        self._lacking = list(sizes)  # of how many coordinates every part still lacks the gradient
        self.made: list[Made] = []  # so far, the last part first

    def count(self, place: slice) -> None:
        """The gradient of a tensor, at these coordinates of the vector, is there."""
        begin = 0
        for number, size in enumerate(self._sizes):
            if begin <= place.start < begin + size:
                self._lacking[number] -= place.stop - place.start
            begin += size

    def leave(self, t: int, make: Callable[[int], Made]) -> None:
        """Of round t, make and send the message of every part that is complete, as are all after it.

        make: the message of the part of a number. Raises what it raises, and LostContact.
        """
        if self._wire is None or not self._wire.is_open(t):
            return
        while len(self.made) < len(self._sizes) and self._lacking[self._next] <= 0:
            made = make(self._next)
            self._wire.leave(made.payload)
            self.made.append(made)

    def close(self, t: int, make: Callable[[int], Made]) -> tuple[Made, ...]:
        """The messages of all parts in round t, in the order of the vector, whatever is still lacking."""
        self._lacking = [0] * len(self._sizes)
        self.leave(t, make)  # all of them, where one may: the others' wires expect it
        while len(self.made) < len(self._sizes):
            self.made.append(make(self._next))
        made, self.made, self._lacking = tuple(reversed(self.made)), [], list(self._sizes)
        return made

    @property
    def _next(self) -> int:
        """The number of the part whose message is made next."""
        return len(self._sizes) - 1 - len(self.made)


def message(
    abreast: SideBySide,
    number: int,
    gradient: Tensor,
    state: WorkerState,
    replica: ReplicaState,
    lr: float,
    t: int,
    seed: int,
) -> Made:
    """What part `number` of algorithms side by side sends in round t for one worker's gradient [size]."""
    usable = is_finite(gradient)
    sent = gradient if usable else torch.zeros_like(gradient)
    payload, worker = abreast.worker_of(number, sent.unsqueeze(0), state, replica, lr, t, seed)
    return Made(payload, worker, gradient, usable)
