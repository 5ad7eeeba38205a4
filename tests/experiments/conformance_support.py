"""What the tests of conformance checks share."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from experiments.conformance.findings import Check, examine


def violation(check: Check, subject: object) -> str:
    """What a check finds wrong with something; empty where it finds nothing."""
    [finding] = examine([check], subject)
    return finding.violation or ""


def names(checks: Iterable[Check]) -> set[str]:
    """What the checks are called."""
    return {check.__name__ for check in checks}


def each(broken: list[tuple]) -> list:
    """Rows of a check's name and more as parameters of a test, with readable ids."""
    return [pytest.param(*row, id=f"{row[0]}-{number}") for number, row in enumerate(broken)]
