"""A text, in a part to train on and a held-out part."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from data.dataset import digest


@dataclass(frozen=True, eq=False)
class Text:
    """N characters of one byte each, numbered from 0 in the order of their bytes.

    The first ⌊9N/10⌋ of them are to train on, the others are held out.

    name: what the text is called in folders and figures.
    characters: uint8 [N], the bytes themselves.
    """

    name: str
    characters: np.ndarray

    @cached_property
    def alphabet(self) -> np.ndarray:
        """The different bytes, uint8 [V], ascending."""
        return np.unique(self.characters)

    @cached_property
    def codes(self) -> np.ndarray:
        """The number of every character: uint8 [N], below V."""
        return np.searchsorted(self.alphabet, self.characters).astype(np.uint8)

    @property
    def train(self) -> np.ndarray:
        """The codes to train on."""
        return self.codes[: 9 * len(self.codes) // 10]

    @property
    def held_out(self) -> np.ndarray:
        """The codes after them."""
        return self.codes[9 * len(self.codes) // 10 :]

    def arrays(self) -> dict[str, np.ndarray]:
        """The content, as it is hashed and cached."""
        return {"characters": self.characters}

    def sha256(self) -> str:
        """SHA-256, in hex, of the text's bytes."""
        return digest(self.arrays().values())
