"""Source code read without running it: where a name is defined, and which modules what is called depends on."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec, resolve_name
from pathlib import Path
from pkgutil import iter_modules

from common.errors import UsageError
from common.names import nearest, unknown


def path_of(module: str) -> Path | None:
    """The file of a dotted module, `__init__.py` for a package; None where there is none in Python. None is run."""
    spec = _spec(module)
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


def located(target: str) -> tuple[Source, ast.AST]:
    """The source and the node of its syntax tree that define `package.module.Name`, through whatever re-exports it.

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


def modules(starts: Iterable[str], packages: tuple[str, ...], without: tuple[str, ...] = ()) -> dict[str, str]:
    """Every module of these packages that the starts (modules, or names in them) lead to, with a digest of each.

    Followed is every import statement, those within functions too, but for those under `if TYPE_CHECKING:`. An
    `__init__.py` that holds nothing but `from … import …` is passed through: of `from algorithms.compressors import
    TopK` the module of TopK counts, not those beside it, and the `__init__` stands for the names taken from it. Any
    other `__init__.py` counts like a module as soon as something below it does; its name here ends in `.__init__`.
    What is imported by a name made while running is not seen.

    without: modules and packages at which to stop.
    The digest is that of the syntax without comments, docstrings and layout. Raises UsageError where a start is
    missing or a file is not Python.
    """
    search = _Search(packages, without)
    for start in starts:
        if path_of(start):
            search.add(start)
        else:
            located(start)
            search.add_from(*_parts(start))
    return search.digests()


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

    def find(self, name: str) -> tuple[Source, ast.AST] | None:
        """The node that defines a name of this module, and the source it stands in; None where it has none."""
        if name in self.exports:
            source = source_of(self.exports[name][0])
            return source and source.find(self.exports[name][1])
        for node in _statements(self.tree.body, deep=False):
            if name in _bound(node):
                same = node.value.id if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) else name
                return (self, node) if same == name else self.find(same)
        for module in self.starred:
            source = source_of(module)
            found = source and source.find(name)
            if found:
                return found
        return None

    @property
    def public(self) -> list[str]:
        """The names that others may take from it."""
        here = [name for node in _statements(self.tree.body, deep=False) for name in _bound(node)]
        names = {*here, *self.exports} if self.is_package else here
        return sorted(name for name in names if not name.startswith("_"))

    @cached_property
    def exports(self) -> dict[str, tuple[str, str]]:
        """What it takes from elsewhere: name → (module, the name there)."""
        taken: dict[str, tuple[str, str]] = {}
        for node in _statements(self.tree.body, deep=False):
            if isinstance(node, ast.ImportFrom) and node.module != "__future__":
                taken |= {alias.asname or alias.name: (self.absolute(node), alias.name) for alias in node.names}
            elif isinstance(node, ast.Import):
                taken |= {alias.asname: _parts(alias.name) for alias in node.names if alias.asname}
        taken.pop("*", None)
        return taken

    @cached_property
    def starred(self) -> list[str]:
        """The modules that it takes every name from."""
        nodes = (node for node in _statements(self.tree.body, deep=False) if isinstance(node, ast.ImportFrom))
        return [self.absolute(node) for node in nodes if node.names[0].name == "*"]

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @cached_property
    def only_re_exports(self) -> bool:
        """Whether it is a package's, with no code of its own."""
        return self.is_package and all(
            isinstance(node, ast.ImportFrom) or _is_string(node) or "__all__" in _bound(node)
            for node in self.tree.body
        )

    def absolute(self, node: ast.ImportFrom) -> str:
        """The module that `from … import` names."""
        package = self.module if self.is_package else self.module.rpartition(".")[0]
        try:
            return resolve_name("." * node.level + (node.module or ""), package)
        except ImportError as error:
            raise UsageError(f"{self.path}, line {node.lineno}: {error}") from error


