"""Fetch and verify the four LibSVM sets: `python -m data [DIRECTORY]` (DATA_DIR, or data/downloads, unless given)."""

from __future__ import annotations

import os
import sys

from data.errors import DataError
from data.libsvm import PINNED, load


def main() -> None:
    """Load every pinned set and say what it is."""
    directory = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("DATA_DIR", "data/downloads")
    for name in PINNED:
        try:
            rows, features = load(name, directory).features.shape
        except DataError as error:
            sys.exit(f"error: {error}")
        print(f"{name}: {rows} rows, {features} features, content verified")


if __name__ == "__main__":
    main()
