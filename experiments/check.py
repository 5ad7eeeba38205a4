"""Check your class, function or results.

A class or function must pass the project's contract tests of its kind. Run folders must match their checksums, and
entries of the leaderboard must follow the rules of their tracks.

    python -m experiments.check my_package.MyCompressor                 a compressor, with its defaults
    python -m experiments.check my_package.MyCompressor block=16        with options, as a configuration sets them
    python -m experiments.check my_package.my_algorithm compressor._target_=my_package.MyCompressor
    python -m experiments.check my_package.MyTask dataset._target_=my_package.my_data
    python -m experiments.check results/                                every run folder and entry below it

The module is imported from the current folder or PYTHONPATH. Failed checks are shown as pytest shows them; each
damaged folder has a line. The exit status is 0 if all is well, 1 if a check failed, 2 if something cannot be checked.
"""

import argparse
import gc
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from common.errors import DataError, Interrupted, RunError, UsageError, exit_with_message
from experiments.config.application import resume_collection
from experiments.config.compose import parse
from plots.runs.find import folders
from plots.runs.read import open_run, retry

CONTRACTS = Path(__file__).with_name("contracts")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("target", metavar="my_package.name | FOLDER", help="a class or function, or a results folder")
    parser.add_argument("options", nargs="*", metavar="key=value")
    given = parser.parse_args(arguments)
    with exit_with_message():
        if Path(given.target).is_dir():
            if given.options:
                raise UsageError(
                    f"{given.options[0]}: options are for a class or function; {given.target} is a folder"
                )
            check_folders(Path(given.target))
            return
        if "." not in given.target or "/" in given.target:
            raise UsageError(
                f"{given.target}: no such folder; name a results folder, or a class as package.module.Name"
            )
        options = OmegaConf.create({"_target_": given.target})
        for override in map(parse, given.options):
            OmegaConf.update(options, override.key_or_group, override.value())
        node: Any = OmegaConf.to_container(options)
        gc.disable()  # looking for garbage slows imports, and finds none
        try:
            import pytest
            import torch

            from experiments.contracts.kinds import build_subject

            torch.set_num_threads(1)  # bitwise equality holds for one thread
            subject = build_subject(node)
        except ModuleNotFoundError as error:
            if error.name != "pytest":
                raise
            raise UsageError("the checks need pytest: run make setup, or pip install pytest") from error
        finally:
            resume_collection()
        print(f"{subject.kind} {' '.join([given.target, *given.options])}", flush=True)
        # Neither this project's pytest settings nor the caller's apply. No contract uses hypothesis.
        plugins = "-p no:cacheprovider -p no:hypothesispytest"
        own = f"-c {os.devnull} {plugins} --assert=plain -q --no-header --tb=short -rs".split()
        status = pytest.main(
            [str(CONTRACTS / f"test_{subject.kind}.py"), "--rootdir", str(CONTRACTS), *own],
            plugins=[_FixtureValues(subject.fixture, subject.values)],
        )
        if status == pytest.ExitCode.INTERRUPTED:
            raise Interrupted
        if status != pytest.ExitCode.OK:
            raise RunError("some checks failed, see above")


def check_folders(place: Path) -> None:
    """Verify every run folder and entry in and below a folder, and print a line for each damaged one.

    Raises RunError if one is damaged, and UsageError if the data or the package of an entry are missing.
    """
    from experiments.entries.entry import find_entries  # imports pandas

    damage, unchecked = {folder: _damage(folder) for folder in folders(place)}, 0
    runs = len(damage)
    if entries := find_entries(place):
        from experiments.entries.verify import agreement, problems  # imports torch
        from experiments.figures.committed import PLACE

        for folder in entries:
            try:
                damage[folder] = "; ".join(problems(folder))
            except (DataError, UsageError) as error:
                print(f"not checked  {error}", flush=True)
                unchecked += 1
        for folder in entries:
            committed = PLACE / "leaderboard" / folder.parent.name / folder.name
            if committed.is_dir() and committed != folder.resolve():
                with suppress(OSError, ValueError, UsageError):  # a damaged one is reported below
                    print(f"{folder}: {agreement(folder, committed)}")
    damaged = {folder: text for folder, text in damage.items() if text}
    for folder, text in damaged.items():
        print(f"damaged   {folder}: {text}", flush=True)
    counted = f"{runs} run folders" + (f" and {len(entries)} entries" if entries else "")
    print(f"{counted}, {len(damaged)} damaged")
    if damaged:
        raise RunError("follow the advice above, restore the files, or delete the damaged folders to run them anew")
    if unchecked:
        raise UsageError(f"entries that were not checked: {unchecked}, see above")


def _damage(folder: Path) -> str:
    """Return what is wrong with a run's folder, or an empty text."""
    try:
        run = open_run(folder)
        if not run.is_finished:
            from experiments.run_store.checkpoint import verify  # imports torch, which takes a second

            retry(lambda: verify(folder / "checkpoint", run.config["cluster"]["workers"]))
    except Exception as error:  # a foreign file can raise nearly anything
        return str(error)
    return ""


class _FixtureValues:
    """A pytest plugin that runs every test with each value of its fixture."""

    def __init__(self, fixture: str, values: dict[str, Any]) -> None:
        self.fixture, self.values = fixture, values

    def pytest_generate_tests(self, metafunc: Any) -> None:
        metafunc.parametrize(self.fixture, list(self.values.values()), ids=list(self.values))


if __name__ == "__main__":
    main()