class _Search:
    """The modules found so far, within packages."""

    def __init__(self, packages: tuple[str, ...], without: tuple[str, ...]) -> None:
        self._packages, self._without = packages, without
        self._source = cache(source_of)  # files are read once a search, and anew in the next
        self._found: dict[str, Source] = {}
        self._taken: dict[str, set[str]] = {}  # from each package passed through: name, module, name there

    def add(self, module: str) -> None:
        """A module, the packages above it, and what it imports."""
        source = self._source(module)
        if source is None or module in self._found:
            return
        self._found[module] = source
        above = module.rpartition(".")[0]
        while above:
            parent = self._source(above)
            if parent and not parent.only_re_exports:
                self._reach(above)
            above = above.rpartition(".")[0]
        for node in _statements(source.tree.body):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self._reach(alias.name)
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    self.add_from(source.absolute(node), alias.name)

    def add_from(self, module: str, name: str) -> None:
        """What `from module import name` leads to."""
        if not _within(module, self._packages):
            return
        source = self._source(module)
        if source and source.only_re_exports and name in source.exports and source.exports[name] != (module, name):
            self._taken.setdefault(module, set()).add(f"{name} {source.exports[name]}")
            self.add_from(*source.exports[name])
        elif self._source(f"{module}.{name}"):
            self._reach(f"{module}.{name}")
        else:
            self._reach(module)

    def digests(self) -> dict[str, str]:
        """By name, in order."""
        digests = {self._key(module): _digest(str(sorted(names))) for module, names in self._taken.items()}
        digests |= {self._key(module): _syntax(source.tree) for module, source in self._found.items()}
        return dict(sorted(digests.items()))

    def _reach(self, module: str) -> None:
        if _within(module, self._packages) and not _within(self._key(module), self._without):
            self.add(module)

    def _key(self, module: str) -> str:
        source = self._source(module)
        return f"{module}.__init__" if source and source.is_package else module


def _within(module: str, packages: tuple[str, ...]) -> bool:
    return f"{module}.".startswith(tuple(f"{package}." for package in packages))


def _parts(target: str) -> tuple[str, str]:
    module, _, name = target.rpartition(".")
    return module, name


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


@cache
def _syntax(tree: ast.Module) -> str:
    """The digest of a tree without docstrings."""
    words: list[str] = []
    _spell(tree, words)
    return _digest(" ".join(words))


def _spell(node: object, words: list[str]) -> None:
    """Node types and values in order. Absent fields are left out, which later Pythons have more of."""
    if isinstance(node, ast.AST):
        words.append(f"({type(node).__name__}")
        for field in node._fields:
            value = getattr(node, field, None)
            if field not in ("ctx", "kind") and value is not None and value != []:
                words.append(field)
                _spell(value, words)
        words.append(")")
    elif isinstance(node, list):
        words.append("[")
        for part in node:
            if not (_is_string(part) or isinstance(part, ast.Pass)):
                _spell(part, words)
        words.append("]")
    else:
        words.append(repr(node))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _statements(body: Iterable[ast.AST], deep: bool = True) -> Iterator[ast.AST]:
    """All statements, those under `if TYPE_CHECKING:` apart; with `deep` those within functions and classes too."""
    for node in body:
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not deep:
            continue
        parts = ("orelse",) if _is_for_types(node) else ("body", "orelse", "finalbody", "handlers", "cases")
        for part in parts:
            inner = getattr(node, part, ())
            yield from _statements(inner if isinstance(inner, list) else (), deep)


def _bound(node: ast.AST) -> list[str]:
    """The names that a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _is_for_types(node: ast.AST) -> bool:
    """Whether it is `if TYPE_CHECKING:` or `if typing.TYPE_CHECKING:`."""
    return isinstance(node, ast.If) and "TYPE_CHECKING" in (
        getattr(node.test, "id", ""),
        getattr(node.test, "attr", ""),
    )


def _is_string(node: object) -> bool:
    """Whether a statement is nothing but a string: a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
