"""What makes a run the run it is, and so where its results lie."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
import json
import pkgutil
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from experiments.config.classes import PACKAGES
from experiments.config.compose import Config

RESULTS_FORMAT = 2
"""Part of every identity: raise it when code that configurations do not name (channels, protocol, trainer) changes
what runs compute or record."""

_BUILT_FROM = ("experiments.tasks.", "experiments.models.")
"""Where tasks have their parts."""

_GROUPS = ("algorithm", "compressor", "update", "task")


def identity(config: Config) -> str:
    """The hash of everything in a run's configuration that its results depend on.

    That includes the source of every module that the configuration names by `_target_`, and of those that it is built
    from, but for comments, docstrings and layout: a compressor or an initialisation that was edited makes another
    run.
    """
    relevant = {
        "format": RESULTS_FORMAT,
        "workers": config["cluster"]["workers"],
        **{
            key: config[key]
            for key in ("partition", "lr", "lr_schedule", "rounds", "eval_every", "eval_early", "seed")
        },
        **{group: _relevant(config[group]) for group in _GROUPS},
        "code": {target: _code(target) for group in _GROUPS for target in _targets(config[group])},
    }
    canonical = json.dumps(relevant, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def folder(config: Config) -> Path:
    """Where a run's results lie: results/<task>/<algorithm>/<id>."""
    return Path(config["results_dir"], config["task"]["name"], config["algorithm"]["name"], identity(config))


def _relevant(node: object) -> object:
    """A part of a configuration without what results do not depend on: labels, colours, where data lie, and how
    kernels are launched.

    Whole numbers become floats, so that 1 and 1.0 are the same setting. A file is known by its hash, not its path.
    """
    if isinstance(node, dict):
        dropped = {"display", "data_dir", "cuda_graphs"} | ({"file"} if node.get("sha256") else set())
        return {key: _relevant(value) for key, value in node.items() if key not in dropped}
    return float(node) if isinstance(node, int) and not isinstance(node, bool) else node


def _targets(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        if node.get("_target_"):
            yield node["_target_"]
        for value in node.values():
            yield from _targets(value)


@cache
def _code(target: str) -> str:
    """The hash of the syntax of the module that defines a target, and of those that it is built from: of this project
    those beside it in experiments/, of a user's package all."""
    sources: dict[str, str] = {}
    waiting = [pkgutil.resolve_name(target).__module__]
    while waiting:
        name = waiting.pop()
        if name not in sources:
            tree = ast.parse(inspect.getsource(sys.modules[name]))
            package = name.partition(".")[0]
            among = _BUILT_FROM if package in PACKAGES else (f"{package}.",)
            waiting += [other for other in _imports(tree, sys.modules[name].__package__) if other.startswith(among)]
            sources[name] = _bare(tree)
    return hashlib.sha256("\n".join(sources[name] for name in sorted(sources)).encode()).hexdigest()


def _imports(tree: ast.AST, package: str) -> Iterator[str]:
    """The loaded modules that a module of a package names in its imports."""
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            names = [module, *(f"{module}.{alias.name}" for alias in node.names)]
        yield from (name for name in names if name in sys.modules)


def _bare(tree: ast.AST) -> str:
    """Source without docstrings, comments and layout."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [part for part in body if not _is_string(part)] or [ast.Pass()]
    return ast.unparse(tree)


def _is_string(node: ast.AST) -> bool:
    """Whether a statement is nothing but a string: a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
