"""Keep finished runs of older code whose numbers today's code gives too, by the golden trajectories.

    python -m experiments.keep
    python -m experiments.keep results other/results dry_run=true

Where only code was edited, a finished run has another id today. Its folder is renamed to it if tests/golden is as it
was committed and passes, with today's code and with the code that the run was begun with, which was committed too
(other files may have been edited then), and if golden runs use every module that was edited since. A key that there
was none of then is taken to have stood at its default. Its code.json then says what it was kept from. dry_run=true
only says what would be kept.
"""

import io
import json
import os
import runpy
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from common.errors import RunError, UsageError
from common.files import atomic
from experiments.config import identity
from experiments.config.earlier import today
from experiments.config.run import load_run
from experiments.run_store.environment import git
from experiments.run_store.renamed import copy
from plots.request import answering, chosen, folder, parse, words
from plots.runs.files import read_json
from plots.runs.find import find, whole
from plots.runs.read import RunRecord

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests" / "golden"
HARNESS = "trained.py"
"""Of the files there the one that calls the code, and is what it was when the code was."""


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line above."""
    given = words("experiments.keep", __doc__, arguments, "DIR | key=value")
    with answering():
        request = parse([word for word in given if "=" in word], {"dry_run": "false"})
        dry_run = chosen("dry_run", request["dry_run"], ("true", "false")) == "true"
        for place in [word for word in given if "=" not in word] or ["results"]:
            results_dir = folder("results_dir", place)
            finished = whole(run for run in find(results_dir) if run.is_finished)
            kept = [keep(run, results_dir, dry_run) for run in finished]
            print("\n".join(filter(None, kept)) or f"{place}: every finished run is of today's code")


def keep(run: RunRecord, results_dir: Path, dry_run: bool = False) -> str:
    """Rename a finished run's folder to today's id; what was done and why, "" for a run of today's code.

    Raises RunError where the golden trajectories are not what was committed, or today's code does not take them.
    """
    try:
        now = today(run.config)
        settings, code = identity.settings(now), identity.code(now)
    except (UsageError, KeyError) as error:
        return f"{run.folder}: not kept: {error}"
    target = run.folder.with_name(identity.identity(settings, code))
    if target == run.folder:
        return ""
    changes = ", ".join(identity.changed(run.code, code))
    if identity.identity(_known(settings, run.config), run.code) != run.id:
        doubt = "its settings give another id too"
    elif target.exists():
        doubt = f"{target} is there"
    else:
        check_golden()
        doubt = _doubt(run, {name for name in code if code[name] != run.code.get(name)})
    if doubt:
        return f"{run.folder}: not kept: {doubt} ({changes})"
    if not dry_run:
        _move(run, target, code, results_dir)
    return f"{run.folder}: {'would be kept' if dry_run else 'kept'} as {target.name} ({changes})"


def _known(settings: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a configuration has a key for; the names of parts are no keys."""
    return {
        name: _known(value, config[name]) if isinstance(value, Mapping) else value
        for name, value in settings.items()
        if name in config or name == "name"
    }


@cache
def check_golden() -> None:
    """Raise RunError unless tests/golden is as committed, and passes."""
    if git("status", "--porcelain", "--", ":/tests/golden") != "":
        raise RunError(f"{GOLDEN}: not as it was committed last, so it proves nothing; commit or undo that first")
    print("running the golden trajectories", file=sys.stderr, flush=True)
    done = _python(ROOT, "-m", "pytest", "-q", "tests/golden")
    if done.returncode:
        last = "\n".join(done.stdout.splitlines()[-20:])
        raise RunError(f"{last}\ntests/golden does not pass, so that nothing is kept: the code gives other numbers")


def golden_code(commit: str) -> frozenset[str]:
    """The modules of today that those golden runs compute with which the code of a commit, in a copy of it, can take.

    Raises RunError where the commit is not here, or a run that it can take gives other numbers there.
    """
    done = _compared(commit)
    if done.returncode:
        raise RunError(f"commit {commit} gives other golden trajectories than today's code")
    groups = runpy.run_path(str(GOLDEN / "cases.py"))["CASES"]
    cases = (groups[group][name] for group, name in map(str.split, done.stdout.splitlines()))
    return frozenset(module for case in cases for module in identity.code(load_run(case)))


@cache
def _compared(commit: str) -> subprocess.CompletedProcess[str]:
    """What today's golden runs that the code of a commit can take came to there: once for all runs of that commit."""
    print(f"running the golden trajectories with the code of commit {commit}", file=sys.stderr, flush=True)
    with _checked_out(commit) as place:
        for file in GOLDEN.iterdir():
            if file.is_file() and file.name != HARNESS:
                shutil.copy(file, place / "tests" / "golden" / file.name)
        return _python(place, "-c", _COMPARED)


_COMPARED = """
from tests.golden.test_golden import CASES, test_the_steps_are_those_recorded as compare

for group, cases in CASES.items():
    for name in cases:
        try:
            compare(group, name)
        except AssertionError:
            raise
        except Exception:  # it has no such method or option yet
            continue
        print(group, name)
"""


@contextmanager
def _checked_out(commit: str) -> Iterator[Path]:
    """A copy of the project as it was committed. Raises RunError where the commit is not here."""
    packed = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True)
    if packed.returncode:
        raise RunError(f"commit {commit} is not here")
    with TemporaryDirectory() as place:
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as files:
            files.extractall(place, filter="data")
        yield Path(place)


def _is_committed(run: RunRecord) -> bool:
    """Whether the modules that a run was begun with are those of its commit, whatever else had been edited.

    Raises RunError where that commit is not here.
    """
    if not run.environment.get("uncommitted_changes", True):
        return True
    with _checked_out(str(run.environment.get("commit"))) as place:
        return _python(place, "-c", _CODE, json.dumps(run.config)).stdout == json.dumps(run.code, sort_keys=True)


_CODE = """
import json
import sys

from experiments.config import identity
from experiments.config.run import read

config = json.loads(sys.argv[1])
print(json.dumps(identity.code(read(config, config["packages"])), sort_keys=True), end="")
"""


def _python(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """What Python says of the code that lies in `root`."""
    places = os.environ | {"PYTHONPATH": str(root)}
    return subprocess.run([sys.executable, *words], cwd=root, env=places, capture_output=True, text=True)


def _doubt(run: RunRecord, edited: set[str]) -> str:
    """Why the golden trajectories say nothing of a run; "" where they do."""
    try:
        if not _is_committed(run):
            return "it was begun with code that was not committed"
        unseen = sorted(edited - golden_code(str(run.environment.get("commit"))))
    except RunError as error:
        return str(error)
    return f"no golden run uses {', '.join(unseen)}" if unseen else ""


def _move(run: RunRecord, target: Path, code: dict[str, str], results_dir: Path) -> None:
    """Rename a run's folder, after noting in it what it was, and list it under its new id where it was listed."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    entry = {"from": run.id, "code": run.code, "commit": git("rev-parse", "HEAD"), "time": now}
    earlier = read_json(run.folder / "code.json").get("kept", [])
    kept = json.dumps({**code, "kept": [*earlier, entry]})
    copy(run.folder, target, lambda copied: (copied / "code.json").write_text(kept))
    shutil.rmtree(run.folder)
    for cells in (results_dir / "sweeps").rglob("cells.txt"):
        with atomic(cells) as file:
            file.write_text(cells.read_text().replace(run.id, target.name))
        for job in cells.parent.glob(f"jobs/{run.id}.*"):
            job.rename(job.with_stem(target.name))


if __name__ == "__main__":
    main()
