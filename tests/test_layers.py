"""Dependencies point one way: algorithms ← experiments, data ← experiments, run folders ← plots."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ALLOWED = {
    "algorithms": {"torch", "numpy", "yaml"},  # itself by relative imports: the wheel ships it under another name
    "common": {"common", "rich"},
    "hydra_plugins": {"hydra_plugins", "common", "experiments", "hydra", "omegaconf", "rich"},
    "data": {
        "data", "common", "numpy", "rich", "scipy", "sklearn", "pooch", "requests", "torch", "torchvision", "PIL",
        "pydantic", "annotated_types",
    },
    "plots": {
        "plots", "common", "numpy", "scipy", "pandas", "matplotlib", "yaml", "rich", "plotly", "pydantic",
        "pydantic_core", "annotated_types", "PIL",
    },
    "experiments": {
        "experiments", "common", "algorithms", "data", "plots", "torch", "numpy", "scipy", "hydra", "omegaconf",
        "joblib", "yaml", "rich", "pandas", "pydantic", "annotated_types", "pytest", "wandb", "wandb_workspaces",
    },
}  # fmt: skip


def _imports(file: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add((node.module or "").partition(".")[0])
    return names - set(sys.stdlib_module_names)


@pytest.mark.parametrize("package", ALLOWED)
def test_a_package_imports_only_what_it_may(package):
    files = list((ROOT / package).rglob("*.py"))
    assert files
    for file in files:
        assert _imports(file) <= ALLOWED[package], file


def _packages(top: str) -> dict[str, set[str]]:
    """For each folder below `top` that holds modules, the folders whose modules it imports."""
    found: dict[str, set[str]] = {}
    for file in set((ROOT / top).rglob("*.py")) - {ROOT / top / "__init__.py"}:  # which re-exports what lies below
        own = file.parent.relative_to(ROOT).parts
        if len(own) == 1 and file.name == "__init__.py":
            continue  # the package's face, which loads on demand
        uses = found.setdefault(".".join(own), set())
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom):
                base = own[: len(own) - node.level + 1] if node.level else ()
                target = ROOT.joinpath(*base, *(node.module or "").split("."))
                folder = target if target.is_dir() else target.parent
                if folder != file.parent and folder.is_relative_to(ROOT / top):
                    uses.add(".".join(folder.relative_to(ROOT).parts))
    return found


@pytest.mark.parametrize("top", ["algorithms", "data", "experiments", "plots"])
def test_no_circle_between_packages(top):
    uses = _packages(top)
    left = dict(uses)
    while ready := [name for name, others in left.items() if not others & set(left) - {name}]:
        for name in ready:
            del left[name]
    assert not left, (
        f"these import one another: { {name: sorted(others & set(left)) for name, others in left.items()} }"
    )


def test_one_module_of_the_algorithms_reads_files():
    reading = [file.stem for file in (ROOT / "algorithms").rglob("*.py") if "yaml" in _imports(file)]
    assert reading == ["registry"]


@pytest.mark.parametrize("package", ["common", "data", "experiments", "hydra_plugins", "plots"])
def test_no_code_outside_algorithms_knows_a_method(package):
    """Methods are named in conf/ and, as examples, in docstrings; code that branched on one would hold its name."""
    methods = {file.stem for file in (ROOT / "conf" / "algorithm").glob("*.yaml")}
    for file in (ROOT / package).rglob("*.py"):
        tree = ast.parse(file.read_text())
        words = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        names |= {alias.name.rpartition(".")[2] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
                  for alias in node.names}  # fmt: skip
        assert not methods & (words | names), file
