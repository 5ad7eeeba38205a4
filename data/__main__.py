"""Fetch and verify the four LibSVM sets and CIFAR-10: `python -m data [DIRECTORY [NAME ...]]`.

DIRECTORY is DATA_DIR, or data/downloads, unless given; NAMEs are all sets unless given.
"""

from __future__ import annotations

import argparse
import os
import sys

from common.errors import DataError
from data import cifar10, libsvm
from data.dataset import shape


def main() -> None:
    """Load every set asked for and say what it is; what failed, once the others are done."""
    known = [*libsvm.PINNED, "cifar10"]
    parser = argparse.ArgumentParser(
        prog="python -m data", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "directory", nargs="?", metavar="DIRECTORY", default=os.environ.get("DATA_DIR", "data/downloads")
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(known)}")
    given = parser.parse_args()
    unknown = [name for name in given.names if name not in known]
    if unknown:
        sys.exit(f"error: there is no set {unknown[0]!r}: known are {', '.join(known)}")
    failures = []
    for name in given.names or known:
        try:
            print(f"{name}: {_described(name, given.directory)}, content verified", flush=True)
        except DataError as error:
            failures.append(f"error: {name}: {error}")
    if failures:
        sys.exit("\n".join(failures))


def _described(name: str, directory: str) -> str:
    """What the set is, once it is loaded."""
    if name == "cifar10":
        images = cifar10.load(directory)
        return f"{len(images.train_images)} training and {len(images.test_images)} test images"
    rows, features = shape(libsvm.load(name, directory).features)
    return f"{rows} rows, {features} features"


if __name__ == "__main__":
    main()
