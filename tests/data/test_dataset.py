"""Data sets of rows and of images, and their content hashes."""

import hashlib
import struct

import numpy as np
import pytest

from data.dataset import Dataset, Images

DENSE = np.array([[0.0, 1.5, 0.0], [-2.0, 0.0, 0.25]])


def test_content_hash_is_the_documented_bytes() -> None:
    dataset = Dataset.from_dense("two", DENSE, np.array([False, True]))
    content = struct.pack("<2b", -1, 1) + struct.pack("<3q", 0, 1, 3) + struct.pack("<3i", 1, 0, 2)
    content += struct.pack("<3d", 1.5, -2.0, 0.25)
    assert dataset.sha256() == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("labels", [[0.3, -1.2], [0, 1], [-1, 1], ["a", "b"]])
def test_labels_that_are_no_truth_values_are_refused(labels: list) -> None:
    with pytest.raises(ValueError, match=r"takes True or False .* labels == 1; for real targets write a task"):
        Dataset.from_dense("two", DENSE, np.array(labels))


def test_content_hash_of_images_is_the_documented_bytes_in_any_memory_layout() -> None:
    train, test = np.arange(18, dtype=np.uint8).reshape(3, 1, 2, 3), np.full((1, 1, 2, 3), 200, np.uint8)
    labels = np.array([0, 1, 1], np.uint8), np.array([4], np.uint8)
    content = bytes(range(18)) + bytes([0, 1, 1]) + bytes([200] * 6) + bytes([4])
    turned = np.ascontiguousarray(train.transpose(3, 0, 1, 2)).transpose(1, 2, 3, 0)
    for layout in (train, turned):
        images = Images("few", layout, labels[0], test, labels[1], (0.1, 0.2, 0.3), (1.0, 1.0, 1.0))
        assert images.sha256() == hashlib.sha256(content).hexdigest()
        assert images.classes == 5, "the largest label is a test label"
