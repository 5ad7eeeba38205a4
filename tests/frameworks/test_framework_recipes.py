"""The recipes of examples/ for frameworks, on one and two ranks."""

import sys
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path

import pytest

sys.path += [str(Path(__file__).resolve().parents[1] / name) for name in ("cluster", "experiments")]


@pytest.mark.frameworks
@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize(
    ("name", "package", "length"),
    [("accelerate_loop", "accelerate", 8), ("lightning_trainer", "lightning", 8), ("hf_trainer", "transformers", 30)],
)
def test_a_recipe_trains_as_the_original_and_goes_on_as_if_never_stopped(
    name: str, package: str, length: int, size: int, tmp_path: Path
) -> None:
    if not find_spec(package):
        pytest.skip(f"{package} is not installed: make test-frameworks")
    from recipe_support import check_recipe

    get_context("forkserver").set_forkserver_preload(["tests.cluster.warm", "tests.frameworks.warm"])
    check_recipe(name, length, size, tmp_path)
