"""One method's entry to a track: entry.yaml says what ran, rows.csv.xz holds every evaluation of every run.

The folder is <results_dir>/leaderboard/<track>/<name>/, and its own name is the entry's.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from common.files import atomic
from plots.runs import checksums

ENTRY, ROWS = "entry.yaml", "rows.csv.xz"

_TEXTS = ("run", "compressor", "setting", "status")


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What the trials of one task came to."""

    setting: Mapping[str, Any]  # the values that are judged, by key: {"lr": 0.01}
    tried: Mapping[str, Sequence[Any]]  # of every key
    inside: bool  # whether smaller and larger step sizes were tried
    note: str  # what speaks against the choice; empty for most
    config: Mapping[str, Any]  # of the judged runs but for the seed, see `identity.settings`


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What entry.yaml says."""

    track: str
    version: str  # of the track, see `Track.version`
    name: str
    algorithm: str
    label: str
    color: str
    marker: str
    family: str  # the kind of method, in its author's words
    overrides: Sequence[str]  # of every run, besides the track's
    packages: Sequence[str]
    seeds: Sequence[int]  # that are judged
    tasks: Mapping[str, Chosen]
    code: Mapping[str, str]  # the digest of every module that computed
    machines: Sequence[Mapping[str, Any]]  # commit, versions and hardware, as environment.json of a run has them
    rows_sha256: str = ""


def write(entry: Entry, rows: pd.DataFrame, folder: Path) -> None:
    """Write both files; entry.yaml, without which the folder is no entry, last.

    Columns of `rows` are those of `plots.runs.read.table` without looks and diagnostics, with `judged` (False: a
    trial), `setting` (the values that were tried, as overrides) and `status` (finished or diverged) of a row's run.
    """
    with atomic(folder / ROWS) as file:
        rows.to_csv(file, index=False, compression="xz", float_format="%.8g")  # a third of all digits' size
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
    content = {**asdict(entry), "rows_sha256": digest}
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=118)
    with atomic(folder / ENTRY, durable=True) as file:
        file.write_bytes(checksums.as_yaml(text, folder.name))


def read(folder: Path) -> Entry:
    """The entry in a folder, by its checksum whole. Raises ValueError where it is damaged, and OSError."""
    content = yaml.safe_load(checksums.read(folder / ENTRY))
    if set(content) != {one.name for one in fields(Entry)}:
        raise ValueError(f"{folder / ENTRY}: its keys are not those of an entry")
    tasks = {name: Chosen(**chosen) for name, chosen in content.pop("tasks").items()}
    return Entry(**content, tasks=tasks)


def read_rows(folder: Path) -> pd.DataFrame:
    """The rows of an entry. Raises ValueError unless they are those that its entry.yaml counts on, and OSError."""
    file = folder / ROWS
    if hashlib.sha256(file.read_bytes()).hexdigest() != read(folder).rows_sha256:
        raise ValueError(f"{file}: checksum mismatch: the file was edited, is damaged, or is of another entry")
    return pd.read_csv(file, dtype=dict.fromkeys(_TEXTS, str))


def find(place: Path) -> list[Path]:
    """The folders of entries in and below a folder."""
    return sorted(file.parent for file in place.rglob(ENTRY))
