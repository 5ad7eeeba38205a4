"""Control characters: they move a terminal's cursor or end a line instead of being read."""

from unicodedata import category

_CONTROL = ("Cc", "Zl", "Zp", "Cs")  # control, line and paragraph separators, half a pair


def visible(text: str, allowed: str = "") -> str:
    """A text with control characters written as in Python: \\x1b for escape."""
    if text.isprintable():  # nearly every text
        return text
    return "".join(repr(c)[1:-1] if category(c) in _CONTROL and c not in allowed else c for c in text)
