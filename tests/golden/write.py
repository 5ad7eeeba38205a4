"""Rewrite the golden trajectories: `python -m tests.golden.write`, or with groups as arguments these alone."""

import sys

from tests.golden.cases import CASES
from tests.golden.records import record, write
from tests.golden.trained import trained


def main() -> None:
    """Train every case and replace the files."""
    for group in sys.argv[1:] or CASES:
        write(group, {name: record(*trained(overrides)) for name, overrides in CASES[group].items()})


if __name__ == "__main__":
    main()
