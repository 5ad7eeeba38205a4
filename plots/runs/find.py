"""Find and select run folders under a results folder."""

import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from common.errors import UsageError
from common.files import require_regular
from common.names import explain_unknown
from plots.runs.files import FILES
from plots.runs.read import RunRecord, open_run

CHOOSING = ("study", "task", "algorithm", "seed", "state")
"""The keys that choose runs, in this order."""


def find(root: Path) -> list[RunRecord]:
    """Find every run in and below a folder, in any state, with the runs that its sweeps recorded but never began.

    They are sorted by task, algorithm and id.
    """
    listed = {run.id: run for run in map(_open, sorted(root.glob("sweeps/**/jobs/*.yaml")))}
    begun = [_open(folder) for folder in folders(root)]
    for run in begun:
        listed.pop(run.id, None)
    return [*begun, *listed.values()]


def folders(root: Path) -> Iterator[Path]:
    """Yield the run folders and links to folders in and below a folder, sorted, then the unreadable folders."""
    unreadable: list[OSError] = []
    for path, inner, files in os.walk(root, onerror=unreadable.append):
        # Skip partial copies, and <id>.1: results of other code.
        inner[:] = sorted(name for name in inner if not re.fullmatch(r"\..*|[0-9a-f]{12}\.\d+", name))
        known = len({*FILES}.intersection(files))
        if known > 1 or (known and re.fullmatch("[0-9a-f]{12}", os.path.basename(path))):  # else a stray file
            yield Path(path)
            inner.clear()
        elif Path(path) == root:
            inner[:] = [name for name in inner if name not in ("sweeps", "figures")]
        yield from filter(Path.is_symlink, (Path(path, name) for name in inner))  # which os.walk does not follow
    for error in unreadable:
        if not isinstance(error, FileNotFoundError):
            yield Path(error.filename)  # opening it reports why


def drop_damaged(runs: Iterable[RunRecord]) -> list[RunRecord]:
    """Return the undamaged runs. Damaged ones are listed on standard error."""
    runs = list(runs)
    for run in runs:
        if run.state == "damaged":
            print(f"left out: {run.error}", file=sys.stderr)
    return [run for run in runs if run.state != "damaged"]


def choose_runs(results_dir: Path, study: str = "", **names: str) -> list[RunRecord]:
    """Return the undamaged runs with rows that `select` selects. Damaged ones are listed on standard error."""
    runs = [run for run in drop_damaged(find(results_dir)) if run.last]
    return select(runs, results_dir, study, **names)


def select(runs: Iterable[RunRecord], results_dir: Path, study: str = "", **names: str) -> list[RunRecord]:
    """Select the runs of one study and of the given tasks, algorithms, seeds and states, separated by commas.

    An empty text selects all. A study has the runs begun for it and those that its sweep found finished.
    Raises UsageError for a name that no run has, and suggests the closest one.
    """
    chosen = list(runs)
    if study:
        chosen = select_study(chosen, results_dir, study)
    for key, text in names.items():
        wanted = [name for name in text.split(",") if name]
        if not wanted:
            continue
        named = [(str(getattr(run, key)), run) for run in chosen if run.config or key == "state"]
        known = {name for name, _ in named}
        for name in wanted:
            if name not in known:
                raise UsageError(explain_unknown(f"{key}={name}: no run has it", name, sorted(known)))
        chosen = [run for name, run in named if name in wanted]
    return chosen


def select_study(runs: Iterable[RunRecord], results_dir: Path, study: str) -> list[RunRecord]:
    """Select the runs of a study. Raises UsageError if there is no such study."""
    runs, sweeps = list(runs), results_dir / "sweeps"
    listed = {
        str(file.parent.relative_to(sweeps)): require_regular(file).read_text().split()
        for file in sweeps.rglob("cells.txt")
    }
    begun = {str(run.study) for run in runs if run.study}
    if study not in {*listed, *begun}:
        raise UsageError(explain_unknown(f"study={study}: no run has it", study, sorted({*listed, *begun})))
    return [run for run in runs if run.study == study or run.id in listed.get(study, [])]


def _open(place: Path) -> RunRecord:
    try:
        return open_run(place)
    except Exception as error:  # a foreign file can raise nearly anything
        text = f"{place}: not a complete run folder ({error}); delete it or move it elsewhere"
        return RunRecord(place, "damaged", error=text)
