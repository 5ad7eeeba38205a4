"""Bombs: what is small on disk or on the line, and would be large in memory."""

import bz2
import gzip
import io
import lzma
import os
import signal
import socket
import sys
import tarfile
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import numpy as np
import pytest
from cifar10_support import OFFICIAL, TARBALL, Npm, npm_files, png, small_arrays
from data_support import TINY_TEXT, Web

from common.errors import DataError, Unavailable, UsageError
from data import cache, cifar10, download, libsvm, limits, unpacking
from data.limits import Bounded, free_memory, in_words
from data.unpacking import pieces
from experiments.config.run import load_run
from experiments.tasks.logreg import LogisticRegression

MIB = 2**20
PACK: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """No more bytes than these are held at once within."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < size, in_words(peak)


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("pinned", [False, True])
def test_what_unpacks_to_far_more_is_not_unpacked(
    suffix: str, pinned: bool, tmp_path: Path, web: Web, tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Valid text hundreds of times its packed size, in two members."""
    monkeypatch.setattr(unpacking, "SMALL", MIB // 4)
    bomb = PACK[suffix](b"1 1:1\n2 1:1\n" * (MIB // 12)) * 2
    file = tmp_path / f"tiny{suffix}"
    file.write_bytes(bomb)
    most = max(unpacking.SMALL, unpacking.RATIO * len(bomb))
    with at_most(5 * unpacking.PIECE), pytest.raises(DataError) as refused:
        libsvm.load("tiny", tmp_path, web.url) if pinned else libsvm.load_file(file, tmp_path)
    said = f"its {in_words(len(bomb))} unpack to more than {in_words(most)}, the most that is read of so few"
    assert said in str(refused.value)
    assert not list(tmp_path.glob("cache/*.npz"))


@pytest.mark.parametrize("suffix", PACK)
def test_what_is_regular_but_small_is_unpacked(suffix: str, tmp_path: Path) -> None:
    text = b"1 1:1\n2 1:1\n" * (MIB // 12)
    file = tmp_path / f"a{suffix}"
    file.write_bytes(PACK[suffix](text))
    assert unpacking.RATIO * file.stat().st_size < len(text)
    found = list(pieces(file, "it", size=1000))
    assert max(map(len, found)) == 1000
    assert b"".join(found) == text


@pytest.mark.parametrize("suffix", ["", *PACK])
def test_text_for_which_memory_does_not_suffice(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = TINY_TEXT * 1000
    file = tmp_path / f"a{suffix}"
    file.write_bytes(PACK.get(suffix, bytes)(text))
    monkeypatch.setattr(limits, "free_memory", lambda: limits.PER_BYTE * len(text) - 1)
    with pytest.raises(DataError, match=r"reading \d.* KiB of text takes about .* of memory, and .* KiB are free: "):
        libsvm.load_file(file, tmp_path)
    monkeypatch.setattr(limits, "free_memory", lambda: limits.PER_BYTE * len(text))
    assert libsvm.load_file(file, tmp_path).features.nnz == 3000


def test_reading_text_takes_no_more_than_is_said(tmp_path: Path) -> None:
    for line in (b"1\n2 1:1\n", b"1 1:1 2:1 3:1 4:1 5:1\n2 1:1\n"):
        text = line * (2**17 // len(line))
        with at_most(limits.PER_BYTE * len(text)):
            libsvm.parse([text], "a", "a")


def test_a_long_text_takes_the_memory_of_its_entries_and_of_a_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much text there is, in whatever pieces; and it is refused at the piece for which there is no room."""
    entries = b" ".join(b"%d:%.17f" % (k, 1 / k) for k in range(1, 101))
    text = b"".join(b"%d %s\n" % (row % 2, entries) for row in range(3000))
    (tmp_path / "a").write_bytes(text)
    nnz, piece = 300_000, 2**16
    assert len(text) > 20 * nnz
    with at_most(14 * nnz + 8 * limits.PER_BYTE * piece):
        dataset = libsvm.parse(pieces(tmp_path / "a", "a", piece), "a", "a")
    assert dataset.features.nnz == nnz
    left = iter(range(10, 0, -1))
    monkeypatch.setattr(limits, "free_memory", lambda: next(left) * limits.PER_BYTE * piece // 2)
    with pytest.raises(DataError, match=r"^a: reading \S+ KiB of text takes about"):
        libsvm.parse(pieces(tmp_path / "a", "a", piece), "a", "a")


def device(file: Path) -> None:
    file.symlink_to("/dev/zero")


def bound(file: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(file))


@pytest.fixture
def soon() -> Iterator[None]:
    """Ends a test that waits for ever with an error."""

    def end(number: int, frame: object) -> None:
        pytest.fail("still waiting after 5 seconds")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(5)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


endless = pytest.mark.parametrize("make", [device, os.mkfifo, bound, Path.mkdir])


@pytest.mark.usefixtures("soon")
@endless
def test_what_need_not_end_is_not_read(make: Callable[[Path], object], tmp_path: Path) -> None:
    make(tmp_path / "a")
    with pytest.raises(DataError, match=r"cannot read .*/a: not a regular file"):
        libsvm.load_file(tmp_path / "a", tmp_path)


@pytest.mark.usefixtures("soon")
@endless
def test_nor_for_its_hash(make: Callable[[Path], object], tmp_path: Path) -> None:
    make(tmp_path / "a")
    with pytest.raises(UsageError, match=r"^/.*/a: not a regular file$"):
        load_run(["task=logreg/file", f"task.dataset.file={tmp_path / 'a'}"])


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize(
    "name", [*cifar10.FORMS[:3:2], f"{cifar10.FORMS[1]}/test_batch", "package/data_batch_1.png", "data_batch_1.png"]
)
def test_nor_where_an_archive_is_looked_for(name: str, tmp_path: Path) -> None:
    place = tmp_path / name
    place.parent.mkdir(exist_ok=True)
    os.mkfifo(place)
    if place.parent.name == cifar10.FORMS[1]:
        (place.parent / "batches.meta").touch()
    with pytest.raises(DataError, match="not a regular file"):
        cifar10.load(tmp_path)


@pytest.mark.usefixtures("soon")
def test_nor_where_arrays_are_kept(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.npz")
    assert cache.cached(tmp_path / "a.npz", dict) == {}


@pytest.mark.parametrize("index", [10**9, 2**31 - 1])
def test_an_index_that_makes_vectors_too_long(index: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "free_memory", lambda: 20 * 10**9)
    (tmp_path / "a").write_text(f"1 1:1\n2 {index}:1\n")
    dataset = libsvm.load_file(tmp_path / "a", tmp_path)
    with at_most(MIB), pytest.raises(DataError) as refused:
        LogisticRegression(dataset, workers=2, seed=0)
    assert f"a has {index} columns, its largest index: what is kept for 2 workers takes about" in str(refused.value)


def archive(*members: tuple[str, int, bytes]) -> bytes:
    """A packed archive of members of a name, a size and a type, all zeros."""
    parts, zeros = [], gzip.compress(bytes(MIB))
    for name, size, kind in members:
        member = tarfile.TarInfo(name)
        member.size, member.type = size, kind
        parts += [
            gzip.compress(member.tobuf()),
            zeros * (size // MIB),
            gzip.compress(bytes(size % MIB + -size % 512)),
        ]
    return b"".join([*parts, gzip.compress(bytes(1024))])


BIG = 20 * MIB
TARS = {
    "a batch": (
        archive(("x/data_batch_1", 33 * MIB, tarfile.REGTYPE)),
        "data_batch_1 has 33 MiB, and 32 MiB at most",
    ),
    "labels": (archive(("x/train_lables.json", 2 * MIB, tarfile.REGTYPE)), "has 2 MiB, and 1 MiB at most"),
    "another file": (archive(("x/other", BIG, tarfile.REGTYPE)), "unpacks to is longer than 4 MiB, the most"),
    "a header": (archive(("x", BIG, tarfile.XHDTYPE)), "unpacks to is longer than 4 MiB, the most"),
    "a long name": (archive(("x", BIG, tarfile.GNUTYPE_LONGNAME)), "unpacks to is longer than 4 MiB, the most"),
    "many files": (archive(*[("x", 0, tarfile.REGTYPE)] * 1001), "holds more than 1000 files"),
}


@pytest.mark.parametrize("form", [OFFICIAL, TARBALL])
@pytest.mark.parametrize("name", TARS)
def test_archives_of_files_that_they_cannot_hold(
    name: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, said = TARS[name]
    (tmp_path / form).write_bytes(content)
    monkeypatch.setattr(cifar10, "LARGEST", 4 * MIB)
    with at_most(10 * MIB), pytest.raises(DataError) as refused:
        cifar10.load(tmp_path, "http://unused.invalid")
    assert said in str(refused.value)


def test_a_picture_of_more_pixels(tmp_path: Path) -> None:
    for name, content in npm_files(small_arrays()).items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "data_batch_2.png").write_bytes(png(np.zeros((10001, 1024, 3), np.uint8)))
    with at_most(MIB), pytest.raises(DataError, match="1024 × 10001 pixels, and 1024 × 10000 at most"):
        cifar10.load(tmp_path, "http://unused.invalid")


def test_labels_that_do_not_end(tmp_path: Path) -> None:
    for name, content in npm_files(small_arrays()).items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "train_lables.json").write_bytes(b"[" + b"9," * MIB + b"9]")
    with pytest.raises(DataError, match=r"train_lables.json: it has 2 MiB, and 1 MiB at most"):
        cifar10.load(tmp_path, "http://unused.invalid")


@pytest.mark.parametrize("packed", [False, True])
def test_an_answer_that_does_not_end(
    packed: bool, web: Web, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = 0
    chunk = gzip.compress(bytes(16 * MIB)) if packed else bytes(MIB)

    def answer(self: BaseHTTPRequestHandler) -> None:
        nonlocal sent
        self.send_response(200)
        if packed:  # though nobody asked for it
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        while True:
            try:
                self.wfile.write(chunk)
            except OSError:
                return
            sent += len(chunk)

    monkeypatch.setattr(web.server.RequestHandlerClass, "do_GET", answer)
    with at_most(200 * MIB), pytest.raises(DataError, match=r"/tiny is longer than 16 MiB, the most that it can be"):
        libsvm.load("tiny", tmp_path, web.url)
    assert sent < 64 * MIB
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and file.suffix != ".lock"]


def test_a_tarball_of_npms_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npm = Npm(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    npm.does(f'truncate -s 3M "$4/{TARBALL}"')
    with pytest.raises(DataError, match=r"failed: it has 3 MiB, and 2 MiB at most"):
        download.pack("x@1", tmp_path / TARBALL, lambda file: file, 2 * MIB)
    assert not (tmp_path / TARBALL).exists()


def test_a_cache_that_unpacks_to_more(tmp_path: Path) -> None:
    file = tmp_path / "a.npz"
    arrays = {"x": np.zeros(32 * MIB, np.uint8)}
    np.savez_compressed(file, sha256=np.array(cache.digest(arrays.values())), **arrays)  # pyright: ignore
    built = {"x": np.arange(3)}
    with at_most(MIB):
        assert cache.cached(file, lambda: built) is built
    assert cache.cached(file, dict)["x"].tolist() == [0, 1, 2]


def test_a_cache_for_which_memory_does_not_suffice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.cached(tmp_path / "a.npz", lambda: {"x": np.arange(1000)})
    monkeypatch.setattr(cache, "free_memory", lambda: 1000)
    with pytest.raises(ZeroDivisionError):
        cache.cached(tmp_path / "a.npz", lambda: {"x": np.arange(1 // 0)})


def test_what_is_free_is_the_least_of_what_the_system_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 2**20 < free_memory() < sys.maxsize
    (tmp_path / "max").write_text("max\n")
    (tmp_path / "own").write_text("12345\n")
    monkeypatch.setattr(limits, "MEMORY_FILES", (str(tmp_path / "max"), str(tmp_path / "gone")))
    machine = free_memory()
    monkeypatch.setattr(limits, "MEMORY_FILES", (str(tmp_path / "max"), str(tmp_path / "own")))
    assert free_memory() == 12345 < machine
    (tmp_path / "memory.stat").write_text("cache 99999\nrss 2000\n")
    assert free_memory() == 10345
    (tmp_path / "memory.stat").write_text("anon 3000\nfile 99999\n")
    assert free_memory() == 9345


@pytest.mark.parametrize("step", [1, 7, 100, -1])
def test_exactly_as_much_as_is_let_through(step: int) -> None:
    for size, fits in ((99, True), (100, True), (101, False)):
        bounded = Bounded(io.BytesIO(bytes(size)), 100, "it")
        try:
            while bounded.read(step):
                pass
            assert fits
        except DataError as error:
            assert not fits
            assert str(error) == "it is longer than 100 bytes, the most that it can be"  # noqa: PT017
    assert issubclass(Unavailable, DataError)
