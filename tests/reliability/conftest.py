"""The number and choice of cases: by default the same sixty. `make soak` tries 300,000 of each kind, and with
ARGS=--campaign-seed=5 other kills and other damage.

The tests share the support files of experiments, cluster and data.
"""

import sys
from pathlib import Path

import hypothesis
import pytest

for folder in ("experiments", "cluster", "data"):
    sys.path.append(str(Path(__file__).resolve().parents[1] / folder))

hypothesis.settings.register_profile("default", max_examples=60, deadline=None, derandomize=True)
hypothesis.settings.register_profile("soak", max_examples=300_000, deadline=None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--campaign-seed", type=int, default=17, help="seed of random kills and damage")


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of a campaign's random choices."""
    # When other folders are tested too, pytest does not know the option.
    return request.config.getoption("--campaign-seed", default=17)
