"""`python -m data`: what it asks for, and that it goes on."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from cifar10_support import small_arrays

from common.errors import DataError
from data import __main__ as command
from data import cifar10, libsvm
from data.dataset import Dataset
from data.images import Images


class Loads:
    """In place of both loaders: notes what is asked for; the sets `bad` fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, bad: tuple[str, ...] = ()) -> None:
        self.asked: list[tuple[str, str]] = []
        self.bad = bad
        monkeypatch.setattr(cifar10, "load", lambda directory: self.load("cifar10", directory))
        monkeypatch.setattr(libsvm, "load", self.load)

    def load(self, name: str, directory: str) -> object:
        self.asked.append((name, directory))
        if name in self.bad:
            raise DataError(f"no {name} today")
        if name != "cifar10":
            return Dataset.from_dense(name, np.ones((4, 3)), np.array([True, False, True, False]))
        return Images("cifar10", **small_arrays(), mean=(0.0,) * 3, std=(1.0,) * 3)


ALL = [*libsvm.PINNED, "cifar10"]


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        ([], [(name, "from the environment") for name in ALL]),
        (["data_dir=given"], [(name, "given") for name in ALL]),
        (["./given", "cifar10", "a9a"], [("cifar10", "./given"), ("a9a", "./given")]),
    ],
)
def test_fetching_from_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, arguments: list[str], asked: list[tuple[str, str]]
) -> None:
    loads = Loads(monkeypatch)
    monkeypatch.setenv("DATA_DIR", "from the environment")
    monkeypatch.setattr(sys, "argv", ["data", *arguments])
    command.main()
    assert loads.asked == asked
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(asked)
    assert "cifar10: 10 training and 2 test images, content verified" in lines
    assert "a9a: 4 rows, 3 features, content verified" in lines


def test_fetching_goes_on_after_a_failure(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    loads = Loads(monkeypatch, bad=("a9a", "w8a"))
    monkeypatch.setattr(sys, "argv", ["data", "data_dir=given"])
    with pytest.raises(SystemExit) as stopped:
        command.main()
    assert stopped.value.code == "error: a9a: no a9a today\nerror: w8a: no w8a today"
    assert [name for name, _ in loads.asked] == ALL
    assert "cifar10: 10 training" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["cifar10", "a9b"], "2"),
        (["--help"], "0"),
        (["-x"], "2"),
        (["--cifar10"], "2"),
    ],
    ids=["unknown", "help", "short option", "long option"],
)
def test_what_fetches_nothing(arguments: list[str], code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loads = Loads(monkeypatch)
    monkeypatch.setattr(sys, "argv", ["data", *arguments])
    with pytest.raises(SystemExit) as stopped:
        command.main()
    assert str(stopped.value.code).startswith(code)
    assert loads.asked == []
