"""Load methods by the names of conf/algorithm. Only a method's settings are read from its file."""

import inspect
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from .core.algorithm import Algorithm

_HERE = Path(__file__).resolve().parent
CONF = _HERE / "conf" if (_HERE / "conf").is_dir() else _HERE.parent / "conf"
"""The folder conf/: inside the installed package, or next to it in a checkout."""


def names(group: str = "algorithm") -> list[str]:
    """Return the names of all choices of a group of conf/, sorted."""
    return sorted(file.stem for file in (CONF / group).glob("*.yaml"))


def load_method(name: str, **options: Any) -> Algorithm:
    """Return the method of conf/algorithm/<name>.yaml with the compressor, update and settings of that file.

        load_method("cd_adam")
        load_method("onebit_adam", rounds=10_000, warmup=0.1)
        load_method("error_feedback", compressor=TopK(ratio=0.01), update=SGD(momentum=0.9))

    options: parameters of the method's function; they override the file. Methods with a warm-up need `rounds`, the
    number of steps of the whole training. Some need `workers`, the number of ranks.
    Raises ValueError for an unknown name or option, for a missing required option, and for a file that only the
    harness understands.
    """
    target, settings, chosen = _read("algorithm", name)
    function = _import(target)
    known = inspect.signature(function).parameters
    if unknown := [option for option in options if option not in known]:
        raise ValueError(f"{name}: {explain_unknown_name('option', unknown[0], known)}")
    settings |= options
    for part in ("compressor", "update"):
        if part not in settings and chosen.get(part, "own") != "own":
            kind, arguments, _ = _read(part, chosen[part])
            settings[part] = _import(kind)(**arguments)
        if part in settings and not isinstance(settings[part], known[part].annotation):
            kind, given = known[part].annotation.__name__, settings[part]
            place = {"compressor": "compressors", "update": "core.update_rules"}[part]
            advice = f"; give an object of {__package__}.{place}" if isinstance(given, str) else ""
            raise ValueError(f"{name}: takes {kind}, and {part}={given!r} is not one{advice}")
    if missing := [key for key, one in known.items() if one.default is one.empty and key not in settings]:
        raise ValueError(f"{name} needs {' and '.join(f'{option}=' for option in missing)}")
    return function(**settings)


def parameters(name: str) -> list[str]:
    """Return the parameter names of a method's function. Raises ValueError for an unknown method, or a file that
    works only in Hydra."""
    return list(inspect.signature(_import(_read("algorithm", name)[0])).parameters)


def _read(group: str, name: str) -> tuple[str, dict[str, Any], dict[str, str]]:
    """Return a file's `_target_`, its options, and its choices of other groups. Raises ValueError."""
    if name not in names(group):
        own = "; for a method of your own, call its function and pass the result" if group == "algorithm" else ""
        raise ValueError(explain_unknown_name(group, name, names(group)) + own)
    content = yaml.safe_load((CONF / group / f"{name}.yaml").read_text(encoding="utf-8"))
    target, chosen = "", {}
    for entry in content.pop("defaults", []):
        key, value = next(iter(entry.items())) if isinstance(entry, Mapping) else (entry, None)
        if key.startswith("/target@"):
            target = value
        elif key.startswith("override /"):
            chosen[key.removeprefix("override /")] = value
        elif key != "_self_":
            place = f"conf/{group}/{name}.yaml"
            raise ValueError(f"{place}: its default {key!r} works only in Hydra; call the method's function instead")
    node = content.get("algorithm", {}) if group == "algorithm" else content
    target = node.pop("_target_", target)
    # The caller gives options that are keys of a run, such as ${weight_decay}. `labels` are for figures.
    labels = ("name", "display", "entry")
    options = {key: value for key, value in node.items() if key not in labels and not str(value).startswith("${")}
    return target, options, chosen


def _import(target: str) -> Any:
    module, _, name = target.rpartition(".")
    if module.startswith("algorithms."):  # this package, which has another name when installed
        module = module.removeprefix("algorithms")
    return getattr(import_module(module, __package__), name)


def explain_unknown_name(kind: str, given: str, known: Iterable[str]) -> str:
    """Return the error text for an unknown name, with the nearest known one."""
    known = list(known)
    near = get_close_matches(given, known, n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    return f"no {kind} {given!r}; {meant}there are {', '.join(known)}"
