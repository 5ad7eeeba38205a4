"""What checks are made of, and what they find."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

Check = Callable[[Any], str | None]
"""Raises Violation where what it is given does not keep the promise that the first line of its docstring states, and
returns why there is nothing to check where that is so."""


class Violation(AssertionError):
    """A promise was not kept: what was expected, what was seen, and for what input."""


@dataclass(frozen=True)
class Finding:
    """What one check came to."""

    promise: str
    violation: str | None = None  # None where the promise is kept
    moot: str | None = None  # why there was nothing to check

    def __str__(self) -> str:
        if self.violation:
            return f"FAIL  {self.promise}\n      {self.violation}"
        return f"--    {self.promise}: {self.moot}" if self.moot else f"ok    {self.promise}"


def examine(checks: Iterable[Check], subject: object) -> Iterator[Finding]:
    """Every check's finding, in order. Whatever a subject raises is a finding too."""
    for check in checks:
        promise = check.__doc__.splitlines()[0].rstrip(".")
        try:
            with given(""):
                finding = Finding(promise, moot=check(subject))
        except Violation as violation:
            finding = Finding(promise, str(violation))
        yield finding


def demand(checks: Iterable[Check], subject: object) -> None:
    """Raise Violation with every failed check's finding."""
    failed = [str(finding) for finding in examine(checks, subject) if finding.violation]
    if failed:
        raise Violation("\n".join(["", *failed]))


@contextmanager
def given(what: str) -> Iterator[None]:
    """Say of whatever goes wrong inside for what input it did."""
    suffix = f", for {what}" if what else ""
    try:
        yield
    except Violation as violation:
        raise Violation(f"{violation}{suffix}") from violation.__cause__
    except Exception as error:
        raise Violation(f"raised {type(error).__name__}: {_first_line(error)}{_place(error)}{suffix}") from error


def expect(kept: bool | Tensor, wanted: str, seen: object) -> None:
    """Raise Violation unless it is so."""
    if not kept:
        raise Violation(f"expected {wanted}, saw {seen}")


def expect_same(actual: Tensor, wanted: Tensor, what: str) -> None:
    """Raise Violation unless two tensors are equal bit for bit, the sign of zeros included."""
    form = (tuple(wanted.shape), wanted.dtype)
    expect((tuple(actual.shape), actual.dtype) == form, f"{what} {_form(*form)}", _form(actual.shape, actual.dtype))
    _expect_nowhere(_bits(actual) != _bits(wanted), actual, wanted, what)


def expect_close(actual: Tensor, wanted: Tensor, rtol: float, what: str) -> None:
    """Raise Violation unless two tensors differ by at most `rtol` times the largest number of the second."""
    form = (tuple(wanted.shape), wanted.dtype)
    expect((tuple(actual.shape), actual.dtype) == form, f"{what} {_form(*form)}", _form(actual.shape, actual.dtype))
    room = rtol * (wanted.abs().max() if wanted.numel() else 0)
    _expect_nowhere(~((actual - wanted).abs() <= room), actual, wanted, f"{what} within {float(room):.2g}")


def _expect_nowhere(wrong: Tensor, actual: Tensor, wanted: Tensor, what: str) -> None:
    if wrong.any():
        place = tuple(wrong.nonzero()[0].tolist())
        raise Violation(
            f"expected {what}, saw {actual[place].item()!r} instead of {wanted[place].item()!r} at {list(place)} and "
            f"{int(wrong.sum()) - 1} more such places"
        )


def _bits(x: Tensor) -> Tensor:
    integers = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    return x.contiguous().view(integers[x.element_size()]) if x.is_floating_point() else x


def _form(shape: Iterable[int], dtype: torch.dtype) -> str:
    return f"of shape {list(shape)} and {dtype}"


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0]


def _place(error: Exception) -> str:
    """Where in the subject's own code an error arose: the last place that is not in an installed package or here."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "site-packages" not in frame.filename and Path(frame.filename).parent != Path(__file__).parent
    ]
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
