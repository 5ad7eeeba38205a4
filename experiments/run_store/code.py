"""The code of a run: digests of the modules that compute, and edits since."""

import ast
import hashlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from experiments.config import identity
from experiments.config.schema import RunConfig
from plots.runs.read import open_run

COMPUTE = (
    "algorithms",
    "data",
    "experiments.cluster",
    "experiments.external",
    "experiments.models",
    "experiments.tasks",
    "experiments.training",
)
"""This project's packages that compute."""

_first: WeakKeyDictionary[ModuleType, str] = WeakKeyDictionary()
"""Digests of module files at their first use here: a later edit does not change the loaded code."""


@cache
def revision() -> dict[str, object]:
    """The commit of the source tree, and whether it has uncommitted changes, at the first call.

    The commit is None outside a repository and without git.
    """
    # Without optional locks a killed process leaves no index.lock behind.
    words = ["git", "--no-optional-locks", "status", "--porcelain=v2", "--branch", "--untracked-files=no"]
    status = ""
    with suppress(OSError, subprocess.SubprocessError):
        here = Path(__file__).parent
        status = subprocess.run(words, cwd=here, capture_output=True, text=True, timeout=10, check=True).stdout
    commit = re.match("# branch.oid ([0-9a-f]+)", status)
    return {
        "commit": commit and commit[1],
        "uncommitted_changes": any(not line.startswith("#") for line in status.splitlines()),
    }


def digests(packages: Iterable[str] = ()) -> dict[str, str]:
    """Return digests of the loaded modules by name: of the packages that compute and of a user's packages.

    A digest shows the file as this process first read it. This project's `__init__.py` files are left out, because
    they only re-export.
    """
    ours = tuple(f"{name}." for name in COMPUTE)
    counted = (*ours, *(f"{name}." for name in packages))
    found = {}
    for name in sorted(name for name in sys.modules if f"{name}.".startswith(counted)):
        file = getattr(sys.modules[name], "__file__", None) or ""
        reexports = f"{name}.".startswith(ours) and file.endswith("__init__.py")
        if file.endswith(".py") and not reexports:
            if sys.modules[name] not in _first:
                _first[sys.modules[name]] = digest(Path(file))
            found[name] = _first[sys.modules[name]]
    return found


def find_edits(recorded: Mapping[str, str]) -> list[str]:
    """Compare today's files with digests, in words: "algorithms/core/update_rules.py changed"."""
    edits = []
    for name in recorded:
        file = path_of(name)
        if file is None:
            edits.append(f"{name.replace('.', '/')}.py is gone")
        elif digest(file) != recorded[name]:
            within = "/__init__" if file.name == "__init__.py" else ""
            edits.append(f"{name.replace('.', '/')}{within}.py changed")
    return edits


def report_edits(runs: Sequence[RunConfig], say: Callable[[str], object]) -> None:
    """Report which runs other code computed, and what happens to them."""
    other = []
    for run in runs:
        with suppress(OSError, ValueError):  # no run, or a damaged one
            if edits := find_edits(open_run(identity.folder(run)).code):
                other.append(edits)
    if other:
        what = join_edits(dict.fromkeys(edit for edits in other for edit in edits))
        then = "taken as they are" if runs[0].stale == "keep" else "run anew, beside the older folders"
        say(f"{len(other)} of {len(runs)} runs {'are' if len(other) > 1 else 'is'} of other code: {what}; {then}")


def join_edits(edits: Iterable[str], most: int = 5) -> str:
    """Join edits in a line, the first `most` of them."""
    first, more = list(edits)[:most], len(list(edits)) - most
    return ", ".join(first) + (f" and {more} more" if more > 0 else "")


def digest(file: Path) -> str:
    """Return a digest of a module's statements, without docstrings and comments."""
    return _digest(file, file.stat().st_mtime_ns)


def path_of(module: str) -> Path | None:
    """Return the file of a module, `__init__.py` for a package; None if there is none. The module is not imported."""
    top, *rest = module.split(".")
    spec = find_spec(top)
    if spec is None or not spec.submodule_search_locations:
        return Path(spec.origin) if spec and spec.origin and not rest else None
    place = Path(spec.submodule_search_locations[0], *rest)
    return next((file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()), None)


@cache
def _digest(file: Path, changed: int) -> str:
    text = file.read_bytes()
    try:
        statements = ast.unparse(_Statements().visit(ast.parse(text)))
    except (SyntaxError, ValueError):
        statements = repr(text)
    return hashlib.sha256(statements.encode()).hexdigest()[:12]


class _Statements(ast.NodeTransformer):
    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.expr):  # an expression contains no statements
            return node
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        return None if is_text else super().visit(node)
