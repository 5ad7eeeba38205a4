"""The content hash of arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np


def digest(arrays: Iterable[np.ndarray]) -> str:
    """SHA-256, in hex, of the arrays' bytes, one array after the other, each in C order.

    Shapes and dtypes are not hashed: the caller fixes them, byte order included.
    """
    content = hashlib.sha256()
    for array in arrays:
        content.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return content.hexdigest()
