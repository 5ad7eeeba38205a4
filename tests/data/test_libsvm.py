"""The pinned sets and any svmlight file by its path: downloads, formats, damage, cache and memory."""

import bz2
import gzip
import hashlib
import lzma
import os
import re
import shutil
import sys
from collections.abc import Callable
from functools import partial
from io import BytesIO
from itertools import product
from mmap import mmap
from multiprocessing import get_context
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pytest
from data_support import TINY_TEXT, Leftovers, Web
from real_data import link_sets

from common.errors import DataError, UsageError
from data import download, libsvm, limits
from data.limits import free_memory
from experiments.config.run import load_run
from experiments.tasks.logreg import LogisticRegression


@pytest.mark.parametrize(
    ("name", "rows", "features", "nonzeros", "positives"),
    [
        ("a9a", 32561, 123, 451592, 7841),
        ("mushrooms", 8124, 112, 170604, 4208),
        ("phishing", 11055, 68, 331650, 6157),
        ("w8a", 49749, 300, 579586, 1479),
    ],
)
def test_real_sets(tmp_path: Path, name: str, rows: int, features: int, nonzeros: int, positives: int) -> None:
    real = link_sets(tmp_path / "real" / "libsvm").parent
    for _ in ("from the file", "from the cache"):
        dataset = libsvm.load(name, real, url="http://unused.invalid")
        assert (dataset.name, dataset.features.shape, dataset.features.nnz) == (name, (rows, features), nonzeros)
        assert [int((dataset.labels == sign).sum()) for sign in (1, -1)] == [positives, rows - positives]


def test_download_then_cache_then_file(web: Web, tiny: str, tmp_path: Path, leftovers: Leftovers) -> None:
    web.files["/tiny"] = TINY_TEXT
    for _ in range(2):
        dataset = libsvm.load("tiny", tmp_path / "d", web.url)
        assert dataset.features.toarray().tolist() == [[0.5, 0, -1.25], [0, 4, 0], [0, 0, 0]]
        assert dataset.labels.tolist() == [1, -1, 1]
    cache = f"cache/tiny-{tiny[:12]}"
    assert leftovers("d") == [cache, "libsvm/tiny"]
    shutil.rmtree(tmp_path / "d" / cache)
    assert libsvm.load("tiny", tmp_path / "d", web.url).sha256() == tiny
    assert web.hits == ["/tiny"]


@pytest.mark.parametrize("folder", ["", "libsvm"])
def test_offline_files_are_found(web: Web, tiny: str, tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / "tiny.gz").write_bytes(gzip.compress(TINY_TEXT))
    assert libsvm.load("tiny", str(tmp_path), web.url).sha256() == tiny
    assert web.hits == []


def test_unknown_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"'mushroom'; did you mean mushrooms\? Valid: a9a, mushrooms, phishing, w8a"):
        libsvm.load("mushroom", tmp_path)


@pytest.mark.parametrize("trouble", ["ConnectionError", "404", "ReadTimeout", ""])
def test_a_host_that_does_not_give_it(web, tiny, tmp_path, monkeypatch, leftovers, trouble):
    url = "http://127.0.0.1:9" if trouble == "ConnectionError" else web.url
    monkeypatch.setattr(download, "TIMEOUT", 0.2)
    if trouble != "404":
        web.files["/tiny"] = TINY_TEXT
    web.delay = 1.0 * (trouble == "ReadTimeout")
    web.missing = len(b"2\n") * (not trouble)  # the part that arrives is itself a good svmlight file
    by_hand = f"fetch it by hand and put it at {tmp_path / 'libsvm' / 'tiny'} "
    with pytest.raises(DataError, match=f"could not download {url}/tiny: {by_hand}.*{trouble}"):
        libsvm.load("tiny", tmp_path, url)
    assert leftovers("") == []
    web.files["/tiny"], web.missing, web.delay = TINY_TEXT, 0, 0
    assert libsvm.load("tiny", tmp_path, web.url + "/").sha256() == tiny


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (TINY_TEXT.replace(b"4", b"5"), "is not tiny: expected content of SHA-256"),
        (b"<html>\nnot found\n</html>\n", "line 1: expected a label, then index:value"),
    ],
)
def test_wrong_content_from_the_host(web, tiny, tmp_path, leftovers, body, reason):
    web.files["/tiny"] = body
    with pytest.raises(DataError) as caught:
        libsvm.load("tiny", tmp_path, web.url)
    assert f"{web.url}/tiny" in str(caught.value)
    assert reason in str(caught.value)
    assert leftovers("") == []


