"""What makes a run the run it is, and so where its results lie."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from experiments.config.classes import PACKAGES
from experiments.config.compose import Config
from experiments.config.sources import modules

STARTS = (
    "experiments.training.build",  # joins the parts: step sizes in the task's unit, blocks of `partition: layer`
    "experiments.training.trainer",
    "experiments.cluster.simulated",
    "experiments.cluster.torchrun",  # of equal numbers, which an edit may end
    "experiments.config.evaluations",  # which rounds have a row
)
"""What every run computes with, besides the classes and functions that its configuration names."""

WITHOUT = (
    "experiments.__init__",  # how threads wait, and what scripts import
    "experiments.config",  # what it makes of a command line are the settings, which stand in the identity themselves
    "experiments.loggers",  # mirrors of what is recorded
    "experiments.record",  # written after it was computed
    "data.download",  # what arrives is compared with a pinned hash
    "data.npm",
    "data.diagnosis",  # words for damaged files
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


def of(config: Config) -> str:
    """The identity of a configuration."""
    return identity(settings(config), code(config))


def folder(config: Config) -> Path:
    """Where a run's results lie: results/<task>/<algorithm>/<id>."""
    return Path(config["results_dir"], config["task"]["name"], config["algorithm"]["name"], of(config))


def settings(config: Config) -> Config:
    """A configuration without what results do not depend on."""
    keys = ("partition", "lr", "lr_schedule", "rounds", "eval_every", "eval_early", "seed")
    return {
        "workers": config["cluster"]["workers"],
        **{key: config[key] for key in keys},
        **{group: _relevant(config[group]) for group in _GROUPS},
    }


def code(config: Config) -> dict[str, str]:
    """The digest of every module that a run of this configuration computes with. Raises UsageError."""
    targets = (target for group in _GROUPS for target in _targets(config[group]))
    return modules((*STARTS, *targets), (*PACKAGES, *config["packages"]), WITHOUT)


_GROUPS = ("algorithm", "compressor", "update", "task")


def _plain(node: object) -> object:
    """Whole numbers without a point, whichever way they were written."""
    if isinstance(node, Mapping):
        return {key: _plain(value) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return [_plain(value) for value in node]
    return int(node) if isinstance(node, float) and node.is_integer() else node


def _relevant(node: object) -> object:
    """A part of a configuration without labels, colours, where data lie, and how kernels are launched.

    A file is known by its hash, not its path.
    """
    if not isinstance(node, dict):
        return node
    dropped = {"display", "data_dir", "cuda_graphs"} | ({"file"} if node.get("sha256") else set())
    return {key: _relevant(value) for key, value in node.items() if key not in dropped}


def _targets(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        if node.get("_target_"):
            yield node["_target_"]
        for value in node.values():
            yield from _targets(value)
