"""Rounds in place: a new state is written into the memory of the old one."""

from contextvars import ContextVar

from torch import Tensor

in_place = ContextVar("in_place", default=False)


def memory_of(old: Tensor, otherwise: Tensor | None = None) -> Tensor | None:
    """The `out=` of an operation that replaces `old`: `old` itself in a round in place, otherwise new memory."""
    return old if in_place.get() else otherwise
