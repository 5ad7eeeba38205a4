"""Files whose bytes are changed in any way: they are refused, or say what they said before.

`make soak` tries 300,000 cases of each instead of sixty.
"""

import gzip
from functools import partial

import cifar10_support as stand_in
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_fuzz import tried

from common.errors import DataError
from data import cifar10, pinned
from data.cache import Arrays
from data.dataset import digest

Edit = tuple[str, float, bytes]

EDITS = st.lists(
    st.tuples(st.sampled_from(["flip", "cut", "insert", "over", "drop"]), st.floats(0, 1), st.binary(max_size=8)),
    min_size=1,
    max_size=3,
)
"""What is done to a file's bytes: where, as a share of its length, and with which others."""

on_files = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


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
    """One that holds `arrays`, of each kind."""
    official, npm = stand_in.official_files(arrays), stand_in.npm_files(arrays)
    stand_in.trust(official, monkeypatch)
    if request.param == "official":
        return stand_in.tar_gz(official, stand_in.FOLDER)
    return stand_in.tar_gz(npm, "package")


@pytest.mark.slow
@given(EDITS, st.booleans())
@on_files
def test_an_archive_gives_the_set_or_is_refused(
    arrays: Arrays, archive: bytes, tmp_path_factory: pytest.TempPathFactory, edits: list[Edit], within: bool
) -> None:
    """Its own bytes are changed, or those of what is packed in it."""
    changed = gzip.compress(edited(gzip.decompress(archive), edits), 1) if within else edited(archive, edits)
    place = tmp_path_factory.getbasetemp() / "set.tar.gz"
    place.write_bytes(changed)
    check = partial(pinned._checked, "cifar10", digest(arrays.values()), cifar10._read, place)
    found, refusal = tried(DataError, check, place, "put it back")
    if found is None:
        assert str(place) in refusal
        return
    for name in arrays:
        assert np.array_equal(found[name], arrays[name])
