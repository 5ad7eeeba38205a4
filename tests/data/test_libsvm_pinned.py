"""The four pinned sets: real files, downloads, and what can go wrong with either."""

import gzip
import shutil
from multiprocessing import get_context
from pathlib import Path

import pytest
from data_support import TINY_TEXT, Leftovers, Web

from common.errors import DataError
from data import download, libsvm


@pytest.mark.parametrize(
    ("name", "rows", "features", "nonzeros", "positives"),
    [
        ("a9a", 32561, 123, 451592, 7841),
        ("mushrooms", 8124, 112, 170604, 4208),
        ("phishing", 11055, 68, 331650, 6157),
        ("w8a", 49749, 300, 579586, 1479),
    ],
)
def test_real_sets(real: Path, name: str, rows: int, features: int, nonzeros: int, positives: int) -> None:
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
def test_a_host_that_does_not_give_it(
    web: Web, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leftovers: Leftovers, trouble: str
) -> None:
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
def test_wrong_content_from_the_host(
    web: Web, tiny: str, tmp_path: Path, leftovers: Leftovers, body: bytes, reason: str
) -> None:
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