def test_two_processes_download_once(web: Web, tiny: str, tmp_path: Path) -> None:
    # Long enough for the second process to ask too, if it does not wait.
    web.files["/tiny"], web.delay = TINY_TEXT, 0.5
    with get_context("fork").Pool(2) as pool:
        both = pool.starmap(libsvm.load, [("tiny", tmp_path, web.url)] * 2, chunksize=1)
    assert [dataset.sha256() for dataset in both] == [tiny] * 2
    assert web.hits == ["/tiny"]


GOOD = b"3 1:1 2:2\n5 2:-0.5\n"


def zipped(text: bytes, *more: str) -> bytes:
    """A zip archive of a file, beside what macOS adds, and `more` files."""
    packed = BytesIO()
    with ZipFile(packed, "w", ZIP_DEFLATED) as archive:
        for name in ("set/my.txt", "set/", "__MACOSX/set/._my.txt", *more):
            archive.writestr(name, text)
    return packed.getvalue()


PACK = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".lzma": partial(lzma.compress, format=lzma.FORMAT_ALONE),
    ".zip": zipped,
}
ODD = {  # what is in a file does not depend on its name, and zeros or a second archive may follow it
    "my": gzip.compress,
    "my.gz": bytes,
    "my.xz": lambda text: lzma.compress(text[:50]) + bytes(8) + lzma.compress(text[50:]) + bytes(40000),
    "my.bz2": lambda text: bz2.compress(text[:50]) + bz2.compress(text[50:]),
}


def written(folder: Path, name: str, content: bytes) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)
    return folder / name


def random_set() -> tuple[np.ndarray, np.ndarray, bytes]:
    """Dense features [40, 17], raw labels [40] of 3 and 5, and the svmlight text of both."""
    draw = np.random.default_rng(0)
    dense = np.where(draw.random((40, 17)) < 0.3, draw.standard_normal((40, 17)), 0)
    dense[4] = 0  # a row without features
    dense[0, 16] = 1e-300
    raw = draw.choice([3, 5], 40)
    lines = [
        " ".join([str(label), *(f"{index + 1}:{float(row[index])!r}" for index in np.flatnonzero(row))])
        for label, row in zip(raw, dense, strict=True)
    ]
    return dense, raw, "\n".join(lines).encode()


@pytest.mark.parametrize(("name", "pack"), [*((f"my.txt{suffix}", PACK[suffix]) for suffix in PACK), *ODD.items()])
def test_every_format_equals_the_dense_truth(tmp_path, monkeypatch, name, pack):
    dense, raw, text = random_set()
    file = written(tmp_path, name, pack(text))
    for _ in ("from the file", "from the cache"):
        dataset = libsvm.load_file(file, tmp_path)
        monkeypatch.setattr(libsvm, "parse", None)
        assert dataset.name == name
        assert np.array_equal(dataset.features.toarray(), dense)
        assert np.array_equal(dataset.labels, np.where(raw == 5, 1, -1))
        assert dataset.features.dtype == np.float64
        assert dataset.features.indices.dtype == np.int32
        assert dataset.labels.dtype == np.int8
        for array in (dataset.features.data, dataset.features.indices):  # the entries in the file, not a copy
            while isinstance(array.base, np.ndarray):
                array = array.base
            assert isinstance(array.base, mmap)


@pytest.mark.parametrize(
    "text",
    [
        b"# a_b: header\n3 1:1 2:2 # 9:9\n\n5 2:-0.5#x\n",
        b"3 qid:7 1:1 2:2\n5 qid:8 2:-0.5\n",
        b"3 1:1 2:2\r\n5 2:-0.5\r\n",
        b"  3.0\t1:1e0  +2:2.\n5e0 02:-.5",
    ],
)
def test_other_ways_to_write_the_same_set(tmp_path: Path, text: bytes) -> None:
    dataset = libsvm.load_file(written(tmp_path, "a", text), tmp_path)
    assert dataset.features.toarray().tolist() == [[1, 2], [0, -0.5]]
    assert dataset.labels.tolist() == [-1, 1]


