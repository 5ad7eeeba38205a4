"""Reading svmlight text."""

import io
import math
import re
from array import array
from collections.abc import Iterable, Iterator, Set

import numpy as np
from sklearn.datasets import load_svmlight_file

from common.errors import DataError
from data.dataset import LARGEST_INDEX, Dataset

VERSION = 1
"""Of this reader: another one gives another set for the same text."""


def parse(text: Iterable[bytes], name: str, source: str) -> Dataset:
    """The data set in `text`, which comes in pieces, called `name`; its larger raw label becomes +1, the other -1.

    Held are a piece and what was read so far: 12 bytes an entry and 16 a row.

    source: what to call the text in messages.
    Raises DataError, with line and column, where `text` is not a binary data set in svmlight form.
    """
    labels, ends, columns, values = array("d"), array("q", [0]), array("i"), array("d")
    known: set[float] = set()
    line = 1
    for lines in _whole_lines(text):
        try:
            # pyright takes the default, "auto", for the only type.
            part, raw = load_svmlight_file(io.BytesIO(lines), zero_based=False)  # pyright: ignore[reportArgumentType]
        except (ValueError, OverflowError) as error:
            _complain(lines, source, line, known)
            raise DataError(f"{source} is not svmlight text: {error}") from error
        both = known.union(np.unique(raw).tolist())
        # An underscore is fine in a comment, but in a number it has been read as if it were not there.
        if len(both) > 2 or not np.isfinite(raw).all() or not np.isfinite(part.data).all() or b"_" in lines:
            _complain(lines, source, line, known)
        known, line = both, line + lines.count(b"\n")
        labels.frombytes(raw.tobytes())
        ends.frombytes((part.indptr[1:].astype(np.int64) + len(values)).tobytes())
        columns.frombytes(part.indices.astype(np.int32).tobytes())
        values.frombytes(part.data.tobytes())
    if not labels:
        raise DataError(f"{source} is empty: it has no rows")
    if len(known) == 1:
        raise DataError(f"{source}: all {len(labels)} rows have the label {labels[0]:g}: two classes are needed")
    if not values:
        raise DataError(f"{source}: none of the {len(labels)} rows has a feature")
    content = {
        "labels": np.where(np.frombuffer(labels) == max(known), np.int8(1), np.int8(-1)),
        "indptr": np.frombuffer(ends, np.int64),
        "indices": np.frombuffer(columns, np.int32),
        "values": np.frombuffer(values),
    }
    return Dataset.from_arrays(name, content)


def _whole_lines(text: Iterable[bytes]) -> Iterator[bytes]:
    """The same text in pieces that end where a line does."""
    held: list[bytes] = []
    for piece in text:
        whole, newline, rest = piece.rpartition(b"\n")
        if newline:
            yield b"".join([*held, whole, newline])
            held.clear()
        held.append(rest)
    if any(held):
        yield b"".join(held)


def _complain(text: bytes, source: str, first: int, labels: Set[float]) -> None:
    """Raise DataError for the first token that is wrong, if one is; slow, so only for text that is suspected.

    first: the number of the first line of `text`. labels: those of the lines before it.
    """
    seen = set(labels)
    for number, line in enumerate(text.split(b"\n"), start=first):
        previous = 0
        for place, match in enumerate(re.finditer(rb"\S+", line.split(b"#", 1)[0])):
            token = match[0]
            if place == 0:
                wanted = "a label, a finite number, of which there are two different ones"
                seen.add(_number(token))
                good = len(seen) <= 2 and all(map(math.isfinite, seen))
            elif place == 1 and token.startswith(b"qid:"):
                continue
            else:
                wanted = f"index:value with whole indices that rise from 1 to at most {LARGEST_INDEX}, finite values"
                index, _, value = token.partition(b":")
                last, previous = previous, int(index) if re.fullmatch(rb"[+-]?\d{1,18}", index) else 0
                good = last < previous <= LARGEST_INDEX and math.isfinite(_number(value))
            if not good:
                shown = token[:40].decode(errors="replace") + "…" * (len(token) > 40)
                raise DataError(
                    f"{source}, line {number}, column {match.start() + 1}: expected {wanted}, found {shown!r}"
                )


def _number(token: bytes) -> float:
    """NaN for what is none; Python reads 1_000 as a number, svmlight does not."""
    try:
        return math.nan if b"_" in token else float(token)
    except ValueError:
        return math.nan
