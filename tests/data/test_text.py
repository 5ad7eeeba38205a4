"""Texts: their parts and numbers, tiny Shakespeare's files, and the Markov source."""

import abc
import hashlib
import lzma
import math
import struct
from pathlib import Path

import numpy as np
import pytest
from data_support import Web
from real_data import link_sets

from common.errors import DataError
from data import markov as source
from data import python_sources, shakespeare, token_shards
from data.dataset import Text
from data.markov import markov

WORDS = b"Now is the winter of our discontent\nMade glorious summer by this sun of York;\n"


def text(content: bytes = WORDS) -> Text:
    return Text("words", np.frombuffer(content, np.uint8))


def test_characters_are_numbered_in_the_order_of_their_bytes() -> None:
    found = text()
    letters = sorted(set(WORDS))
    assert found.alphabet.tolist() == letters
    assert [letters[code] for code in found.codes] == list(WORDS)
    assert found.sha256() == hashlib.sha256(WORDS).hexdigest()


@pytest.mark.parametrize("length", [10, 11, 19, 78])
def test_the_last_tenth_is_held_out(length: int) -> None:
    found = text(WORDS[:length])
    assert len(found.train) == math.floor(0.9 * length)
    assert np.array_equal(np.concatenate([found.train, found.held_out]), found.codes)


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> None:
    """During the test these words are tiny Shakespeare."""
    monkeypatch.setattr(shakespeare, "SHA256", hashlib.sha256(WORDS).hexdigest())


@pytest.mark.parametrize("file", ["input.txt", "text/tinyshakespeare.xz"])
def test_files_of_ones_own(file: str, words: None, tmp_path: Path) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_bytes(lzma.compress(WORDS) if file.endswith(".xz") else WORDS)
    found = shakespeare.load(tmp_path, url="http://127.0.0.1:9/input.txt")
    assert (found.name, bytes(found.characters)) == ("shakespeare", WORDS)


def test_it_is_fetched_once(words: None, web: Web, tmp_path: Path) -> None:
    web.files["/input.txt"] = WORDS
    for _ in range(2):
        assert bytes(shakespeare.load(tmp_path, url=f"{web.url}/input.txt").characters) == WORDS
    assert web.hits == ["/input.txt"]
    assert (tmp_path / "text" / "tinyshakespeare.txt").read_bytes() == WORDS


def test_the_real_text(tmp_path: Path) -> None:
    folder = link_sets(tmp_path / "data")
    if not (folder / "text").is_dir():
        pytest.skip("the real text is not beside the LibSVM sets")
    found = shakespeare.load(folder)
    assert (len(found.train), len(found.held_out)) == (1003854, 111540)
    assert (len(found.alphabet), bytes(found.alphabet[:13])) == (65, b"\n !$&',-.3:;?")
    assert bytes(found.characters[:14]) == b"First Citizen:"


def test_markov_texts_are_keyed_and_a_longer_one_goes_on() -> None:
    short, long, other = markov(2000), markov(3000), markov(2000, seed=1)
    assert np.array_equal(long.characters[:2000], short.characters)
    assert short.sha256() == markov(2000).sha256() != other.sha256()
    assert len(short.alphabet) == 16


def test_the_entropy_rate_in_the_docstring_is_the_loss_of_the_source_itself() -> None:
    """By the law of large numbers: the mean surprise of a long text under the chances it was drawn with."""
    length = 200000
    found, p = markov(length), source.transition_probabilities(0)
    places = np.searchsorted(source.ALPHABET, found.characters)
    surprise = -np.log(p[places[:-2], places[1:-1], places[2:]])
    spread = surprise.std() / math.sqrt(length) * 4  # neighbours are dependent
    assert surprise.mean() == pytest.approx(1.15460550219, abs=4 * spread)
    assert spread < 0.01


def write_shard(file: Path, tokens: list[int], magic: int = 20240520, said: int | None = None) -> None:
    """A shard as llm.c writes it, packed by struct."""
    header = struct.pack("<256i", magic, 1, len(tokens) if said is None else said, *[0] * 253)
    file.write_bytes(header + struct.pack(f"<{len(tokens)}H", *tokens))


def test_shards_are_read_in_order(tmp_path: Path) -> None:
    (folder := tmp_path / "fineweb").mkdir()
    for name, tokens in (("train_000001", [5, 50256]), ("train_000002", [7]), ("val_000000", [1, 2, 3])):
        write_shard(folder / f"fineweb_{name}.bin", tokens)
    found = token_shards.read_shards(tmp_path, shards=2, held_out=2)
    assert [part.tolist() for part in (found.train, found.held_out)] == [[5, 50256, 7], [1, 2]]
    assert token_shards.read_shards(folder).train.tolist() == [5, 50256]


@pytest.mark.parametrize(("tokens", "changed"), [([1, 2], {"magic": 20240521}), ([1, 2], {"said": 3}), ([50257], {})])
def test_a_file_of_another_form_is_no_shard(tmp_path: Path, tokens: list[int], changed: dict[str, int]) -> None:
    write_shard(tmp_path / "fineweb_train_000001.bin", tokens, **changed)
    with pytest.raises(DataError, match=r"000001\.bin: has (1028 bytes and begins with \[2024|the token 50257, but)"):
        token_shards.read_shards(tmp_path)
    with pytest.raises(DataError, match=r"cannot read .*fineweb_train_000001\.bin"):
        token_shards.read_shards(tmp_path / "elsewhere")


@pytest.mark.parametrize("size", [0, 12, 1027])
def test_a_shard_that_was_cut_is_named(tmp_path: Path, size: int) -> None:
    write_shard(file := tmp_path / "fineweb_train_000001.bin", [1, 2], said=1)
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(DataError, match=rf"fineweb_train_000001\.bin: has {size} bytes and begins with .*truncated"):
        token_shards.read_shard(file)


def test_python_s_sources_are_the_same_twice() -> None:
    found = python_sources.read_sources()
    assert found.sha256() == python_sources.read_sources().sha256()
    assert Path(abc.__file__).read_bytes() in found.train.tobytes()
