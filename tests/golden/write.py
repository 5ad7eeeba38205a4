"""Rewrite the golden trajectories: `python -m tests.golden.write`."""

from tests.golden.cases import CASES
from tests.golden.records import record, write
from tests.golden.trained import trained


def main() -> None:
    """Train every case and replace the files."""
    for group, cases in CASES.items():
        write(group, {name: record(*trained(overrides)) for name, overrides in cases.items()})


if __name__ == "__main__":
    main()
