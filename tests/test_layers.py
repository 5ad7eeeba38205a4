"""Dependencies point one way: algorithms ← experiments, data ← experiments, run folders ← plots."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ALLOWED = {
    "algorithms": {"algorithms", "torch", "numpy"},
    "data": {"data", "numpy", "scipy", "sklearn", "pooch", "filelock", "requests"},
    "plots": {"plots", "numpy", "pandas", "matplotlib", "yaml", "rich"},
    "experiments": {
        "experiments", "algorithms", "data", "plots", "torch", "numpy", "scipy", "hydra", "omegaconf", "yaml", "rich",
        "filelock",
    },
}  # fmt: skip


def _imports(file: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").partition(".")[0])
    return names - set(sys.stdlib_module_names)


@pytest.mark.parametrize("package", ALLOWED)
def test_a_package_imports_only_what_it_may(package):
    files = list((ROOT / package).rglob("*.py"))
    assert files
    for file in files:
        assert _imports(file) <= ALLOWED[package], file
