"""Fetch and verify the LibSVM sets, CIFAR-10, tiny Shakespeare and CIFAR-100.

    python -m data [data_dir=DIRECTORY] [NAME ...]

DIRECTORY defaults to DATA_DIR, else to data/downloads. Without NAMEs it takes all sets except CIFAR-100.
"""

import argparse
import os
import sys

from common.errors import DataError, exit_with_message
from common.names import explain_unknown
from data import cifar10, cifar100, libsvm, shakespeare
from data.dataset import Dataset, Images, shape


@exit_with_message()
def main() -> None:
    """Load and describe every requested set. Failures are reported after the others are done."""
    usual = [*libsvm.PINNED, "cifar10", "shakespeare"]  # the sets of the figures
    known = [*usual, "cifar100"]
    parser = argparse.ArgumentParser(
        prog="python -m data", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", metavar="NAME", help=f"one of {', '.join(known)}")
    names, directory = [], os.environ.get("DATA_DIR", "data/downloads")
    for word in parser.parse_args().words:
        if word.startswith("data_dir="):
            directory = word.removeprefix("data_dir=")
        elif word in known:
            names.append(word)
        else:
            parser.error(f"{explain_unknown(f'{word}: no such set', word, known)}; a folder is data_dir={word}")
    if not directory:
        parser.error("data_dir=: is empty, perhaps by an unset variable; give a folder, or unset DATA_DIR")
    failures = []
    for name in names or usual:
        try:
            print(f"{name}: {_describe(name, directory)}, content verified", flush=True)
        except DataError as error:
            failures.append(f"error: {name}: {error}")
    if failures:
        sys.exit("\n".join(failures))


def _describe(name: str, directory: str) -> str:
    others = {"cifar10": cifar10.load, "cifar100": cifar100.load_cifar100, "shakespeare": shakespeare.load}
    found = others[name](directory) if name in others else libsvm.load(name, directory)
    if isinstance(found, Images):
        return f"{len(found.train_images)} training and {len(found.test_images)} test images"
    if isinstance(found, Dataset):
        rows, features = shape(found.features)
        return f"{rows} rows, {features} features"
    return f"{len(found.train)} characters to train on, {len(found.held_out)} held out"


if __name__ == "__main__":
    main()
