"""Whether a class or function of yours keeps what all of its kind keep here.

    python -m experiments.check my_package.MyCompressor                 a compressor, with its defaults
    python -m experiments.check my_package.MyCompressor block=16        with options, as a configuration sets them
    python -m experiments.check my_package.my_algorithm compressor._target_=my_package.MyCompressor
    python -m experiments.check my_package.MyTask dataset._target_=my_package.my_data

A line a check: ok, FAIL with what was expected and seen, or -- where there was nothing to check. The exit status is 0
where none failed, 1 where one did, 2 for what cannot be checked. The folder that `my_package` lies in must be the
current one or named by PYTHONPATH. experiments/conformance/ has the same for a test of yours.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from inspect import isclass, isfunction
from types import ModuleType

import torch
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from common.errors import RunError, UsageError, exit_with_message
from experiments.config.classes import Targets
from experiments.config.compose import Config
from experiments.conformance.findings import examine
from experiments.conformance.kinds import kind_of


def main(arguments: list[str] | None = None) -> None:
    """The command line above."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("target", metavar="my_package.name", help="a class or function")
    parser.add_argument("options", nargs="*", metavar="key=value")
    given = parser.parse_args(arguments)
    with exit_with_message():
        torch.set_num_threads(1)  # equality bit for bit is promised for one
        target = _imported(given.target)
        kind = kind_of(target, given.target)
        node = {"_target_": given.target, **_options(given.options)}
        subject = kind.subject(target, node, Targets([name.partition(".")[0] for name in _targets(node)]))
        print(f"{kind.name} {' '.join([given.target, *given.options])}")
        failed = 0
        for finding in examine(kind.checks, subject):
            print(finding, flush=True)
            failed += finding.violation is not None
        if failed:
            raise RunError(f"{failed} of {len(kind.checks)} checks failed, see above")
        print(f"none of {len(kind.checks)} checks failed")


def _imported(name: str) -> object:
    """The class or function of this name. Raises UsageError that says what there is instead."""
    if "/" in name:
        dotted = name.removesuffix(".py").strip("./").replace("/", ".")
        own = _own(_module(dotted, name)) or ["MyCompressor"]
        raise UsageError(f"{name}: is a file; name a class or function in it, {dotted}.{own[0]} say")
    place, _, last = name.rpartition(".")
    if not place:
        raise UsageError(f"{name}: is no class or function; name one with its module, {name}.MyCompressor say")
    module = _module(place, name)
    if not hasattr(module, last) and hasattr(module, "__path__") and find_spec(name):
        _module(name, name)
    found = getattr(module, last, module)
    if isinstance(found, ModuleType):
        raise UsageError(f"{name}: is no class or function; {found.__name__} has: {', '.join(_own(found)) or 'none'}")
    return found


def _module(path: str, name: str) -> ModuleType:
    try:
        return import_module(path)
    except Exception as error:  # a user's module may raise anything
        top = path.partition(".")[0]
        hint = (
            f"; the folder that {top} lies in must be the current one or named by the environment variable PYTHONPATH"
            if isinstance(error, ModuleNotFoundError) and error.name == top
            else ""
        )
        raise UsageError(f"{name}: {path} cannot be imported ({type(error).__name__}: {error}){hint}") from error


def _own(module: ModuleType) -> list[str]:
    """The public classes and functions that a module defines."""
    return [
        name
        for name, value in vars(module).items()
        if name[0] != "_" and (isclass(value) or isfunction(value)) and value.__module__ == module.__name__
    ]


def _options(overrides: list[str]) -> Config:
    for text in overrides:
        if not all(text.partition("=")[:2]):
            raise UsageError(f"{text}: not of the form key=value")
    try:
        return OmegaConf.to_container(OmegaConf.from_dotlist(overrides), resolve=True)
    except OmegaConfBaseException as error:
        raise UsageError(str(error).splitlines()[0]) from error


def _targets(node: Config) -> Iterator[str]:
    """What a configuration names: on the command line that is what lets its packages in."""
    for key, value in node.items():
        if key == "_target_":
            yield str(value)
        elif isinstance(value, dict):
            yield from _targets(value)


if __name__ == "__main__":
    main()
