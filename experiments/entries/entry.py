"""One method's entry in a track: entry.yaml describes the runs, rows.csv.xz holds every evaluation of every run.

The folder is <results_dir>/leaderboard/<track>/<name>/, named after the entry.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from common.files import atomic_write
from plots.runs import checksums
from plots.runs.files import read_yaml

ENTRY, ROWS = "entry.yaml", "rows.csv.xz"

_TEXTS = ("run", "compressor", "setting", "status")


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The setting that the trials of one task chose."""

    setting: Mapping[str, Any]  # the judged values by key: {"lr": 0.01}
    tried: Mapping[str, Sequence[Any]]  # the tried values by key
    inside: bool  # whether smaller and larger step sizes were tried
    note: str  # a reason against the choice; usually empty
    config: Mapping[str, Any]  # the judged runs' configuration without the seed, see `identity.settings`


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The content of entry.yaml."""

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
    parts: Mapping[str, str]  # what the method is made of on the first task, see `parts_of`
    memory: float  # numbers per coordinate that a worker keeps besides the model, the most of all tasks
    seeds: Sequence[int]  # of the judged runs
    tasks: Mapping[str, Choice]
    code: Mapping[str, str]  # digests of the modules that computed the runs
    machines: Sequence[Mapping[str, Any]]  # commit, versions and hardware, as in a run's environment.json
    rows_sha256: str = ""


def write_entry(entry: Entry, rows: pd.DataFrame, folder: Path) -> None:
    """Write both files, entry.yaml last: without it the folder is not an entry.

    `rows` has the columns of `plots.runs.read.table` without looks and diagnostics. Three more describe a row's run:
    `judged` (False: a trial), `setting` (the tried values, as overrides) and `status` (finished or diverged).
    """
    rows = rows.assign(seconds=rows["seconds"].map("{:.3g}".format))  # noise that would not compress
    with atomic_write(folder / ROWS) as file:
        rows.to_csv(file, index=False, compression="xz", float_format="%.8g")  # a third of the size of full precision
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
    content = {**asdict(entry), "rows_sha256": digest}
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=118)
    with atomic_write(folder / ENTRY, durable=True) as file:
        file.write_bytes(checksums.as_yaml(text, checksums.id_of(folder)))


def read_entry(folder: Path) -> Entry:
    """Read the entry in a folder and verify its checksum. Raises ValueError if it is damaged, and OSError."""
    content = read_yaml(checksums.read(folder / ENTRY), folder / ENTRY)
    if set(content) != {field.name for field in fields(Entry)}:
        raise ValueError(f"{folder / ENTRY}: its keys are not those of an entry")
    tasks = {name: Choice(**chosen) for name, chosen in content.pop("tasks").items()}
    return Entry(**content, tasks=tasks)


def read_with_rows(folder: Path) -> tuple[Entry, pd.DataFrame]:
    """Read an entry and its rows. Raises ValueError unless the rows have the hash in entry.yaml, and OSError."""
    entry, file = read_entry(folder), folder / ROWS
    if hashlib.sha256(file.read_bytes()).hexdigest() != entry.rows_sha256:
        raise ValueError(f"{file}: checksum mismatch: the file was edited, is damaged, or is of another entry")
    return entry, pd.read_csv(file, dtype=dict.fromkeys(_TEXTS, str))


def find_entries(place: Path) -> list[Path]:
    """The folders of entries in and below a folder."""
    return sorted(file.parent for file in place.rglob(ENTRY))
