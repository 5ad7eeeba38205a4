"""Reading svmlight text."""

from __future__ import annotations

import io

import numpy as np
from sklearn.datasets import load_svmlight_file

from common.errors import DataError
from data.dataset import Dataset
from data.diagnosis import first_trouble


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
    trouble = first_trouble(text)
    if trouble:
        raise DataError(f"{source}, line {trouble.line}, column {trouble.column}: {trouble.what}")
