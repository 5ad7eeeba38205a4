"""The name that was meant where one is not known."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def unknown(what: str, name: str, names: Iterable[str]) -> str:
    """A message about a name that is none."""
    return f"{what}; {nearest(name, names)}"


def nearest(name: str, names: Iterable[str]) -> str:
    """Of a name that is none, in words: the nearest that is one, and all of them."""
    names = [str(valid) for valid in names]
    near = get_close_matches(name, names, n=1, cutoff=0.4)
    return f"{f'did you mean {near[0]}? ' if near else ''}Valid: {', '.join(names) or 'none'}"
