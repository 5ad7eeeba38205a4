"""The options of classes and functions, and values checked against the types of these."""

import math
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import pytest

from algorithms.compressors import Compressor
from common.errors import UsageError
from experiments.config.classes import defaults, parameters
from experiments.config.values import validate


def function(a, /, b: "int | None" = None, *rest, c: float = -1.5, f: tuple[float, ...] = (1, 2), e=Path(), **more):
    """Not all of its parameters can be written in a file."""


def test_the_options_of_a_function() -> None:
    types = {name: one.annotation for name, one in parameters(function).items()}
    assert types == {"b": int | None, "c": float, "f": tuple[float, ...], "e": Any}
    assert defaults(function) == {"b": None, "c": -1.5, "f": (1, 2)}


FITTING = [
    (float, [1.5, 1], [True, "1", None, math.nan, math.inf, [1.0]], "a valid number"),
    (int, [1, -3], [True, 1.0, "1", None], "a valid integer"),
    (bool, [True, False], [1, 0, "true", None], "a valid boolean"),
    (str, ["", "a"], [1, None, True], "a valid string"),
    (Optional[float], [1, None], ["x", True], "a valid number"),  # noqa: UP045
    (int | str, [1, "x"], [1.5, None, True], "a valid integer or a valid string"),
    (Literal["l1"] | float | None, ["l1", 2, None], ["l2", True], "'l1' or a valid number"),
    (list[float], [[], [1, 2.0]], [["x"], [True], [math.nan], 1, None], "a valid number"),
    (tuple[int, str], [[1, "x"]], [1, [1], [1, 2]], "a valid list"),
    (Annotated[str | None, "place"], ["x", None], [1, True], "a valid string"),
    (dict, [{}], [[], 1], "an object"),
    (Compressor | None, [1, "x", None, True, []], [math.nan, math.inf], "a finite number"),
    (Any, [1, "x", None], [math.nan], "a finite number"),
]


@pytest.mark.parametrize(("kind", "yes", "no", "words"), FITTING, ids=[str(row[0]) for row in FITTING])
def test_values_are_checked_against_types(kind: Any, yes: list, no: list, words: str) -> None:
    for value in yes:
        read = validate(value, kind, "key")
        assert (list(read) if isinstance(read, tuple) else read) == value
    said = []
    for value in no:
        with pytest.raises(UsageError, match=r"^key=") as refused:
            validate(value, kind, "key")
        said.append(str(refused.value))
    assert said[0] == f"key={no[0]}: must be {words}"
