"""Fetch and verify the LibSVM sets, CIFAR-10 and tiny Shakespeare: `python -m data [data_dir=DIRECTORY] [NAME ...]`.

DIRECTORY is DATA_DIR, or data/downloads, unless given; a folder may also be named alone, as ./folder. NAMEs are all
sets unless given.
"""

import argparse
import os
import sys

from common.errors import DataError
from common.names import unknown
from data import cifar10, libsvm, shakespeare
from data.dataset import shape


def main() -> None:
    """Load every set asked for and say what it is; what failed, once the others are done."""
    known = [*libsvm.PINNED, "cifar10", "shakespeare"]
    parser = argparse.ArgumentParser(
        prog="python -m data", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", metavar="NAME", help=f"one of {', '.join(known)}")
    names, directory = [], os.environ.get("DATA_DIR", "data/downloads")
    for word in parser.parse_args().words:
        if word.startswith("data_dir=") or os.sep in word:
            directory = word.removeprefix("data_dir=")
        elif word in known:
            names.append(word)
        else:
            parser.error(f"{unknown(f'{word}: no such set', word, known)}; a folder is data_dir={word}")
    failures = []
    for name in names or known:
        try:
            print(f"{name}: {_described(name, directory)}, content verified", flush=True)
        except DataError as error:
            failures.append(f"error: {name}: {error}")
    if failures:
        sys.exit("\n".join(failures))


def _described(name: str, directory: str) -> str:
    """What the set is, once it is loaded."""
    if name == "cifar10":
        images = cifar10.load(directory)
        return f"{len(images.train_images)} training and {len(images.test_images)} test images"
    if name == "shakespeare":
        text = shakespeare.load(directory)
        return f"{len(text.train)} characters to train on, {len(text.held_out)} held out"
    rows, features = shape(libsvm.load(name, directory).features)
    return f"{rows} rows, {features} features"


if __name__ == "__main__":
    main()