BAD = {
    "no index": (b"3 1:1\n\n# note\n5 x:1\n", ", line 4: "),
    "no value": (b"3 1:1\n5 1:1 2:abc\n", ", line 2: "),
    "no label": (b"3 1:1\nspam 2:1\n", ", line 2: "),
    "index 0": (b"3 1:1\n5 0:1 2:1\n", ", line 2: "),
    "large index": (b"3 1:1\n5 2147483648:1\n", ", line 2: "),
    "falling": (b"3 1:1\n5 4:1 2:1\n", ", line 2: "),
    "no text": (b"3 1:1\n5 1:1 \xff\xfe\n", ", line 2: "),
    "nan": (b"3 1:1\n5 2:1 3:nan\n", ": expected finite numbers"),
    "infinite": (b"3 1:1e999\n5 2:1\n", ": expected finite numbers"),
    "nan label": (b"3 1:1\nnan 2:1\n", ": expected finite numbers"),
    "three": (b"3 1:1\n5 1:1\n3 1:2\n7 1:1\n", ": two classes are needed; the 4 rows have 3 labels: 3, 5, 7"),
    "one": (b"3 1:1\n3 2:1\n", ": two classes are needed; the 2 rows have 1 labels: 3"),
    "empty": (b"", ": two classes are needed; the 0 rows have 0 labels"),
    "comment": (b"\n  \n# only a comment\n", ": two classes are needed; the 0 rows have 0 labels"),
    "zeros": (b"3\n5\n", ": none of the 2 rows has a feature"),
}


@pytest.mark.parametrize(("text", "said"), BAD.values(), ids=list(BAD))
def test_what_is_no_binary_set_is_refused(tmp_path: Path, leftovers: Leftovers, text: bytes, said: str) -> None:
    file = written(tmp_path / "source", "bad.txt.gz", gzip.compress(text))
    with pytest.raises(DataError) as caught:
        libsvm.load_file(file, tmp_path / "d")
    assert str(caught.value).startswith(f"{file}{said}")
    assert leftovers("d") == []


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda whole: whole[: len(whole) // 2],
    "garbage": lambda whole: whole[:30] + bytes(range(256)) + whole[200:],
    "junk behind": lambda whole: whole + b"junk",
}


@pytest.mark.parametrize(
    ("suffix", "damage"),
    [pair for pair in product([*PACK][1:], DAMAGE) if pair != (".zip", "junk behind")],  # which the format allows
)
def test_damaged_archives(tmp_path: Path, leftovers: Leftovers, suffix: str, damage: str) -> None:
    file = written(tmp_path / "source", f"set{suffix}", DAMAGE[damage](PACK[suffix](random_set()[2])))
    with pytest.raises(DataError, match=r"cannot be unpacked .*: fetch it again") as caught:
        libsvm.load_file(file, tmp_path / "d")
    assert str(file) in str(caught.value)
    assert leftovers("d") == []


@pytest.mark.parametrize(
    ("content", "advice"),
    [
        (b"\x28\xb5\x2f\xfd" + GOOD, "is packed by Zstandard: unpack it first, by zstd -d"),
        (zipped(GOOD, "b.txt"), "has 2 files: unpack it, and give one of them"),
        (gzip.compress(b"set".ljust(512, b"\0") + GOOD), "is neither text nor a gzip, .* archive: unpack it first"),
    ],
    ids=["zstd", "two files", "tar"],
)
def test_what_has_to_be_unpacked_by_hand(tmp_path: Path, content: bytes, advice: str) -> None:
    file = written(tmp_path, "set", content)
    with pytest.raises(DataError, match=rf"^{re.escape(str(file))} {advice}"):
        libsvm.load_file(file, tmp_path / "d")


def test_hash_of_the_file(tmp_path: Path, leftovers: Leftovers) -> None:
    file = written(tmp_path / "source", "set.gz", gzip.compress(GOOD))
    right = hashlib.sha256(file.read_bytes()).hexdigest()
    with pytest.raises(DataError) as caught:
        libsvm.load_file(file, tmp_path / "d", sha256="0" * 64)
    for part in (str(file), right, "0" * 64, "delete it and fetch it again"):
        assert part in str(caught.value)
    assert leftovers("d") == []
    assert libsvm.load_file(file, tmp_path / "d", sha256=right.upper()).labels.tolist() == [-1, 1]


