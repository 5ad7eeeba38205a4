"""Messages that leave during backward: an optimizer's parts, heard of by hooks on its parameters' gradients."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple
from weakref import WeakMethod

import torch
from torch import Tensor

from ..comm.consistency import is_finite
from ..comm.departures import Departures, Made
from ..core.grouped import SideBySide, States
from .flat_params import Flat
from .param_groups import Settings


class Beginning(NamedTuple):
    """What the messages of a round are made of, besides gradients and memories."""

    t: int
    settings: Settings
    abreast: SideBySide  # with these settings
    replicas: States  # at the parameters as they are


class Early:
    """Sends the message of every part as soon as backward has left its gradients, and those of all parts behind it in
    the vector, in `.grad`.

    parts: the parameters of every part of the vector, which together are `flat`. t: the number of the next round.
    begin: what it starts from; it may raise ValueError, which is then left to the step that ends the round. message:
    what the part of a number sends for its gradient.
    """

    def __init__(
        self,
        flat: Flat,
        parts: Sequence[Flat],
        departures: Departures,
        t: Callable[[], int],
        begin: Callable[[], Beginning],
        message: Callable[[int, Tensor, Beginning], Made],
    ) -> None:
        self._place, self._parts, self._departures = flat.places(), parts, departures
        self._t, self._begin, self._message = t, begin, message
        self._beginning: Beginning | None = None  # of a round of which messages have left
        self._listens = True
        # Held weakly: parameters may live longer, and the garbage collector does not see what torch holds of hooks.
        arrived = WeakMethod(self._arrived)

        def hear(param: Tensor) -> None:
            if act := arrived():
                act(param)

        self._hooks = [param.register_post_accumulate_grad_hook(hear) for param in flat.params]

    def remove(self) -> None:
        """Hear no more."""
        for hook in self._hooks:
            hook.remove()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let nothing leave in here."""
        before, self._listens = self._listens, False
        try:
            yield
        finally:
            self._listens = before

    def check_unchanged(self, settings: Settings, replicas: States, gradients: Sequence[Tensor]) -> None:
        """Raise ValueError where a message has left that is not of these settings or parameters, or not of its part's
        gradient."""
        if self._beginning is None:
            return
        left = zip(self._departures.made, reversed(gradients), strict=False)  # the last parts, if not all
        changed = [_differ(made, gradient) for made, gradient in left]
        moved = [not torch.equal(now.x, then.x) for now, then in zip(replicas, self._beginning.replicas, strict=True)]
        if any(changed) or any(moved) or settings != self._beginning.settings:
            raise ValueError(
                "a gradient, a parameter, lr or another setting has changed since its message left during backward: "
                "call all backward passes of a step but the last in no_sync(), those of other losses too, change "
                "settings before the last, and leave bucket_mb out where gradients are clipped or unscaled before "
                "the step or a module is checkpointed by use_reentrant=True and used twice"
            )

    def end(self) -> None:
        """The round is over: the next message begins another one."""
        self._beginning = None

    @torch.no_grad()
    def _arrived(self, param: Tensor) -> None:
        if not self._listens:
            return
        self._departures.count(self._place[param])
        with suppress(ValueError):  # the step raises it, where this rank takes part in the exchange all the same
            self._departures.leave(self._t(), self._made)

    def _made(self, number: int) -> Made:
        self._beginning = self._beginning or self._begin()
        return self._message(number, self._parts[number].gradient(), self._beginning)


def _differ(made: Made, gradient: Tensor) -> bool:
    """Whether the gradient is another one than what was sent; NaN is like NaN."""
    if not made.usable:
        return is_finite(gradient)
    return not torch.equal(made.gradient, gradient)
