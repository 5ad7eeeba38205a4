"""CIFAR-100: a stand-in of six images from a folder, an archive and a host, and files that are not the original."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from cifar10_support import tar_gz, trust
from data_support import Web

from common.errors import DataError
from data import cifar100
from data.cifar_archives import CIFAR100

ROWS = {"train": np.arange(4), "test": np.arange(2)}


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The archive's files, taken for the original by torchvision. Image i has pixels i and label 99 − i."""
    made = {"meta": pickle.dumps({"fine_label_names": [str(name) for name in range(100)]}, protocol=2)}
    for name, rows in ROWS.items():
        data = np.repeat(rows.astype(np.uint8), 3072).reshape(-1, 3072)
        content = {"data": data, "fine_labels": (99 - rows).tolist(), "coarse_labels": rows.tolist()}
        made[name] = pickle.dumps(content, protocol=2)
    trust(made, monkeypatch, CIFAR100)
    return made


def check(folder: Path, url: str) -> None:
    images = cifar100.load(folder, url)
    assert images.train_images.shape == (4, 32, 32, 3)
    assert images.train_images[:, 0, 0, 0].tolist() == [0, 1, 2, 3]
    assert (images.train_labels.tolist(), images.test_labels.tolist()) == ([99, 98, 97, 96], [99, 98])


def test_folder_archive_and_host(web: Web, files: dict[str, bytes], tmp_path: Path) -> None:
    archive = tar_gz(files, CIFAR100.base_folder)
    web.files["/x"] = archive
    unpacked = tmp_path / "folder" / CIFAR100.base_folder
    unpacked.mkdir(parents=True)
    for name, raw in files.items():
        (unpacked / name).write_bytes(raw)
    (tmp_path / "packed" / "cifar100").mkdir(parents=True)
    (tmp_path / "packed" / "cifar100" / CIFAR100.filename).write_bytes(archive)
    for place in ("folder", "packed"):
        check(tmp_path / place, "http://127.0.0.1:9/x")
    for _ in ("from the host", "from the cache"):
        check(tmp_path / "empty", f"{web.url}/x")
    assert len(web.hits) == 1


def test_another_archive_is_refused(files: dict[str, bytes], tmp_path: Path) -> None:
    changed = files | {"test": files["test"] + b"\n"}
    (tmp_path / CIFAR100.filename).write_bytes(tar_gz(changed, CIFAR100.base_folder))
    with pytest.raises(DataError, match=r"cannot be read as cifar100 .*by its MD5, not the original"):
        cifar100.load(tmp_path)
    assert not list(tmp_path.glob("cache/*/about.json"))
