"""LibSVM data sets: four that are pinned by their content, and any other svmlight file."""

import hashlib
from collections.abc import Iterable
from functools import partial
from io import RawIOBase
from pathlib import Path

import numpy as np

from common.errors import DataError
from common.files import regular
from common.names import unknown
from data.cache import Arrays, cached
from data.dataset import LARGEST_INDEX, Dataset, Place
from data.download import Url, download
from data.pinned import PACKED, pinned, unpacked

HOST = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary"

PINNED = {
    "a9a": "4e62848cffe5651e9f944a5030ec0ba8d7656994575c4f146c9c63c1b402e89f",
    "mushrooms": "7fad65b19fd0011fffa3b7272c2c59abb0a81be3a04c4daee822bfe1d5bf4e64",
    "phishing": "16cee2314baf7d413542f048f0033f9488396c13992621ca0cea60c3b1465c6d",
    "w8a": "8f55d26bd21c2d7f77762572ad079b299cba905fc2026c0cc2354a066c14516d",
}
"""What `Dataset.sha256` must give, by the names of sets."""


def load(
    name: str,  # a9a | mushrooms | phishing | w8a
    data_dir: Place[str | Path],  # where data sets are looked for and kept
    url: Url = HOST,  # the folder on the web that has the files
) -> Dataset:
    """One of the PINNED sets, checked: from `data_dir` if it is there, else from its host.

    In `data_dir` or its `libsvm/`, where a download goes too, it is looked for as the file `<name>`, plain or with
    a suffix of PACKED. Raises DataError where the name is unknown.
    """
    if name not in PINNED:
        raise DataError(unknown(f"there is no LibSVM set {name!r}", name, PINNED))
    forms = [name + suffix for suffix in ("", *PACKED)]
    sources = [(download, f"{url.rstrip('/')}/{name}", name)]
    return Dataset.from_arrays(
        name, pinned(name, PINNED[name], data_dir, "libsvm", forms, partial(_read, name, name), sources)
    )


def load_file(
    file: Place[str | Path],  # plain, or packed by gzip, bzip2, xz, lzma or zip
    data_dir: Place[str | Path],  # where the decoded set is kept
    sha256: str | None = None,  # of the file; filled in, or checked where given
    features: int | None = None,  # d, where the file does not show its last columns
) -> Dataset:
    """The binary data set in the svmlight `file`, kept decoded; it has the file's name.

    Raises DataError where the file is missing, damaged, not the expected one or not a binary data set, or has more
    columns than `features`.
    """
    file = Path(file).expanduser()
    try:
        with regular(file).open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}") from error
    if sha256 is not None and found != sha256.lower():
        raise DataError(f"{file} has SHA-256 {found}, expected {sha256}: delete it and fetch it again")
    place = Path(data_dir).expanduser() / "cache" / f"{file.name}-{found[:12]}"
    arrays = cached(place, partial(_read, file.name, str(file), file), of=found)
    largest = int(arrays["indices"].max()) + 1
    if features is not None and features < largest:
        raise DataError(f"{file} has feature index {largest}, features is only {features}: give {largest}")
    return Dataset.from_arrays(file.name, arrays, features)


def _read(name: str, source: str, file: Path) -> Arrays:
    with unpacked(file, source) as stream:
        return parse(stream, name, source).arrays()


def parse(lines: Iterable[bytes], name: str, source: str) -> Dataset:
    """The data set in `lines`, called `name`; its larger raw label becomes +1, the other -1.

    source: what to call the text in messages.
    Raises DataError, with the line where one is wrong, for what is not a binary data set in svmlight form.
    """
    from sklearn.datasets import load_svmlight_file  # here alone: it takes a second, and cached sets do without it

    text = _Counted(lines)
    try:
        # pyright takes the default, "auto", for the only type.
        features, raw = load_svmlight_file(text, zero_based=False)  # pyright: ignore[reportArgumentType]
    except (ValueError, OverflowError) as error:
        raise DataError(
            f"{source}, line {text.number}: expected a label, then index:value with whole indices that rise from 1 "
            f"to at most {LARGEST_INDEX} ({error})"
        ) from error
    classes = np.unique(raw)
    if not np.isfinite(raw).all() or not np.isfinite(features.data).all():
        raise DataError(f"{source}: expected finite numbers")
    if len(classes) != 2:
        shown = ", ".join(f"{label:g}" for label in classes[:5])
        raise DataError(f"{source}: two classes are needed; the {len(raw)} rows have {len(classes)} labels: {shown}")
    if not features.nnz:
        raise DataError(f"{source}: none of the {len(raw)} rows has a feature")
    content = {
        "labels": np.where(raw == classes[1], np.int8(1), np.int8(-1)),
        "indptr": features.indptr,
        "indices": features.indices,
        "values": features.data,
    }
    return Dataset.from_arrays(name, content)


class _Counted(RawIOBase):
    """The lines of a file, and the number of the last that was read."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self.lines, self.number = iter(lines), 0

    def __next__(self) -> bytes:
        line = next(self.lines)
        self.number += 1
        return line
