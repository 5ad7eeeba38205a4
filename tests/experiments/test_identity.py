"""A run is another run when the code that its configuration names has changed."""

from __future__ import annotations

import sys

import pytest
from run_support import SMALL

from experiments import build, identity
from experiments.config import load_run

SOURCE = '''
from dataclasses import dataclass

from algorithms.compressors import Identity


@dataclass(frozen=True)
class Mine(Identity):
    """A docstring."""

    def bits(self, d):
        return 7 * d
'''


@pytest.fixture
def identity_with(tmp_path, monkeypatch):
    """The identity of a run whose compressor has the given source."""
    monkeypatch.setattr(build, "PACKAGES", (*build.PACKAGES, "mine_"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # it would be stale: same size, same second

    def of(source: str) -> str:
        (tmp_path / "mine_compressor.py").write_text(source)
        sys.modules.pop("mine_compressor", None)
        identity._code.cache_clear()
        config = load_run(SMALL)
        config["compressor"] = {"_target_": "mine_compressor.Mine"}
        return identity.identity(config)

    yield of
    identity._code.cache_clear()


def test_an_edit_makes_another_run_and_a_comment_does_not(identity_with):
    before = identity_with(SOURCE)
    assert identity_with(SOURCE) == before
    assert identity_with(SOURCE.replace('"""A docstring."""', '"""Another."""  # and a comment')) == before
    assert identity_with(SOURCE.replace("7 * d", "8 * d")) != before
