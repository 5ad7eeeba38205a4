"""Short runs of every method, compressor and task take the very steps that were recorded."""

import pytest

from tests.golden.cases import CASES
from tests.golden.records import machine, read, trained

TOLERANCES = {"torch.float64": 1e-12, "torch.float32": 1e-5}
"""Of the largest value in a column, where another machine wrote the file; README.md says what was seen."""

FILES = {group: read(group) for group in CASES}


def case(group: str, name: str) -> object:
    """A case; slow where it is a variant, `<method>-<options>`, of a method that has a case of its own."""
    is_variant = name.partition("-")[0] in CASES[group] and "-" in name
    return pytest.param(group, name, id=f"{group}-{name}", marks=[pytest.mark.slow] if is_variant else [])


@pytest.mark.parametrize(("group", "name"), [case(group, name) for group in CASES for name in CASES[group]])
def test_the_steps_are_those_recorded(group, name):
    then, now = FILES[group]["cases"][name], trained(CASES[group][name])
    if machine() == FILES[group]["machine"]:
        assert now == then
        return
    assert now["dtype"] == then["dtype"]
    assert now["columns"].keys() == then["columns"].keys()
    for column, values in then["columns"].items():
        _assert_close(now["columns"][column], values, TOLERANCES[then["dtype"]], column)
    _assert_close(now["x"], then["x"], TOLERANCES[then["dtype"]], "x")


@pytest.mark.parametrize("group", CASES)
def test_every_case_is_recorded_and_nothing_else(group):
    assert FILES[group]["cases"].keys() == CASES[group].keys()


def _assert_close(now: list, then: list, tolerance: float, column: str) -> None:
    """Floats, which are strings, within the tolerance; counts, and where there are no values, exactly."""
    assert [value for value in now if not isinstance(value, str)] == [v for v in then if not isinstance(v, str)], (
        column
    )
    assert [isinstance(value, str) for value in now] == [isinstance(value, str) for value in then], column
    pairs = [(float.fromhex(a), float.fromhex(b)) for a, b in zip(now, then, strict=True) if isinstance(b, str)]
    scale = max((abs(b) for _, b in pairs), default=0.0)
    assert all(abs(a - b) <= tolerance * scale for a, b in pairs), f"{column}: {pairs}"
