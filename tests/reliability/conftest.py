"""How many cases are tried: some hundred by default, 300,000 of each kind with --hypothesis-profile=soak."""

import sys
from pathlib import Path

import hypothesis

sys.path.append(str(Path(__file__).resolve().parents[1] / "experiments"))  # what the tests of runs share

hypothesis.settings.register_profile("default", max_examples=200, deadline=None, derandomize=True)
hypothesis.settings.register_profile("soak", max_examples=300_000, deadline=None)