def test_a_cache_of_another_file_is_decoded_anew(tmp_path: Path) -> None:
    """Even where it has a stamp of its own, and the name of the right file's."""
    files = [written(tmp_path, name, text) for name, text in (("set", GOOD), ("other", GOOD.replace(b"2:2", b"2:7")))]
    for file in files:
        libsvm.load_file(file, tmp_path)
    right, other = (next((tmp_path / "cache").glob(f"{file.name}-*[!k]")) for file in files)
    shutil.rmtree(right)
    other.rename(right)
    assert libsvm.load_file(files[0], tmp_path).features[0, 1] == 2


def test_features_widen_but_never_narrow(tmp_path: Path) -> None:
    file = written(tmp_path, "set", GOOD)
    for _ in ("from the file", "from the cache"):
        wide = libsvm.load_file(file, tmp_path, features=5).features.toarray()
        assert wide.tolist() == [[1, 2, 0, 0, 0], [0, -0.5, 0, 0, 0]]
        with pytest.raises(DataError, match="set has feature index 2, features is only 1: give 2"):
            libsvm.load_file(file, tmp_path, features=1)
    for features in (None, 2):
        assert libsvm.load_file(file, tmp_path, features=features).features.shape == (2, 2)


def test_another_file_of_that_name_is_not_served_from_the_cache(tmp_path: Path) -> None:
    file = written(tmp_path, "set", GOOD)
    other = written(tmp_path / "other", "set", GOOD.replace(b"2:2", b"2:7"))
    times = file.stat().st_atime_ns, file.stat().st_mtime_ns
    assert [libsvm.load_file(one, tmp_path).features[0, 1] for one in (file, other, file)] == [2, 7, 2]
    file.write_bytes(GOOD.replace(b"2:2", b"2:9"))
    os.utime(file, ns=times)
    assert libsvm.load_file(file, tmp_path).features.toarray().tolist() == [[1, 9], [0, -0.5]]


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir])
def test_only_regular_files_are_read(make, tmp_path: Path) -> None:
    make(tmp_path / "a")
    with pytest.raises(DataError, match=r"cannot read .*/a: not a regular file"):
        libsvm.load_file(tmp_path / "a", tmp_path)
    with pytest.raises(UsageError, match=r"^/.*/a: not a regular file$"):
        load_run(["task=logreg/file", f"task.dataset.file={tmp_path / 'a'}"])


def test_an_index_that_makes_vectors_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "free_memory", lambda: 50 * 10**9)
    (tmp_path / "a").write_text("1 1:1\n2 1000000000:1\n1 7:1\n")
    dataset = libsvm.load_file(tmp_path / "a", tmp_path)
    with pytest.raises(DataError) as refused:
        LogisticRegression(dataset, workers=1, seed=0)
    assert "a has 1000000000 columns (its largest index is in row 2), so a run" in str(refused.value)


def test_what_is_free_is_the_least_of_what_the_system_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 2**20 < free_memory() < sys.maxsize
    (tmp_path / "max").write_text("max\n")
    (tmp_path / "own").write_text("12345\n")
    monkeypatch.setattr(limits, "MEMORY_FILES", (str(tmp_path / "max"), str(tmp_path / "gone")))
    machine = free_memory()
    monkeypatch.setattr(limits, "MEMORY_FILES", (str(tmp_path / "max"), str(tmp_path / "own")))
    assert free_memory() == 12345 < machine
    (tmp_path / "job" / "task").mkdir(parents=True)  # a job's limit holds for its tasks
    (tmp_path / "job" / "limit").write_text("1234\n")
    (tmp_path / "groups").write_text("5:cpu:/\n4:memory:/job/task\n0::/\n")
    monkeypatch.setattr(limits, "MEMORY_FILES", (f"{tmp_path}{{}}/limit",))
    monkeypatch.setattr(limits, "GROUPS", tmp_path / "groups")
    assert free_memory() == 1234
