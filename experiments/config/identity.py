"""What makes a run the run it is, and so where its results lie."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from experiments.config import schema, signatures
from experiments.config.classes import PACKAGES, called, targets
from experiments.config.schema import ClusterConfig, Part, RunConfig
from experiments.config.sources import modules

STARTS = (
    "experiments.training.build",  # joins the parts: step sizes in the task's unit, blocks of `partition: layer`
    "experiments.training.trainer",
    "experiments.cluster.simulated",
    "experiments.cluster.torchrun",  # of equal numbers, which an edit may end
    "experiments.config.evaluations",  # which rounds have a row
)
"""What every run computes with, besides the classes and functions that its configuration names."""

STRATEGY = "experiments.elsewhere.strategy"
"""What the methods of other projects are written for, whose runs have rounds of their own."""

ELSEWHERE = ("experiments.elsewhere.record", "experiments.config.evaluations")
"""What those compute with."""

WITHOUT = (
    "experiments.__init__",  # how threads wait, and what scripts import
    "experiments.config",  # what it makes of a command line are the settings, which stand in the identity themselves
    "experiments.loggers",  # mirrors of what is recorded
    "experiments.run_store",  # written after it was computed
    "data.download",  # what arrives is compared with a pinned hash
    "data.limits",  # which refuse, or let pass as it is
    "experiments.training.memory",  # likewise
)
"""Where the search for code stops: none of it can change a number. `common` and `plots` lie outside its packages."""


def identity(settings: Mapping[str, object], code: Mapping[str, str]) -> str:
    """The hash, 12 hex digits, of a run's settings and of the digest of every module that it computes with.

    1 and 1.0 are the same setting. The order of keys does not count, that of lists does.
    """
    canonical = json.dumps([_plain(settings), dict(code)], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def changed(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """How the digests of a run's modules differ, in words: "algorithms/frozen.py changed"."""
    words = {True: "is gone", False: "changed"}
    return [
        f"{module.replace('.', '/')}.py {words[module not in new] if module in old else 'is new'}"
        for module in sorted({*old, *new})
        if old.get(module) != new.get(module)
    ]


def of(run: RunConfig) -> str:
    """The identity of a run."""
    return identity(settings(run), code(run))


def folder(run: RunConfig) -> Path:
    """Where a run's results lie: results/<task>/<algorithm>/<id>."""
    return Path(run.results_dir, run.task.name, run.algorithm.name, of(run))


def settings(run: RunConfig) -> dict[str, object]:
    """The keys of a run but for those that say they are a place, a look or set others; likewise its parts' options,
    of which those annotated `Place` are left out."""
    parts = {name: {"name": part.name, **_relevant(called(part))} for name, part in _parts(run).items()}
    return {**_of_numbers(run), **parts, "cluster": _of_numbers(run.cluster)}


def code(run: RunConfig) -> dict[str, str]:
    """The digest of every module that the run computes with. Raises UsageError."""
    named, packages = [name for part in _parts(run).values() for name in targets(called(part))], tuple(run.packages)
    found = _digests((*STARTS, *named), packages)
    return _digests((*ELSEWHERE, *named), packages) if STRATEGY in found else found


def _of_numbers(keys: RunConfig | ClusterConfig) -> dict[str, Any]:
    kept = [one.name for one in fields(keys) if schema.about(one).affects == "numbers"]
    return {name: getattr(keys, name) for name in kept}


def _parts(run: RunConfig) -> dict[str, Part]:
    return {name: part for name, part in _of_numbers(run).items() if isinstance(part, Part)}


@cache
def _digests(starts: tuple[str, ...], packages: tuple[str, ...]) -> dict[str, str]:
    return modules(starts, (*PACKAGES, *packages), WITHOUT)


def _plain(node: object) -> object:
    """Whole numbers without a point, whichever way they were written."""
    if isinstance(node, Mapping):
        return {key: _plain(value) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return [_plain(value) for value in node]
    return int(node) if isinstance(node, float) and node.is_integer() else node


def _relevant(node: Mapping[str, Any]) -> dict[str, Any]:
    """A node's options without places."""
    known = signatures.options(node["_target_"]) if node.get("_target_") else {}
    return {
        key: _relevant(value) if isinstance(value, Mapping) else value
        for key, value in node.items()
        if key not in known or "Place" not in (known[key].annotation or "")
    }
