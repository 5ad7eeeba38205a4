"""Characters that act instead of being read: they move a terminal's cursor, end a line, or turn text around."""

import unicodedata
from collections.abc import Mapping, Sequence

_ACTING = {"Cc", "Zl", "Zp", "Cs"}  # control, line and paragraph separators, half a pair
_TURNING = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def acting(text: str, allowed: str = "") -> str:
    """The first such character of a text, other than those allowed, as it is written in Python; "" where none is."""
    if text.isprintable():  # as nearly all is, which is soon seen
        return ""
    return next((_written(one) for one in text if _acts(one) and one not in allowed), "")


def visible(text: str, allowed: str = "") -> str:
    """A text in which such characters stand as they are written in Python: \\x1b for escape."""
    if text.isprintable():
        return text
    return "".join(_written(one) if _acts(one) and one not in allowed else one for one in text)


def within(node: object, key: str = "", allowed: str = "") -> tuple[str, str] | None:
    """The first key, dotted, of nested mappings and lists whose name or text has such a character, and which one it
    is; None where there is none."""
    if isinstance(node, str):
        found = acting(node, allowed)
        return (visible(key), found) if found else None
    pairs: list[tuple[object, object]] = []
    if isinstance(node, Mapping):
        pairs = list(node.items())
    elif isinstance(node, Sequence):
        pairs = list(enumerate(node))
    for name, value in pairs:
        place = f"{key}.{name}" if key else str(name)
        found = within(str(name), place) or within(value, place, allowed)
        if found:
            return found
    return None


def _acts(one: str) -> bool:
    return one in _TURNING or unicodedata.category(one) in _ACTING


def _written(one: str) -> str:
    return repr(one)[1:-1] if not one.isprintable() else f"\\u{ord(one):04x}"
