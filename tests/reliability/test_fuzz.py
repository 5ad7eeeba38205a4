"""What comes from outside is taken, or refused in words: whatever it is, nothing else happens.

`make soak` tries 300,000 cases of each instead of sixty.
"""

import gzip
import json
import math
import re
from collections.abc import Callable
from copy import deepcopy
from functools import cache, partial
from io import BytesIO
from pathlib import Path
from typing import Any

import cifar10_support as stand_in
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from common.errors import DataError, UsageError
from data import cifar10, pinned
from data.cache import Arrays
from data.dataset import digest
from data.libsvm import parse
from experiments.config.compose import compose, dotted_keys, resolve, value_of
from experiments.config.compose import parse as parse_override
from experiments.config.run import config_of, read_run
from plots.runs.read import open_run, read_json

NUMBERS = st.one_of(
    st.integers(-3, 12),
    st.sampled_from([0, 2**31 - 1, 2**31, 2**63, 10**30]),
    st.floats(),
    st.sampled_from(["1_0", "0x1", "1e400", "--1", "", "nan", "+1", "1.", "é", "\x00"]),
).map(str)
TOKENS = st.one_of(NUMBERS, st.builds("{}:{}".format, NUMBERS, NUMBERS), st.sampled_from(["#", "qid:1", ":", "a:b"]))
LINES = st.lists(TOKENS, max_size=6).map(" ".join)
TEXTS = st.lists(LINES, max_size=5).map("\n".join).map(str.encode)


def tried(refusal: type[Exception], act: Callable, *arguments: object) -> tuple[Any, str]:
    """What `act` returns, or in what words it refuses; nothing else may happen."""
    try:
        return act(*arguments), ""
    except refusal as error:
        return None, str(error)


def rows_by_hand(text: bytes) -> list[tuple[float, dict[int, float]]]:
    """The rows of svmlight text that is right: label, and values by index from 1."""
    rows = []
    for line in text.split(b"\n"):
        label, *features = line.partition(b"#")[0].split() or [b""]
        if label:
            parts = [feature.split(b":") for feature in features if not feature.startswith(b"qid:")]
            rows.append((float(label), {int(index): float(value) for index, value in parts}))
    return rows


@pytest.mark.slow
@given(st.one_of(TEXTS, st.binary(max_size=60)))
@example(b"1 1:1\n-1 2:1")
@example(b"1 1:1\n2 1:1\n3 1:1")
@example(b"1 1:nan\n2 2:1")
@example(b"nan 1:1\n2 2:1")
@example(b"1_0 1:1\n2 2:1")
def test_svmlight_text_is_read_as_by_hand_or_refused(text: bytes) -> None:
    found, refusal = tried(DataError, parse, BytesIO(text), "some", "some text")
    if refusal:
        assert refusal.startswith("some text")
        return
    expected = rows_by_hand(text)
    assert len({label for label, _ in expected}) == 2
    assert all(map(math.isfinite, [number for label, row in expected for number in (label, *row.values())]))
    higher = max(label for label, _ in expected)
    assert found.labels.tolist() == [1 if label == higher else -1 for label, _ in expected]
    dense = found.features.toarray()
    for row, (_, features) in zip(dense, expected, strict=True):
        whole = np.zeros(dense.shape[1])
        for index, value in features.items():
            whole[index - 1] = value
        assert row.tolist() == whole.tolist()


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=5,
)


@cache
def whole() -> dict:
    """A configuration that is right."""
    return resolve(compose(["algorithm=ef21"]))


PLACES = st.deferred(lambda: st.sampled_from([tuple(key.split(".")) for key in dotted_keys(whole())]))


@given(st.lists(st.tuples(PLACES, VALUES), min_size=1, max_size=2))
@example([(("rounds",), 0)])
@example([(("lr",), [0.1, math.nan])])
@example([(("cluster",), {})])
def test_a_configuration_is_a_run_or_refused(edits: list[tuple[tuple[str, ...], object]]) -> None:
    config = deepcopy(whole())
    for (*groups, last), value in edits:
        node: Any = config
        for group in groups:
            node = node.get(group) if isinstance(node, dict) else None
        if isinstance(node, dict):
            node[last] = value
    run, refusal = tried(UsageError, read_run, config, [])
    if refusal:
        return
    assert isinstance(run.rounds, int)
    assert run.rounds >= 1
    assert all(math.isfinite(lr) for lr in run.lr)
    assert read_run(config_of(run), []) == run


@given(st.text(max_size=30), st.text(max_size=30))
def test_a_word_of_the_command_line_is_an_override_or_refused(key: str, value: str) -> None:
    for word in (key, f"{key}={value}", f"lr={value}"):
        tried(UsageError, parse_override, word)
        tried(UsageError, value_of, "lr", [word])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


@given(st.one_of(VALUES.map(json.dumps), st.text(max_size=30)).map(lambda text: text.encode(errors="replace")))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_of_json_is_an_object_or_refused(place: Path, content: bytes) -> None:
    file = place / "status.json"
    file.write_bytes(content)
    found, refusal = tried(ValueError, read_json, file)
    assert str(file) in refusal if refusal else isinstance(found, dict)
    with pytest.raises((OSError, ValueError), match=re.escape(str(place))):
        open_run(place)


# Files whose bytes are changed in any way: they are refused, or say what they said before.

Edit = tuple[str, float, bytes]

EDITS = st.lists(
    st.tuples(st.sampled_from(["flip", "cut", "insert", "over", "drop"]), st.floats(0, 1), st.binary(max_size=8)),
    min_size=1,
    max_size=3,
)
"""Edits of a file's bytes: the kind, the place as a share of the length, and the new bytes."""


def edited(whole: bytes, edits: list[Edit]) -> bytes:
    """The bytes after these edits, one after the other."""
    for kind, share, others in edits:
        place = int(share * max(len(whole) - 1, 0))
        before, after = whole[:place], whole[place:]
        match kind:
            case "flip":
                whole = before + bytes(byte ^ 1 << place % 8 for byte in after[:1]) + after[1:]
            case "cut":
                whole = before
            case "insert":
                whole = before + others + after
            case "over":
                whole = before + others + after[len(others) :]
            case "drop":
                whole = before + after[1 + len(others) :]
    return whole


@pytest.fixture(scope="module")
def arrays() -> Arrays:
    return stand_in.small_arrays()


@pytest.fixture(params=["official", "npm"])
def archive(request: pytest.FixtureRequest, arrays: Arrays, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """An archive of each kind that holds `arrays`."""
    official, npm = stand_in.official_files(arrays), stand_in.npm_files(arrays)
    stand_in.trust(official, monkeypatch)
    if request.param == "official":
        return stand_in.tar_gz(official, stand_in.FOLDER)
    return stand_in.tar_gz(npm, "package")


@pytest.mark.slow
@given(EDITS, st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_archive_gives_the_set_or_is_refused(
    arrays: Arrays, archive: bytes, tmp_path_factory: pytest.TempPathFactory, edits: list[Edit], within: bool
) -> None:
    """The bytes of the archive are changed, or those of the tar file in it."""
    changed = gzip.compress(edited(gzip.decompress(archive), edits), 1) if within else edited(archive, edits)
    place = tmp_path_factory.getbasetemp() / "set.tar.gz"
    place.write_bytes(changed)
    check = partial(pinned._check, "cifar10", digest(arrays.values()), cifar10._read, place)
    found, refusal = tried(DataError, check, place, "put it back")
    if found is None:
        assert str(place) in refusal
        return
    for name in arrays:
        assert np.array_equal(found[name], arrays[name])
