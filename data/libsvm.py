"""LibSVM data: four sets pinned by content hash, and any other svmlight file."""

import hashlib
from collections.abc import Iterable
from functools import partial
from io import RawIOBase
from pathlib import Path

import numpy as np

from common.errors import DataError
from common.files import require_regular
from common.names import explain_unknown
from data.cache import Arrays, load_cached
from data.dataset import LARGEST_INDEX, Dataset, Place
from data.download import Url, download
from data.pinned import PACKED, load_pinned, open_unpacked

HOST = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary"

PINNED = {
    "a9a": "4e62848cffe5651e9f944a5030ec0ba8d7656994575c4f146c9c63c1b402e89f",
    "mushrooms": "7fad65b19fd0011fffa3b7272c2c59abb0a81be3a04c4daee822bfe1d5bf4e64",
    "phishing": "16cee2314baf7d413542f048f0033f9488396c13992621ca0cea60c3b1465c6d",
    "w8a": "8f55d26bd21c2d7f77762572ad079b299cba905fc2026c0cc2354a066c14516d",
}
"""The value of `Dataset.sha256` for each set."""


def load(
    name: str,  # a9a | mushrooms | phishing | w8a
    data_dir: Place[str | Path],  # where data sets are looked for and kept
    url: Url = HOST,  # the folder on the web that has the files
) -> Dataset:
    """Load one of the PINNED sets and verify it: from `data_dir` if it is there, else from its host.

    This looks in `data_dir` and its `libsvm/` for the file `<name>`, plain or with a suffix of PACKED. Downloads go
    into `libsvm/`. Raises DataError if the name is unknown.
    """
    if name not in PINNED:
        raise DataError(explain_unknown(f"there is no LibSVM set {name!r}", name, PINNED))
    forms = [name + suffix for suffix in ("", *PACKED)]
    sources = [(download, f"{url.rstrip('/')}/{name}", name)]
    return Dataset.from_arrays(
        name, load_pinned(name, PINNED[name], data_dir, "libsvm", forms, partial(_read, name, name), sources)
    )


def load_file(
    file: Place[str | Path],  # plain, or packed by gzip, bzip2, xz, lzma or zip
    data_dir: Place[str | Path],  # where the decoded set is kept
    sha256: str | None = None,  # of the file; filled in, or checked where given
    features: int | None = None,  # d, if the last columns are empty in the file
) -> Dataset:
    """Load a binary data set from the svmlight `file` and cache it decoded, under the file's name.

    Raises DataError if the file is missing, damaged, not the expected one or not a binary data set, or has more
    columns than `features`.
    """
    file = Path(file).expanduser()
    try:
        with require_regular(file).open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}") from error
    if sha256 is not None and found != sha256.lower():
        raise DataError(f"{file} has SHA-256 {found}, expected {sha256}: delete it and fetch it again")
    place = Path(data_dir).expanduser() / "cache" / f"{file.name}-{found[:12]}"
    arrays = load_cached(place, partial(_read, file.name, str(file), file), file_hash=found)
    largest = int(arrays["indices"].max()) + 1
    if features is not None and features < largest:
        raise DataError(f"{file} has feature index {largest}, features is only {features}: give {largest}")
    return Dataset.from_arrays(file.name, arrays, features)


def _read(name: str, source: str, file: Path) -> Arrays:
    with open_unpacked(file, source) as stream:
        return parse(stream, name, source).arrays()


def parse(lines: Iterable[bytes], name: str, source: str) -> Dataset:
    """Parse svmlight lines as the data set `name`. The larger raw label becomes +1, the other -1.

    source: the text's name in messages.
    Raises DataError unless the text is a binary data set in svmlight form. The error names the wrong line.
    """
    from sklearn.datasets import load_svmlight_file  # imported late: it takes a second, and cached sets need none

    text = _Counted(lines)
    try:
        # pyright infers the type from the default, "auto".
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
    """The lines of a file, and the number of the last line read."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self.lines, self.number = iter(lines), 0

    def __next__(self) -> bytes:
        line = next(self.lines)
        self.number += 1
        return line
