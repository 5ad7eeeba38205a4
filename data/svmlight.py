"""Reading svmlight text."""

from collections.abc import Iterable
from io import RawIOBase

import numpy as np
from sklearn.datasets import load_svmlight_file

from common.errors import DataError
from data.dataset import LARGEST_INDEX, Dataset


def parse(lines: Iterable[bytes], name: str, source: str) -> Dataset:
    """The data set in `lines`, called `name`; its larger raw label becomes +1, the other -1.

    source: what to call the text in messages.
    Raises DataError, with the line where one is wrong, for what is not a binary data set in svmlight form.
    """
    text = _Counted(lines)
    try:
        # pyright takes the default, "auto", for the only type.
        features, raw = load_svmlight_file(text, zero_based=False)  # pyright: ignore[reportArgumentType]
    except (ValueError, OverflowError) as error:
        raise DataError(
            f"{source}, line {text.number}: expected a label, then index:value with whole indices that rise from 1 "
            f"to at most {LARGEST_INDEX} ({error})"
        ) from error
    classes = np.unique(raw)
    if not len(raw):
        raise DataError(f"{source} is empty: it has no rows")
    if not np.isfinite(raw).all() or not np.isfinite(features.data).all():
        raise DataError(f"{source}: expected finite numbers")
    if len(classes) != 2:
        shown = ", ".join(f"{label:g}" for label in classes[:5])
        raise DataError(f"{source}: two classes are needed; the {len(raw)} rows have {len(classes)} labels: {shown}")
    if not features.nnz:
        raise DataError(f"{source}: none of the {len(raw)} rows has a feature")
    content = {
        "labels": np.where(raw == classes[1], np.int8(1), np.int8(-1)),
        "indptr": features.indptr,
        "indices": features.indices,
        "values": features.data,
    }
    return Dataset.from_arrays(name, content)


class _Counted(RawIOBase):
    """The lines of a file, and the number of the last that was read."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self.lines, self.number = iter(lines), 0

    def __next__(self) -> bytes:
        line = next(self.lines)
        self.number += 1
        return line
