"""The recipes of examples/ that need torch alone, on one and two ranks; tests/frameworks has the others."""

from pathlib import Path

import pytest
from recipe_support import check_recipe


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize(("name", "length"), [("two_workers", 300), ("ddp_hook", 100), ("nanogpt_loop", 40)])
def test_a_recipe_trains_as_the_original_and_goes_on_as_if_never_stopped(
    name: str, length: int, size: int, tmp_path: Path
) -> None:
    check_recipe(name, length, size, tmp_path)
