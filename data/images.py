"""A set of labelled images, in a training and a test part."""

from dataclasses import dataclass

import numpy as np

from data.dataset import digest


@dataclass(frozen=True, eq=False)
class Images:
    """N training and M test images of h × w pixels and c channels, each labelled by the number of its class.

    name: what the set is called in folders and figures.
    train_images: uint8 [N, h, w, c]. train_labels: uint8 [N].
    test_images: uint8 [M, h, w, c]. test_labels: uint8 [M].
    mean, std: of every channel, for pixel values divided by 255: what to subtract from them and divide them by.
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
        """The number of classes: the largest label, of either part, + 1."""
        return int(max(self.train_labels.max(), self.test_labels.max())) + 1

    def arrays(self) -> dict[str, np.ndarray]:
        """The content, in the order in which it is hashed and cached."""
        return {
            "train_images": self.train_images,
            "train_labels": self.train_labels,
            "test_images": self.test_images,
            "test_labels": self.test_labels,
        }

    def sha256(self) -> str:
        """SHA-256, in hex, of the content: the bytes of `arrays()` in order."""
        return digest(self.arrays().values())
