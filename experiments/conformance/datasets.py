"""What every data set keeps."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
from scipy import sparse

from data.dataset import Dataset
from data.images import Images
from experiments.conformance.findings import demand, expect

Load = Callable[[], Dataset | Images]
"""Loads or makes a data set, anew at every call."""


def check_dataset(load: Load) -> None:
    """Raise Violation with every promise of a `Dataset` or of `Images` (data/) that what is loaded breaks."""
    demand(CHECKS, load)


def is_a_dataset(load: Load) -> None:
    """It is a data.dataset.Dataset or data.images.Images, with a name for folders and figures."""
    found = load()
    expect(isinstance(found, Dataset | Images), "a Dataset or Images", type(found).__name__)
    named = isinstance(found.name, str) and re.fullmatch(r"\w[\w.+-]*", found.name)
    expect(named, "a name of letters, digits, _ . + and -", repr(found.name))


def has_rows(load: Load) -> None:
    """Features are a finite float64 CSR array [N, d] in order; images are uint8 [N, h, w, c], of one shape."""
    found = load()
    if isinstance(found, Images):
        for name, images in (("train_images", found.train_images), ("test_images", found.test_images)):
            expect(images.dtype == np.uint8, f"{name} of uint8", images.dtype)
            expect(images.ndim == 4 and images.size, f"{name} [N, h, w, c], none of them 0", images.shape)
            shape = found.train_images.shape[1:]
            expect(images.shape[1:] == shape, f"{name} of {shape} as train_images", images.shape[1:])
        return
    features = found.features
    expect(isinstance(features, sparse.csr_array), "a scipy.sparse.csr_array", type(features).__name__)
    expect(features.dtype == np.float64, "features of float64", features.dtype)
    expect(features.indices.dtype == np.int32, "column indices of int32", features.indices.dtype)
    expect(features.shape[0] >= 2 and features.nnz, "two rows or more, with a number in them", features.shape)
    own = np.repeat(np.arange(features.shape[0]), np.diff(features.indptr))
    steps, same_row = np.diff(features.indices), np.diff(own) == 0
    expect((steps[same_row] > 0).all(), "column indices that ascend within each row", "some that do not")
    wrong = features.data[~np.isfinite(features.data)]
    expect(not len(wrong), "finite features", f"{len(wrong)} that are not, such as {wrong[:1].tolist()}")


def has_labels(load: Load) -> None:
    """Labels are int8 +1 and −1, both of them; those of images uint8 0, 1, …, each in the training part."""
    found = load()
    if isinstance(found, Images):
        parts = {
            "train_labels": (found.train_labels, len(found.train_images)),
            "test_labels": (found.test_labels, len(found.test_images)),
        }
        dtype, wanted = np.uint8, list(range(found.classes))
    else:
        parts, dtype, wanted = {"labels": (found.labels, found.features.shape[0])}, np.int8, [-1, 1]
    for name, (labels, rows) in parts.items():
        expect(labels.dtype == dtype, f"{name} of {dtype.__name__}", labels.dtype)
        expect(labels.shape == (rows,), f"{name} of {rows} rows", labels.shape)
        seen = np.unique(labels).tolist()
        all_there = seen == wanted or name == "test_labels"
        expect(all_there and set(seen) <= set(wanted), f"{name} {wanted}", seen)


def is_normalised_by_its_mean(load: Load) -> str | None:
    """Images' mean and std, one a channel, are about those of the training pixels divided by 255."""
    found = load()
    if not isinstance(found, Images):
        return "these are no images"
    channels = found.train_images.shape[-1]
    for name, values in (("mean", found.mean), ("std", found.std)):
        expect(len(values) == channels, f"{name} of {channels} channels", len(values))
    pixels = found.train_images.reshape(-1, channels) / 255
    normal = (pixels - np.array(found.mean)) / np.array(found.std)
    means, stds = normal.mean(0), normal.std(0)
    kept = (np.abs(means) < 0.5).all() and (np.abs(stds - 1) < 0.5).all()
    seen = f"{means.round(3).tolist()} and {stds.round(3).tolist()}"
    expect(kept, "normalised pixels of mean 0 and std 1 (± 0.5)", seen)
    return None


def is_the_same_every_time(load: Load) -> None:
    """Two loads have the same content, by its SHA-256."""
    first, second = load().sha256(), load().sha256()
    expect(first == second, f"SHA-256 {first[:12]}… again", f"{second[:12]}…")


CHECKS = (is_a_dataset, has_rows, has_labels, is_normalised_by_its_mean, is_the_same_every_time)
"""In the order in which they are reported."""
