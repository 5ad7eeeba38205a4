"""`python -m data`: what it asks for, and that it goes on."""

import sys

import numpy as np
import pytest
from cifar10_support import small_arrays
from waiting import exit_status

from common.errors import DataError
from data import __main__ as command
from data import cifar10, libsvm, shakespeare
from data.dataset import Dataset, Images, Text

Asked = list[tuple[str, str]]
FAILURES = {("w8a", "bad"): DataError("no w8a today"), ("shakespeare", "stopped"): KeyboardInterrupt()}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """What is asked of the loaders; some fail."""
    noted: Asked = []

    def load(name: str, directory: str) -> object:
        noted.append((name, directory))
        if (name, directory) in FAILURES:
            raise FAILURES[name, directory]
        if name == "shakespeare":
            return Text(name, np.frombuffer(b"O for a muse", np.uint8))
        if name != "cifar10":
            return Dataset.from_dense(name, np.ones((4, 3)), np.array([True, False, True, False]))
        return Images("cifar10", **small_arrays(), mean=(0.0,) * 3, std=(1.0,) * 3)

    monkeypatch.setattr(cifar10, "load", lambda directory: load("cifar10", directory))
    monkeypatch.setattr(shakespeare, "load", lambda directory: load("shakespeare", directory))
    monkeypatch.setattr(libsvm, "load", load)
    monkeypatch.setenv("DATA_DIR", "from the environment")
    return noted


ALL = [*libsvm.PINNED, "cifar10", "shakespeare"]


@pytest.mark.parametrize(
    ("arguments", "expected", "status"),
    [
        ([], [(name, "from the environment") for name in ALL], 0),
        (["data_dir=given", "cifar10", "a9a"], [("cifar10", "given"), ("a9a", "given")], 0),
        (["data_dir=bad"], [(name, "bad") for name in ALL], "error: w8a: no w8a today"),
        (["data_dir=stopped"], [(name, "stopped") for name in ALL], 130),
        (["cifar10", "a9b"], [], 2),
    ],
)
def test_fetching_from_the_command_line(
    arguments: list[str],
    expected: Asked,
    status: int | str,
    asked: Asked,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    monkeypatch.setattr(sys, "argv", ["data", *arguments])
    assert exit_status(command.main) == status
    assert asked == expected
    lines = capsys.readouterr().out.splitlines()
    for said in ("cifar10: 10 training and 2 test images", "a9a: 4 rows, 3 features") if asked else ():
        assert f"{said}, content verified" in lines
