"""The four pinned sets: real files, downloads, and what can go wrong with either."""

from __future__ import annotations

import gzip
import lzma
import re
import socket
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from data_support import TINY_TEXT, Leftovers, Web

from common.errors import DataError
from data import download, libsvm


@pytest.mark.parametrize(
    ("name", "rows", "features", "nonzeros", "positives", "sha256"),
    [
        ("a9a", 32561, 123, 451592, 7841, "4e62848cffe5651e9f944a5030ec0ba8d7656994575c4f146c9c63c1b402e89f"),
        ("mushrooms", 8124, 112, 170604, 4208, "7fad65b19fd0011fffa3b7272c2c59abb0a81be3a04c4daee822bfe1d5bf4e64"),
        ("phishing", 11055, 68, 331650, 6157, "16cee2314baf7d413542f048f0033f9488396c13992621ca0cea60c3b1465c6d"),
        ("w8a", 49749, 300, 579586, 1479, "8f55d26bd21c2d7f77762572ad079b299cba905fc2026c0cc2354a066c14516d"),
    ],
    ids=lambda value: value if value in libsvm.PINNED else "",
)
def test_real_sets(
    real: Path, name: str, rows: int, features: int, nonzeros: int, positives: int, sha256: str
) -> None:
    for _ in ("from the file", "from the cache"):
        dataset = libsvm.load(name, real, url="http://unused.invalid")
        assert (dataset.name, dataset.features.shape, dataset.features.nnz) == (name, (rows, features), nonzeros)
        assert [int((dataset.labels == sign).sum()) for sign in (1, -1)] == [positives, rows - positives]
        assert dataset.sha256() == sha256


def test_download_then_cache_then_file(web: Web, tiny: str, tmp_path: Path, leftovers: Leftovers) -> None:
    web.files["/tiny"] = TINY_TEXT
    for _ in range(2):
        dataset = libsvm.load("tiny", tmp_path / "d", web.url)
        assert dataset.features.toarray().tolist() == [[0.5, 0, -1.25], [0, 4, 0], [0, 0, 0]]
        assert dataset.labels.tolist() == [1, -1, 1]
    cache = f"cache/tiny-{tiny[:12]}.npz"
    assert leftovers("d") == [cache, "libsvm/tiny"]
    (tmp_path / "d" / cache).unlink()
    assert libsvm.load("tiny", tmp_path / "d", web.url).sha256() == tiny
    assert web.hits == ["/tiny"]


@pytest.mark.parametrize("folder", ["", "libsvm"])
@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_offline_files_are_found(web: Web, tiny: str, tmp_path: Path, folder: str, suffix: str) -> None:
    pack = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[suffix]
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / f"tiny{suffix}").write_bytes(pack(TINY_TEXT))
    assert libsvm.load("tiny", str(tmp_path), web.url).sha256() == tiny
    assert web.hits == []


@pytest.mark.parametrize(
    ("name", "hint"),
    [("mushroom", "did you mean mushrooms?"), ("A9A", "did you mean a9a?"), ("zzz", "set 'zzz'; Valid: ")],
)
def test_unknown_name(tmp_path: Path, name: str, hint: str) -> None:
    with pytest.raises(DataError, match=re.escape(hint)) as caught:
        libsvm.load(name, tmp_path)
    assert repr(name) in str(caught.value)
    assert "a9a, mushrooms, phishing, w8a" in str(caught.value)


@pytest.mark.parametrize("trouble", ["nobody", "404", "[Tt]imed? ?out", "more bytes"])
def test_a_host_that_does_not_give_it(
    web: Web, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leftovers: Leftovers, trouble: str
) -> None:
    url = web.url
    if trouble == "nobody":
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            url, trouble = f"http://127.0.0.1:{closed.getsockname()[1]}", "ConnectionError"
    elif trouble == "more bytes":  # the part that arrives is itself a good svmlight file
        web.files["/tiny"], web.missing, trouble = TINY_TEXT, len(b"2\n"), ""
    elif trouble != "404":
        monkeypatch.setattr(download, "TIMEOUT", 0.2)
        web.files["/tiny"], web.delay = TINY_TEXT, 1.0
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
        (b"<html>\nnot found\n</html>\n", "line 1, column 1: expected a label, a finite number, of which"),
    ],
)
def test_wrong_content_from_the_host(
    web: Web, tiny: str, tmp_path: Path, leftovers: Leftovers, body: bytes, reason: str
) -> None:
    web.files["/tiny"] = body
    with pytest.raises(DataError) as caught:
        libsvm.load("tiny", tmp_path, web.url)
    assert f"{web.url}/tiny" in str(caught.value)
    assert reason in str(caught.value)
    assert leftovers("") == []


def test_wrong_offline_file(web: Web, tiny: str, tmp_path: Path, leftovers: Leftovers) -> None:
    file = tmp_path / "libsvm" / "tiny"
    file.parent.mkdir()
    file.write_bytes(TINY_TEXT.replace(b"4", b"5"))
    with pytest.raises(DataError) as caught:
        libsvm.load("tiny", tmp_path, web.url)
    assert str(caught.value).startswith(f"{file} is not tiny: expected content of SHA-256 {tiny}")
    assert str(caught.value).endswith(f"put tiny from {web.url}/tiny there instead")
    assert leftovers("") == ["libsvm/tiny"]
    assert web.hits == []


def test_cache_with_another_sets_content_is_not_believed(tiny: str, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_bytes(b"1 1:7\n-1 2:7\n")
    libsvm.load_file(other, tmp_path)
    (stored,) = (tmp_path / "cache").glob("other-*.npz")
    stored.rename(tmp_path / "cache" / f"tiny-{tiny[:12]}.npz")
    (tmp_path / "tiny").write_bytes(TINY_TEXT)
    assert libsvm.load("tiny", tmp_path).sha256() == tiny


def test_two_processes_download_once(web: Web, tiny: str, tmp_path: Path) -> None:
    # Long enough for the second process to ask too, if it does not wait.
    web.files["/tiny"], web.delay = TINY_TEXT, 0.5
    with get_context("fork").Pool(2) as pool:
        both = pool.starmap(libsvm.load, [("tiny", tmp_path, web.url)] * 2, chunksize=1)
    assert [dataset.sha256() for dataset in both] == [tiny] * 2
    assert web.hits == ["/tiny"]


def test_real_content_is_what_the_text_says(real: Path) -> None:
    with lzma.open(real / "libsvm" / "mushrooms.xz", "rt") as text:
        first, *rest = text
    dataset = libsvm.load("mushrooms", real)
    expected = np.zeros(112)
    for token in first.split()[1:]:
        index, value = token.split(":")
        expected[int(index) - 1] = float(value)
    assert np.array_equal(dataset.features[[0]].toarray()[0], expected)
    assert dataset.labels.tolist() == [1 if line.startswith("2 ") else -1 for line in [first, *rest]]
