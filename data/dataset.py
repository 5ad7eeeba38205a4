"""A binary classification data set, in sparse rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
from scipy import sparse

LARGEST_INDEX = 2**31 - 1
"""Column indices are stored as int32, zero-based."""

ENTRY = 12
"""Bytes of an entry that is not zero: a value and its column."""


def digest(arrays: Iterable[np.ndarray]) -> str:
    """SHA-256, in hex, of the arrays' bytes, one array after the other, each in C order.

    Shapes and dtypes are not hashed: the caller fixes them, byte order included.
    """
    content = hashlib.sha256()
    for array in arrays:
        content.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return content.hexdigest()


def shape(matrix: sparse.csr_array) -> tuple[int, int]:
    """Rows and columns of a sparse matrix, whose own `shape` has no type."""
    return cast(tuple[int, int], matrix.shape)


@dataclass(frozen=True, eq=False)
class Dataset:
    """N rows of d features, each row labelled +1 or -1.

    name: what the set is called in folders and figures.
    features: float64 CSR array [N, d], int32 column indices ascending within each row.
    labels: int8 [N], +1 or -1.
    """

    name: str
    features: sparse.csr_array
    labels: np.ndarray

    def arrays(self) -> dict[str, np.ndarray]:
        """The content, in the order and the types in which it is hashed and cached.

        labels int8 [N]; indptr int64 [N + 1]; indices int32 [nnz], zero-based; values float64 [nnz];
        all little-endian.
        """
        return {
            "labels": self.labels.astype("i1", copy=False),
            "indptr": self.features.indptr.astype("<i8", copy=False),
            "indices": self.features.indices.astype("<i4", copy=False),
            "values": self.features.data.astype("<f8", copy=False),
        }

    def sha256(self) -> str:
        """SHA-256, in hex, of the content: the bytes of `arrays()` in order."""
        return digest(self.arrays().values())

    @classmethod
    def from_arrays(cls, name: str, arrays: Mapping[str, np.ndarray], features: int | None = None) -> Dataset:
        """The data set whose `arrays()` are given; at least one value is needed.

        features: d, at least the largest index + 1, which is what it is where None.
        """
        values = arrays["values"].astype(np.float64, copy=False)
        indices = arrays["indices"].astype(np.int32, copy=False)
        # scipy widens both index arrays if either is wide.
        indptr = arrays["indptr"].astype(np.int32 if len(indices) < 2**31 else np.int64, copy=False)
        size = (len(indptr) - 1, int(indices.max()) + 1 if features is None else features)
        matrix = sparse.csr_array((values, indices, indptr), shape=size)
        return cls(name, matrix, arrays["labels"].astype(np.int8, copy=False))

    @classmethod
    def from_dense(cls, name: str, features: np.ndarray, positive: np.ndarray) -> Dataset:
        """The data set with the rows of `features`, real [N, d], and label +1 where `positive`, bool [N]."""
        matrix = sparse.csr_array(np.asarray(features, dtype=np.float64))
        return cls(name, matrix, np.where(positive, 1, -1).astype(np.int8))
