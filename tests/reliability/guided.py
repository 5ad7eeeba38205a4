"""Bytes made by a fuzzer that watches which code they reach; needs atheris, `pip install atheris`.

    python -m tests.reliability.guided svmlight -runs=1000000
    python -m tests.reliability.guided rows -max_total_time=600

Of `svmlight` text, `rows` (metrics.jsonl), a `config` (config.yaml), a `status` (status.json), a file of a
`checkpoint` and an `archive` of CIFAR-10: whatever the bytes are, they are refused, or say what they must. What
follows the name are options of libFuzzer. A case that ends otherwise is shown, kept in a file, and ends it.
"""

import sys
import tempfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import atheris  # pyright: ignore[reportMissingImports]

for folder in ("reliability", "experiments", "data"):
    sys.path.append(str(Path(__file__).resolve().parents[1] / folder))

with atheris.instrument_imports(include=["data", "plots.runs", "experiments.run_store"]):
    import cifar10_support as stand_in
    import pytest
    import torch
    from record_support import OF_THE_RUN
    from run_support import go
    from test_fuzz import rows_by_hand

    from common.errors import DataError, RunError
    from data import cifar10, pinned
    from data.dataset import digest
    from data.svmlight import parse
    from experiments.cluster.ranks import Ranks
    from experiments.run_store.checkpoint import Checkpoint
    from plots.runs.files import read_rows
    from plots.runs.read import verified

Target = tuple[bytes, Callable[[bytes], None]]
"""What is right to begin with, and what is done with each case."""


def svmlight(place: Path) -> Target:
    """Text is read as a plain reading of it takes it, or refused."""

    def one(text: bytes) -> None:
        try:
            found = parse(BytesIO(text), "some", "some text")
        except DataError:
            return
        dense = found.features.toarray()
        for row, (_, features) in zip(dense, rows_by_hand(text), strict=True):
            assert {index + 1: value for index, value in enumerate(row) if value} == {
                index: value for index, value in features.items() if value
            }

    return b"1 1:0.5 3:2 # a comment\n-1 2:1e-3\n", one


def in_a_run(name: str, place: Path) -> Target:
    """A file of a run is as it was left, or its folder is refused."""
    run = go(*OF_THE_RUN, f"results_dir={place}")
    whole = (run / name).read_bytes()

    def one(content: bytes) -> None:
        (run / name).write_bytes(content)
        try:
            verified(run)
            read_rows(run)
        except ValueError:
            return
        assert content == whole

    return whole, one


def checkpoint(place: Path) -> Target:
    """A checkpoint's file is as it was saved, or refused."""
    [folder] = (go(*OF_THE_RUN, f"results_dir={place}") / "checkpoint").glob("*/")
    whole = (folder / "worker-0.pt").read_bytes()

    def one(content: bytes) -> None:
        (folder / "worker-0.pt").write_bytes(content)
        try:
            Checkpoint(folder.parent, Ranks()).load(range(2), torch.device("cpu"))
        except RunError:
            return
        assert content == whole

    return whole, one


def archive(place: Path) -> Target:
    """An archive gives the set, or is refused."""
    arrays = stand_in.small_arrays()
    files, file = stand_in.official_files(arrays), place / "cifar-10-python.tar.gz"
    stand_in.trust(files, pytest.MonkeyPatch())

    def one(content: bytes) -> None:
        file.write_bytes(content)
        try:
            pinned._checked("cifar10", digest(arrays.values()), cifar10._read, file, file, "")
        except DataError:
            return

    return stand_in.tar_gz(files, stand_in.FOLDER), one


TARGETS: dict[str, Callable[[Path], Target]] = {
    "svmlight": svmlight,
    "rows": lambda place: in_a_run("metrics.jsonl", place),
    "config": lambda place: in_a_run("config.yaml", place),
    "status": lambda place: in_a_run("status.json", place),
    "checkpoint": checkpoint,
    "archive": archive,
}


def main() -> None:
    """Fuzz the target that is named first."""
    _, name, *options = sys.argv
    with tempfile.TemporaryDirectory() as temporary:
        corpus = Path(temporary, "corpus")
        corpus.mkdir()
        right, one = TARGETS[name](Path(temporary))
        (corpus / "right").write_bytes(right)
        one(right)
        atheris.Setup([sys.argv[0], "-max_len=100000", *options, str(corpus)], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
