"""A parametrized test of refused calls."""

from collections.abc import Callable
from typing import Any

import pytest


def refusals(*cases: tuple[Callable[[], object], str], kind: Any = ValueError) -> Callable:
    """Return a test that each call raises an error of this kind with this message."""

    @pytest.mark.parametrize(("make", "said"), cases)
    def test(make: Callable[[], object], said: str) -> None:
        with pytest.raises(kind, match=said):
            make()

    return test
