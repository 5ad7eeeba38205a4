"""The contract of data sets (data/). The fixture `load` is under test: a function that loads or makes the set."""

import re
from collections.abc import Callable

import numpy as np
import pytest
from scipy import sparse

from data.dataset import Dataset, Images, Text

Load = Callable[[], Dataset | Images | Text]


class TestDataset:
    def test_is_a_dataset(self, load: Load) -> None:
        """It is a Dataset, Images or Text of data.dataset, with a name for folders and figures."""
        data = load()
        known = isinstance(data, Dataset | Images | Text)
        assert known, f"expected a Dataset, Images or Text, saw {type(data).__name__}"
        assert re.fullmatch(r"\w[\w.+-]*", data.name), f"name={data.name!r}: expected letters, digits, _ . + and -"

    def test_has_rows(self, load: Load) -> None:
        """Features are a finite float64 CSR array [N, d] in order; images are uint8 [N, h, w, c], of one shape; texts
        are uint8 [N], and the training part has each character of the held-out part."""
        data = load()
        if isinstance(data, Text):
            characters = data.characters
            assert characters.dtype == np.uint8, f"characters of {characters.dtype}: expected uint8"
            assert characters.ndim == 1, f"characters {characters.shape}: expected [N]"
            new = set(data.held_out.tolist()) - set(data.train.tolist())
            assert not new, f"expected the held-out part's characters in the training part, {len(new)} are not"
            return
        if isinstance(data, Images):
            for name, images in (("train_images", data.train_images), ("test_images", data.test_images)):
                assert images.dtype == np.uint8, f"{name} of {images.dtype}: expected uint8"
                has_pixels = images.ndim == 4 and images.size
                assert has_pixels, f"{name} {images.shape}: expected [N, h, w, c], none of them 0"
                shape = data.train_images.shape[1:]
                assert images.shape[1:] == shape, f"{name} of {images.shape[1:]}: expected {shape} as train_images"
            return
        features = data.features
        assert isinstance(features, sparse.csr_array), f"expected a csr_array, saw {type(features).__name__}"
        assert features.dtype == np.float64, f"expected features of float64, saw {features.dtype}"
        assert features.indices.dtype == np.int32, f"expected column indices of int32, saw {features.indices.dtype}"
        assert len(features.indptr) > 2, "expected two rows or more, saw less"
        assert features.nnz, "expected a number in them, saw none"
        assert features.has_canonical_format, "expected column indices that ascend within each row"
        assert np.isfinite(features.data).all(), "expected finite features, saw some that are not"

    def test_has_labels(self, load: Load) -> None:
        """Labels are int8 +1 and −1, and both occur. Images have uint8 0, 1, …, each in the training part."""
        data = load()
        if isinstance(data, Text):
            pytest.skip("a text has no labels")
        if isinstance(data, Images):
            parts = [(data.train_labels, len(data.train_images)), (data.test_labels, len(data.test_images))]
            dtype, wanted = np.uint8, set(range(data.classes))
        else:
            parts, dtype, wanted = [(data.labels, len(data.features.indptr) - 1)], np.int8, {-1, 1}
        for labels, rows in parts:
            assert labels.dtype == dtype, f"labels of {labels.dtype}: expected {dtype.__name__}"
            assert labels.shape == (rows,), f"labels {labels.shape}: expected one a row, of {rows}"
            assert set(labels.tolist()) <= wanted, f"labels {set(labels.tolist())}: expected {wanted}"
        assert set(parts[0][0].tolist()) == wanted, f"labels {set(parts[0][0].tolist())}: expected all of {wanted}"

    def test_is_the_same_every_time(self, load: Load) -> None:
        """Two loads have the same content, by its SHA-256."""
        first, second = load().sha256(), load().sha256()
        assert first == second, f"expected SHA-256 {first[:12]}… again, saw {second[:12]}…"
