"""Source code read without running it: where a module lies, and where a class or function is defined."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec, resolve_name
from pathlib import Path
from pkgutil import iter_modules

from common.errors import UsageError
from common.names import nearest, unknown

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def path_of(module: str) -> Path | None:
    """The file of a dotted module, `__init__.py` for a package; None where there is none. Nothing is imported."""
    spec = _spec(module)
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


def located(target: str) -> tuple[Source, Definition]:
    """The class or function `package.module.Name` and its source, also where its package imports it from elsewhere.

    Raises UsageError with the nearest name and all that are there.
    """
    module, _, name = target.rpartition(".")
    if (source := source_of(target)) is not None:
        raise UsageError(f"{target}: a module; name what is in it. {nearest('', source.public)}")
    source = source_of(module) if module else None
    if source is None:
        raise UsageError(f"{target}: {_missing(module or target)}")
    found = source.find(name)
    if found is None:
        raise UsageError(unknown(f"{target}: {module} has no {name}", name, source.public))
    return found


def source_of(module: str) -> Source | None:
    """The source of a module; None where there is none. Raises UsageError where it is not Python."""
    path = path_of(module)
    if path is None:
        return None
    try:
        return _source(module, path, path.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"{path}, line {getattr(error, 'lineno', '?')}: not Python: {error}") from error


@dataclass(frozen=True)
class Source:
    """A module's syntax tree."""

    module: str
    path: Path
    text: bytes
    tree: ast.Module

    def find(self, name: str) -> tuple[Source, Definition] | None:
        """The class or function by this name, and the source that defines it; None where there is none."""
        for node in _statements(self.tree.body):
            if isinstance(node, Definition) and node.name == name:
                return self, node
        place, there = self.exports.get(name, ("", ""))
        source = source_of(place) if there else None
        return source and source.find(there)

    def constant(self, name: str) -> ast.expr | None:
        """What a name is assigned, here or where it is imported from; None where that is not read."""
        for node in _statements(self.tree.body):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                return getattr(node, "value", None)
        place, there = self.exports.get(name, ("", ""))
        source = source_of(place) if there else None
        return source and source.constant(there)

    @property
    def public(self) -> list[str]:
        """The classes and functions that others may take from it."""
        here = [node.name for node in _statements(self.tree.body) if isinstance(node, Definition)]
        here += [name for name, (place, _) in self.exports.items() if place.startswith(f"{self.module}.")]
        listed = self.constant("__all__")
        names = ast.literal_eval(listed) if isinstance(listed, ast.List | ast.Tuple) else here
        return sorted(name for name in names if not name.startswith("_"))

    @cached_property
    def exports(self) -> dict[str, tuple[str, str]]:
        """What it imports: name → (module, the name there; "" for the module itself)."""
        package = self.module if self.path.name == "__init__.py" else self.module.rpartition(".")[0]
        taken: dict[str, tuple[str, str]] = {}
        for node in _statements(self.tree.body):
            if isinstance(node, ast.ImportFrom) and node.module != "__future__":
                place = resolve_name("." * node.level + (node.module or ""), package)
                taken |= {alias.asname or alias.name: (place, alias.name) for alias in node.names}
            elif isinstance(node, ast.Import):
                taken |= {alias.asname: (alias.name, "") for alias in node.names if alias.asname}
        return taken


def _statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """A module's statements, those under `if` and `try` too."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            yield from _statements([*node.body, *node.orelse])


def _spec(module: str) -> ModuleSpec | None:
    """Where the import system finds a module; only its top package is looked for by all of its finders."""
    top, *rest = module.split(".")
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return None
    for name in rest:
        places = spec and spec.submodule_search_locations
        spec = PathFinder.find_spec(f"{spec.name}.{name}", places) if spec and places else None
    return spec


def _missing(module: str) -> str:
    """Why there is no such module."""
    above, _, name = module.rpartition(".")
    if not above:
        return f"no package {name} can be imported"
    spec = _spec(above)
    if spec is None:
        return _missing(above)
    places = spec.submodule_search_locations
    if places is None:
        return f"{above} is no package"
    beside = sorted(found.name for found in iter_modules(list(places)) if not found.name.startswith("_"))
    return unknown(f"{above} has no module {name}", name, beside)


@cache
def _source(module: str, path: Path, text: bytes) -> Source:
    return Source(module, path, text, ast.parse(text))
