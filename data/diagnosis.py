"""Finding the first thing wrong with svmlight text: slow, so only for text that is known to be wrong."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

# Column indices are stored as int32, zero-based.
LARGEST_INDEX = 2**31 - 1


class Trouble(NamedTuple):
    """What is wrong, and where: `line` and `column` count from 1 and point to the start of the bad token."""

    line: int
    column: int
    what: str


def first_trouble(text: bytes) -> Trouble | None:
    """The first place where `text` is not a binary data set in svmlight form; None if there is none.

    A row is `label index:value index:value ...`: finite numbers, whole indices that count from 1 and
    increase, two different labels in all. `#` starts a comment; `qid:...` after the label is passed over.
    """
    labels: dict[float, str] = {}
    for number, line in enumerate(text.split(b"\n"), start=1):
        tokens = [(match.start() + 1, match[0]) for match in re.finditer(rb"\S+", line.split(b"#", 1)[0])]
        if not tokens:
            continue
        what = _label_trouble(tokens[0][1], labels)
        if what:
            return Trouble(number, tokens[0][0], what)
        previous = 0
        for position, (column, token) in enumerate(tokens[1:]):
            if position == 0 and token.startswith(b"qid:"):
                continue
            what = _feature_trouble(token, previous)
            if what:
                return Trouble(number, column, what)
            previous = int(token.split(b":", 1)[0])
    return None


def _label_trouble(token: bytes, labels: dict[float, str]) -> str | None:
    """What is wrong with a label, given those of the rows above; a good new one joins them."""
    label = _number(token)
    if label is None:
        return f"expected a label, a number, found {_shown(token)}"
    if not math.isfinite(label):
        return f"the label {_shown(token)} is not a finite number"
    if label not in labels and len(labels) == 2:
        return f"found a third label, {_shown(token)}, after {' and '.join(labels.values())}: keep two"
    labels.setdefault(label, _shown(token))
    return None


def _feature_trouble(token: bytes, previous: int) -> str | None:
    """What is wrong with one `index:value`, given the index before it in the row, 0 for none."""
    head, colon, tail = token.partition(b":")
    if not colon:
        return f"expected index:value, found {_shown(token)}"
    if not re.fullmatch(rb"[+-]?\d{1,18}", head):
        return f"expected index:value with a whole number for index, found {_shown(token)}"
    index = int(head)
    if not 1 <= index <= LARGEST_INDEX:
        return f"feature index {index} is not between 1 and {LARGEST_INDEX}, found {_shown(token)}"
    if index == previous:
        return f"feature index {index} is repeated, found {_shown(token)}: a row has each index once"
    if index < previous:
        return f"feature index {index} comes after {previous}, found {_shown(token)}: indices must increase"
    value = _number(tail)
    if value is None:
        return f"expected index:value with a number for value, found {_shown(token)}"
    if not math.isfinite(value):
        return f"the value is not a finite number, found {_shown(token)}"
    return None


def _number(token: bytes) -> float | None:
    # Python reads 1_000 as a number, svmlight does not.
    if b"_" in token:
        return None
    try:
        return float(token)
    except ValueError:
        return None


def _shown(token: bytes) -> str:
    """The token in quotes, its beginning if it is long."""
    text = token.decode(errors="replace")
    return repr(text if len(text) <= 40 else text[:40] + "…")
