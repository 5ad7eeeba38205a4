"""Reading svmlight text."""

import io
import math
import re

import numpy as np
from sklearn.datasets import load_svmlight_file

from common.errors import DataError
from data.dataset import LARGEST_INDEX, Dataset


def parse(text: bytes, name: str, source: str) -> Dataset:
    """The data set in `text`, called `name`; its larger raw label becomes +1, the other -1.

    source: what to call the text in messages.
    Raises DataError, with line and column, where `text` is not a binary data set in svmlight form.
    """
    try:
        # pyright takes the default, "auto", for the only type.
        features, raw = load_svmlight_file(io.BytesIO(text), zero_based=False)  # pyright: ignore[reportArgumentType]
    except (ValueError, OverflowError) as error:
        _complain(text, source)
        raise DataError(f"{source} is not svmlight text: {error}") from error
    if not len(raw):
        raise DataError(f"{source} is empty: it has no rows")
    labels = np.unique(raw)
    # An underscore is fine in a comment, but in a number it has been read as if it were not there.
    if len(labels) > 2 or not np.isfinite(raw).all() or not np.isfinite(features.data).all() or b"_" in text:
        _complain(text, source)
    if len(labels) == 1:
        raise DataError(f"{source}: all {len(raw)} rows have the label {labels[0]:g}: two classes are needed")
    if not features.nnz:
        raise DataError(f"{source}: none of the {len(raw)} rows has a feature")
    content = {
        "labels": np.where(raw == labels[-1], 1, -1),
        "indptr": features.indptr,
        "indices": features.indices,
        "values": features.data,
    }
    return Dataset.from_arrays(name, content)


def _complain(text: bytes, source: str) -> None:
    """Raise DataError for the first token that is wrong, if one is; slow, so only for text that is suspected."""
    labels: set[float] = set()
    for number, line in enumerate(text.split(b"\n"), start=1):
        previous = 0
        for place, match in enumerate(re.finditer(rb"\S+", line.split(b"#", 1)[0])):
            token = match[0]
            if place == 0:
                wanted = "a label, a finite number, of which there are two different ones"
                labels.add(_number(token))
                good = len(labels) <= 2 and all(map(math.isfinite, labels))
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
