"""Methods by the names of conf/algorithm, of whose files nothing but the name's settings is read."""

import inspect
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from .core.algorithm import Algorithm

_HERE = Path(__file__).resolve().parent
CONF = _HERE / "conf" if (_HERE / "conf").is_dir() else _HERE.parent / "conf"
"""Inside the installed package, or beside it in a checkout."""

_PARTS = ("compressor", "update")
_LABELS = ("name", "display")  # of a method's file, for figures
_NONE = "own"  # of conf/update: the method brings its own


class _Choice(NamedTuple):
    """A file of conf/: what to call, with which options, and the choices of other groups that it makes."""

    target: str
    options: dict[str, Any]
    chosen: dict[str, str]


def names(group: str = "algorithm") -> list[str]:
    """The choices of a group of conf/."""
    return sorted(file.stem for file in (CONF / group).glob("*.yaml"))


def load_method(name: str, **options: Any) -> Algorithm:
    """The method of conf/algorithm/<name>.yaml with the compressor, update and settings that stand there.

        load_method("cd_adam")
        load_method("onebit_adam", rounds=10_000, warmup=0.1)
        load_method("error_feedback", compressor=TopK(ratio=0.01), update=SGD(momentum=0.9))

    options: parameters of the method's function, instead of what the file says; `rounds`, which methods with a
    warm-up need, is the number of steps of the whole training, `workers`, which some need, the number of ranks.
    Raises ValueError for an unknown name or option, for one that is needed and not given, and for a file that only
    the harness understands.
    """
    method = _read("algorithm", name)
    function = _imported(method.target)
    parameters = inspect.signature(function).parameters
    if unknown := [option for option in options if option not in parameters]:
        raise ValueError(f"{name}: {unlike('option', unknown[0], parameters)}")
    settings = {**method.options, **options}
    for part in _PARTS:
        choice = method.chosen.get(part, _NONE)
        if part not in settings and choice != _NONE:
            made = _read(part, choice)
            settings[part] = _imported(made.target)(**made.options)
    if missing := [
        option
        for option, parameter in parameters.items()
        if parameter.default is parameter.empty and option not in settings
    ]:
        raise ValueError(f"{name} needs {' and '.join(f'{option}=' for option in missing)}")
    return function(**settings)


def parameters(name: str) -> list[str]:
    """What the function of the method of this name takes. Raises ValueError."""
    return list(inspect.signature(_imported(_read("algorithm", name).target)).parameters)


def _read(group: str, name: str) -> _Choice:
    """The file of a choice. Raises ValueError."""
    if name not in names(group):
        raise ValueError(unlike(group, name, names(group)))
    place = f"conf/{group}/{name}.yaml"
    content = yaml.safe_load((CONF / group / f"{name}.yaml").read_text(encoding="utf-8"))
    target, chosen = "", {}
    for entry in content.pop("defaults", []):
        key, value = next(iter(entry.items())) if isinstance(entry, Mapping) else (entry, None)
        if key.startswith("/target@"):
            target = value
        elif key.startswith("override /"):
            chosen[key.removeprefix("override /")] = value
        elif key != "_self_":
            raise ValueError(f"{place}: its default {key!r} is for Hydra alone; call the method's function instead")
    node = content.get("algorithm", {}) if group == "algorithm" else content
    target = node.pop("_target_", target)
    if not target:
        raise ValueError(f"{place}: names no class or function")
    # What is taken from other keys of a run, ${weight_decay}, is for the caller to say.
    options = {key: value for key, value in node.items() if key not in _LABELS and not str(value).startswith("${")}
    return _Choice(target, options, chosen)


def _imported(target: str) -> Any:
    module, _, name = target.rpartition(".")
    if module.startswith("algorithms."):  # this package, which is called otherwise where it is installed
        module = module.removeprefix("algorithms")
    return getattr(import_module(module, __package__), name)


def unlike(kind: str, given: str, known: Iterable[str]) -> str:
    """What to say of an unknown name."""
    known = list(known)
    near = get_close_matches(given, known, n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    return f"no {kind} {given!r}; {meant}there are {', '.join(known)}"
