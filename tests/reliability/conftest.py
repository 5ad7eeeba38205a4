"""The tests of reliability share tests/experiments/run_support.py."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "experiments"))
