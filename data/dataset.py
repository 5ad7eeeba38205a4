"""Data sets: rows of two classes, images, and texts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, TypeVar, cast

import numpy as np
from scipy import sparse

LARGEST_INDEX = 2**31 - 1
"""Column indices are stored as int32, zero-based."""

ENTRY = 12
"""Bytes of a nonzero entry: a value and its column."""

T = TypeVar("T")
Place = Annotated[T, "place"]
"""Marks an option that changes no result, such as `data_dir: Place[str]`. It is left out of a run's identity."""


def digest(arrays: Iterable[np.ndarray]) -> str:
    """SHA-256, in hex, of the arrays' bytes, one array after the other, each in C order.

    Shapes and dtypes are not hashed: the caller fixes them, byte order included.
    """
    content = hashlib.sha256()
    for array in arrays:
        content.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return content.hexdigest()


def shape(matrix: sparse.csr_array) -> tuple[int, int]:
    """Rows and columns of a sparse matrix. Its own `shape` has no type."""
    return cast(tuple[int, int], matrix.shape)


class Content:
    """A data set as named arrays with a content hash."""

    def arrays(self) -> dict[str, np.ndarray]:
        """The content, in the order and dtypes that are hashed and cached."""
        raise NotImplementedError

    def sha256(self) -> str:
        """SHA-256, in hex, of the content: the bytes of `arrays()` in order."""
        return digest(self.arrays().values())


@dataclass(frozen=True, eq=False)
class Dataset(Content):
    """N rows of d features, each row labelled +1 or -1.

    name: the set's name in folders and figures.
    features: float64 CSR array [N, d], int32 column indices ascending within each row.
    labels: int8 [N], +1 or -1.
    """

    name: str
    features: sparse.csr_array
    labels: np.ndarray

    def arrays(self) -> dict[str, np.ndarray]:
        """labels int8 [N]; indptr int64 [N + 1]; indices int32 [nnz], zero-based; values float64 [nnz];
        all little-endian."""
        return {
            "labels": self.labels.astype("i1", copy=False),
            "indptr": self.features.indptr.astype("<i8", copy=False),
            "indices": self.features.indices.astype("<i4", copy=False),
            "values": self.features.data.astype("<f8", copy=False),
        }

    @classmethod
    def from_arrays(cls, name: str, arrays: Mapping[str, np.ndarray], features: int | None = None) -> Dataset:
        """Build a data set from its `arrays()`, with at least one value.

        features: d, at least the largest index + 1. None: exactly that.
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
        """Build a data set from rows `features`, real [N, d], with label +1 where `positive`, bool [N].

        Raises ValueError for labels that are not bool, because their +1 class is ambiguous.
        """
        if np.asarray(positive).dtype != bool:
            raise ValueError(
                f"{name}: Dataset.from_dense takes True or False for each row, not {np.asarray(positive).dtype}; "
                "compare classes first, as in labels == 1; for real targets write a task, as docs/extending.md shows"
            )
        matrix = sparse.csr_array(np.asarray(features, dtype=np.float64))
        return cls(name, matrix, np.where(positive, 1, -1).astype(np.int8))


@dataclass(frozen=True, eq=False)
class Images(Content):
    """N training and M test images of h × w pixels and c channels, each labelled by the number of its class.

    train_images: uint8 [N, h, w, c]. train_labels: uint8 [N].
    test_images: uint8 [M, h, w, c]. test_labels: uint8 [M].
    mean, std: of every channel, to normalize pixel values that were divided by 255.
    """

    name: str
    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def classes(self) -> int:
        """The number of classes: the largest label in either part, plus 1."""
        return int(max(self.train_labels.max(), self.test_labels.max())) + 1

    def arrays(self) -> dict[str, np.ndarray]:
        names = ("train_images", "train_labels", "test_images", "test_labels")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, eq=False)
class Text(Content):
    """N characters of one byte each, uint8 [N]: the first ⌊9N/10⌋ for training, the others held out."""

    name: str
    characters: np.ndarray

    @cached_property
    def alphabet(self) -> np.ndarray:
        """The distinct bytes, uint8 [V], ascending."""
        return np.unique(self.characters)

    @property
    def vocabulary(self) -> int:
        return len(self.alphabet)

    @cached_property
    def codes(self) -> np.ndarray:
        """The index of every character in the alphabet: uint8 [N], below V."""
        return np.searchsorted(self.alphabet, self.characters).astype(np.uint8)

    @property
    def train(self) -> np.ndarray:
        return self.codes[: 9 * len(self.codes) // 10]

    @property
    def held_out(self) -> np.ndarray:
        return self.codes[9 * len(self.codes) // 10 :]

    def arrays(self) -> dict[str, np.ndarray]:
        return {"characters": self.characters}


@dataclass(frozen=True, eq=False)
class Tokens(Content):
    """A text as token ids below `vocabulary`, uint8 or uint16: [N] for training and [M] held out."""

    name: str
    train: np.ndarray
    held_out: np.ndarray
    vocabulary: int

    def arrays(self) -> dict[str, np.ndarray]:
        return {"train": self.train, "held_out": self.held_out}
