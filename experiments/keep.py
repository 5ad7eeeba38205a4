"""Keep finished runs of older code whose numbers today's code gives too, by the golden trajectories.

    python -m experiments.keep
    python -m experiments.keep results other/results dry_run=true

Where only code was edited, a finished run has another id today. Its folder is renamed to it if tests/golden passes,
is as it was committed, and held the same when the run was begun, from committed code, and if golden runs use every
module that was edited. A key that there was none of then is taken to have stood at its default. Its code.json then
says what it was kept from. dry_run=true only says what would be kept.
"""

import json
import runpy
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from common.errors import RunError, UsageError
from common.files import atomic
from experiments.config import identity
from experiments.config.earlier import today
from experiments.config.run import load_run
from experiments.record.environment import git
from experiments.record.renamed import copy
from plots.request import answering, chosen, folder, parse, words
from plots.runs.files import read_json
from plots.runs.find import find, whole
from plots.runs.read import Run

GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "golden"


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


def keep(run: Run, results_dir: Path, dry_run: bool = False) -> str:
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
    command = [sys.executable, "-m", "pytest", "-q", str(GOLDEN)]
    done = subprocess.run(command, cwd=GOLDEN.parents[1], capture_output=True, text=True)
    if done.returncode:
        last = "\n".join(done.stdout.splitlines()[-20:])
        raise RunError(f"{last}\ntests/golden does not pass, so that nothing is kept: the code gives other numbers")


@cache
def golden_code() -> frozenset[str]:
    """The modules that any golden run computes with."""
    groups = runpy.run_path(str(GOLDEN / "cases.py"))["CASES"].values()
    return frozenset(name for cases in groups for case in cases.values() for name in identity.code(load_run(case)))


def _doubt(run: Run, edited: set[str]) -> str:
    """Why the golden trajectories say nothing of a run; "" where they do."""
    if run.environment.get("uncommitted_changes", True):
        return "it was begun with code that was not committed"
    commit = run.environment.get("commit")
    for file in sorted(GOLDEN.glob("*.json")):
        then = git("show", f"{commit}:tests/golden/{file.name}")
        if then is None:
            return f"commit {commit} has no tests/golden/{file.name}"
        recorded, now = json.loads(then)["cases"], json.loads(file.read_text())["cases"]
        if any(now.get(name) != case for name, case in recorded.items()):
            return f"tests/golden/{file.name} held other numbers at commit {commit}"
    unseen = sorted(edited - golden_code())
    return f"no golden run uses {', '.join(unseen)}" if unseen else ""


def _move(run: Run, target: Path, code: dict[str, str], results_dir: Path) -> None:
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
