"""The options of classes and functions, read from their source: against what Python says of the same objects."""

import importlib
import inspect
import math
import textwrap
from pathlib import Path

import pytest

from common.errors import UsageError
from experiments.config.signatures import COMPUTED, REQUIRED, Option, options
from experiments.config.values import validate

SOURCE = '''
    import dataclasses
    from dataclasses import KW_ONLY, InitVar, dataclass, field
    from typing import ClassVar, NamedTuple

    import theirs.base as base
    from theirs.base import Base, LIMIT

    SIZE = 3

    def plain(a, /, b: "int | None" = None, *rest, c: float = -1.5, d: list[float] = SIZE, e=LIMIT,  # of e
              f: str = str(2), **more):
        """A docstring."""

    def told(
        x: float,  # between 0 and 1
        y: int = 2,   #   how many, "ü"
        z: str = "# no comment",
        w: bool = True
    ): ...  # noqa

    @dataclasses.dataclass(frozen=True)
    class Fields(base.Base):
        """Own and inherited."""
        known: ClassVar[int] = 3
        _: KW_ONLY
        second: float = 2.0  # now a number
        third: list[int] = field(default_factory=list)
        fourth: int = field(kw_only=True)
        hidden: int = field(default=1, init=False)
        passed: InitVar[int] = 4

    class Undecorated(Fields):
        other: int = 3

    class Initialised(Base):
        def __init__(self, size: int, rate: float = 0.5) -> None: ...

    @dataclass
    class Mixed(Initialised):
        own: int = 1

    class Bare: ...

    CONSTANT = 1
'''
BASE = """
    from dataclasses import dataclass
    LIMIT = 7
    @dataclass
    class Base:
        first: int = 1  # of the base
        second: int = 2
"""


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "base.py").write_text(textwrap.dedent(BASE))
    (tmp_path / "theirs" / "source.py").write_text(textwrap.dedent(SOURCE))
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize(
    "target",
    [
        "algorithms.compressors.TopK",
        "algorithms.methods.onebit_adam.onebit_adam",
        "data.libsvm.load",
        "experiments.tasks.images.ImageClassification",
    ],
)
def test_options_are_those_that_python_sees(target):
    module, _, name = target.rpartition(".")
    source = getattr(importlib.import_module(module), name)
    signature = inspect.signature(source)
    read = options(target)
    assert list(read) == list(signature.parameters)
    for name, parameter in signature.parameters.items():
        assert read[name].default == (REQUIRED if parameter.default is parameter.empty else parameter.default)
        told = parameter.annotation
        names = vars(importlib.import_module(module)) | vars(importlib.import_module(str(source.__module__)))
        assert eval(read[name].annotation, names) == (eval(told, names) if isinstance(told, str) else told)


def test_the_options_of_a_function(theirs):
    assert list(options("theirs.source.plain").values()) == [
        Option("a", None, REQUIRED, ""),
        Option("b", "int | None", None, ""),
        Option("c", "float", -1.5, ""),
        Option("d", "list[float]", 3, ""),
        Option("e", None, 7, "of e"),
        Option("f", "str", COMPUTED, ""),
    ]
    comments = {option.name: option.comment for option in options("theirs.source.told").values()}
    assert comments == {"x": "between 0 and 1", "y": 'how many, "ü"', "z": "", "w": ""}


def test_the_options_of_a_class(theirs):
    fields = [
        Option("first", "int", 1, "of the base"),
        Option("second", "float", 2.0, "now a number"),
        Option("third", "list[int]", COMPUTED, ""),
        Option("fourth", "int", REQUIRED, ""),
        Option("passed", "int", 4, ""),
    ]
    for name in ("Fields", "Undecorated"):
        assert list(options(f"theirs.source.{name}").values()) == fields
    initialised = {"size": Option("size", "int", REQUIRED, ""), "rate": Option("rate", "float", 0.5, "")}
    assert options("theirs.source.Initialised") == initialised
    assert list(options("theirs.source.Mixed")) == ["first", "second", "own"]
    assert options("theirs.source.Bare") == {}


def test_what_has_no_options_is_refused(theirs):
    with pytest.raises(UsageError, match="has no CONSTANT"):
        options("theirs.source.CONSTANT")
    with pytest.raises(UsageError, match="did you mean told"):
        options("theirs.source.toldd")


FITTING = [
    ("float", [1.5, 1], [True, "1", None, math.nan, math.inf, [1.0]], "a valid number"),
    ("int", [1, -3], [True, 1.0, "1", None], "a valid integer"),
    ("bool", [True, False], [1, 0, "true", None], "a valid boolean"),
    ("str", ["", "a"], [1, None, True], "a valid string"),
    ("int | None", [1, None], [1.5, "x", True], "a valid integer"),
    ("Optional[float]", [1, None], ["x", True], "a valid number"),
    ("Union[int, str]", [1, "x"], [1.5, None, True], "a valid integer or a valid string"),
    ("str | Path", ["x"], [1, None], "a valid string"),
    ("Literal['l1', 'l2']", ["l1"], ["l3", None, 1], "'l1' or 'l2'"),
    ("Literal['l1'] | float | None", ["l1", 2, None], ["l2", True], "'l1' or a valid number"),
    ("list[float]", [[], [1, 2.0]], [["x"], [True], [math.nan], 1, None], "a valid number"),
    ("tuple[int, ...]", [[1, 2], ()], [["x"], 1], "a valid integer"),
    ("tuple[int, str]", [[1, "x"]], [1, [1], [1, 2]], "a valid list"),
    ("marks.Place[str | None]", ["x", None], [1, True], "a valid string"),
    ("dict", [{}], [[], 1], "an object"),
    ("Compressor | None", [1, "x", None, True, []], [math.nan, math.inf], "a finite number"),
    ("not an expression", [1, None], [math.nan], "a finite number"),
    (None, [1, "x", None], [math.nan], "a finite number"),
]


@pytest.mark.parametrize(("annotation", "yes", "no", "words"), FITTING, ids=[str(row[0]) for row in FITTING])
def test_values_are_checked_against_annotations(annotation, yes, no, words):
    for value in yes:
        read = validate(value, annotation, "key")
        assert (list(read) if isinstance(read, tuple) else read) == (list(value) if value == () else value)
    said = []
    for value in no:
        with pytest.raises(UsageError, match=r"^key=") as refused:
            validate(value, annotation, "key")
        said.append(str(refused.value))
    assert said[0] == f"key={no[0]}: must be {words}"
