"""Images and their content hash."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from data.images import Images


@pytest.fixture
def images() -> Images:
    """Three training and one test image of 1 × 2 pixels and 3 channels; the largest label is a test label."""
    train = np.arange(18, dtype=np.uint8).reshape(3, 1, 2, 3)
    test = np.full((1, 1, 2, 3), 200, np.uint8)
    return Images(
        "few", train, np.array([0, 1, 1], np.uint8), test, np.array([4], np.uint8), (0.1, 0.2, 0.3), (1.0, 1.0, 1.0)
    )


def test_content_hash_is_the_documented_bytes_in_any_memory_layout(images: Images) -> None:
    content = bytes(range(18)) + bytes([0, 1, 1]) + bytes([200] * 6) + bytes([4])
    assert images.sha256() == hashlib.sha256(content).hexdigest()
    turned = np.ascontiguousarray(images.train_images.transpose(3, 0, 1, 2)).transpose(1, 2, 3, 0)
    again = Images("again", **(images.arrays() | {"train_images": turned}), mean=images.mean, std=images.std)
    assert again.sha256() == images.sha256()


def test_classes_are_counted_over_both_parts(images: Images) -> None:
    assert images.classes == 5
