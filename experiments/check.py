"""Whether a class or function of yours keeps what all of its kind keep here, by the project's own contract tests.

    python -m experiments.check my_package.MyCompressor                 a compressor, with its defaults
    python -m experiments.check my_package.MyCompressor block=16        with options, as a configuration sets them
    python -m experiments.check my_package.my_algorithm compressor._target_=my_package.MyCompressor
    python -m experiments.check my_package.MyTask dataset._target_=my_package.my_data

It imports, and so executes, the module that is named. A line a check: ok, FAIL with what was expected and seen, or --
where there was nothing to check. The exit status is 0 where none failed, 1 where one did, 2 for what cannot be
checked. Start it in this project's folder, or in any after `pip install -e` of it. The folder that `my_package` lies
in must be the current one or named by PYTHONPATH, or the package be installed.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from inspect import isclass, isfunction
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from common.errors import Interrupted, RunError, UsageError, exit_with_message


def main(arguments: list[str] | None = None) -> None:
    """The command line above."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("target", metavar="my_package.name", help="a class or function")
    parser.add_argument("options", nargs="*", metavar="key=value")
    given = parser.parse_args(arguments)
    with exit_with_message():
        options = _options(given.options)
        _import(given.target)
        try:
            import pytest
        except ModuleNotFoundError as error:
            raise UsageError("the checks are pytest's: pip install pytest") from error
        import torch

        from experiments.conformance.kinds import subject

        torch.set_num_threads(1)  # equality bit for bit is promised for one
        found = subject({"_target_": given.target, **options})
        print(f"{found.kind} {' '.join([given.target, *given.options])}", flush=True)
        lines = Lines(found.fixture, found.values)
        # Neither this project's pytest settings nor the caller's apply.
        own = [
            "-c",
            os.devnull,
            "--rootdir",
            str(found.file.parents[2]),
            "-p",
            "no:cacheprovider",
            "-p",
            "no:terminal",
            "--capture=sys",
        ]
        status = pytest.main([str(found.file), *own], plugins=[lines])
        if status == pytest.ExitCode.INTERRUPTED:
            raise Interrupted
        if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            raise RunError(f"pytest could not run the checks: {pytest.ExitCode(status).name}")
        if lines.failed:
            raise RunError(f"{lines.failed} of {lines.checks} checks failed, see above")
        print(f"none of {lines.checks} checks failed")


class Lines:
    """A plugin of pytest that hands the tests what they test, and writes a line a test function.

    `values` are those of the fixture, by their names; a test function is run with each.
    """

    def __init__(self, fixture: str, values: dict[str, Any]) -> None:
        self.fixture, self.values = fixture, values
        self.checks = self.failed = 0
        self._out = sys.stdout  # which pytest replaces while a test runs
        self._seen: dict[str, str] = {}  # of the test function at hand: the first of each outcome

    def pytest_generate_tests(self, metafunc: Any) -> None:
        metafunc.parametrize(self.fixture, list(self.values.values()), ids=list(self.values))

    def pytest_runtest_makereport(self, item: Any, call: Any) -> None:
        if call.excinfo is None:
            return
        error = call.excinfo.value
        if call.excinfo.typename == "Skipped":
            self._seen.setdefault("skipped", str(error))
        elif "failed" not in self._seen:
            said = str(error).partition("\nassert ")[0]  # pytest adds the source of what was asserted
            if not isinstance(error, AssertionError):
                own = [entry for entry in call.excinfo.traceback if "site-packages" not in str(entry.path)][-1]
                said = f"raised {call.excinfo.typename}: {said} ({own.path.name}, line {own.lineno + 1})"
            of = [f"for {item.callspec.id}"] if len(self.values) > 1 else []
            lines = [line for line in said.splitlines() if line.strip()]
            self._seen["failed"] = "\n      ".join([*lines, *getattr(error, "__notes__", []), *of])

    def pytest_runtest_teardown(self, item: Any, nextitem: Any) -> None:
        if nextitem is not None and nextitem.originalname == item.originalname:
            return
        promise = item.function.__doc__.splitlines()[0].rstrip(".")
        self.checks += 1
        if "failed" in self._seen:
            self.failed += 1
            print(f"FAIL  {promise}\n      {self._seen['failed']}", file=self._out, flush=True)
        elif "skipped" in self._seen:
            print(f"--    {promise}: {self._seen['skipped']}", file=self._out, flush=True)
        else:
            print(f"ok    {promise}", file=self._out, flush=True)
        self._seen = {}


def _import(name: str) -> None:
    """Import the module of a class or function. Raises UsageError that says what there is instead."""
    place, _, last = name.rpartition(".")
    if not place or "/" in name:
        raise UsageError(f"{name}: name a class or function with its module, my_package.compressor.MyCompressor say")
    try:
        module = import_module(place)
    except Exception as error:  # a user's module may raise anything
        top = place.partition(".")[0]
        absent = isinstance(error, ModuleNotFoundError) and error.name == top
        where = f"; the folder that {top} lies in must be the current one or named by PYTHONPATH" if absent else ""
        raise UsageError(f"{name}: {place} cannot be imported ({type(error).__name__}: {error}){where}") from error
    if not hasattr(module, last):
        callables = {name: value for name, value in vars(module).items() if isclass(value) or isfunction(value)}
        own = [name for name, value in callables.items() if value.__module__ == place and name[0] != "_"]
        raise UsageError(f"{name}: {place} has no {last}; it has: {', '.join(own) or 'no class or function'}")


def _options(overrides: list[str]) -> dict[str, Any]:
    for text in overrides:
        if not all(text.partition("=")[:2]):
            raise UsageError(f"{text}: not of the form key=value")
    try:
        options = OmegaConf.to_container(OmegaConf.from_dotlist(overrides), resolve=True)
    except OmegaConfBaseException as error:
        raise UsageError(str(error).splitlines()[0]) from error
    assert isinstance(options, dict)
    return {str(key): value for key, value in options.items()}


if __name__ == "__main__":
    main()
