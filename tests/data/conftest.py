"""Fixtures of the loaders' tests: a tiny pinned set, a web server, a list of leftover files."""

import hashlib
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from data_support import Leftovers, Web

from data import libsvm


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    """A running Web, reached without any proxy."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    web = Web()
    yield web
    web.server.shutdown()
    web.server.server_close()


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> str:
    """Register TINY_TEXT as the known set "tiny". Returns its content hash, computed here by hand."""
    content = hashlib.sha256(struct.pack("<3b", 1, -1, 1))
    content.update(struct.pack("<4q", 0, 2, 3, 3))
    content.update(struct.pack("<3i", 0, 2, 1))
    content.update(struct.pack("<3d", 0.5, -1.25, 4.0))
    monkeypatch.setitem(libsvm.PINNED, "tiny", content.hexdigest())
    return content.hexdigest()


@pytest.fixture
def leftovers(tmp_path: Path) -> Leftovers:
    """List the files below a folder of the test, without lock files. A cached set counts as one."""

    def listed(folder: str) -> list[str]:
        files = [path.relative_to(tmp_path / folder) for path in (tmp_path / folder).rglob("*") if path.is_file()]
        return sorted({"/".join(path.parts[:2]) for path in files if path.suffix != ".lock"})

    return listed
