"""What can be configured: the keys of the schema, and of every choice of a group the options of what it names."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, fields
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from omegaconf import OmegaConf

from experiments.config import schema
from experiments.config.classes import locate, parameters
from experiments.config.compose import CONF, compose

KEYS = {
    "of a run": schema.RunConfig,
    "of its cluster": schema.ClusterConfig,
    "of how runs are started": schema.LaunchConfig,
}

BUILT = ("algorithm", "compressor", "update", "task", "logger")
"""Groups that name a class or function."""

SHOWN = ("figure", "sweep")
"""Groups whose files are shown as they are."""


class Setting(NamedTuple):
    """A key as it is set on the command line, its value where nothing is said, and what it is."""

    key: str
    value: object
    meaning: str


def of_schema(kind: type) -> list[Setting]:
    """The keys of a dataclass of the schema, those that are groups aside."""
    prefix = "cluster." if kind is schema.ClusterConfig else ""
    plain = [one for one in fields(kind) if not schema.is_part(one) and one.default is not MISSING]
    return [Setting(prefix + one.name, one.default, _in_words(one)) for one in plain]


def names(group: str) -> list[str]:
    """The choices of a group; a leading underscore is for files that others build on."""
    files = (CONF / group).rglob("*.yaml")
    return sorted(str(file.relative_to(CONF / group).with_suffix("")) for file in files if file.name[0] != "_")


def description(file: Path) -> str:
    """The comment at the beginning of a YAML file, without its commands, which are indented."""
    lines = re.match(r"(?:#.*\n)*", file.read_text())[0].splitlines()  # type: ignore[index]
    return " ".join(line[2:].strip() for line in lines if not line.startswith(("# @", "#  ")))


def of_choice(group: str, name: str) -> list[Setting]:
    """What a choice brings: the keys below its group, and those of the schema that it sets."""
    config, plain = composed(f"{group}={name}"), dict(_leaves(composed()))
    known = {setting.key: setting for kind in KEYS.values() for setting in of_schema(kind)}
    changed = [(key, value) for key, value in _leaves(config) if key in known and value != plain[key]]
    return [*_below(config[group], f"{group}."), *(known[key]._replace(value=value) for key, value in changed)]


@cache
def composed(*overrides: str) -> dict[str, Any]:
    """The configuration of a command line, interpolations unresolved."""
    return OmegaConf.to_container(compose(overrides), resolve=False)  # type: ignore[return-value]


def display(name: str) -> tuple[str, str]:
    """A method's label, and the path of its function."""
    node = composed(f"algorithm={name}")["algorithm"]
    return node["display"]["label"], node["_target_"]


def shown(value: object) -> str:
    """A value as a command line has it."""
    return yaml.safe_dump(list(value) if isinstance(value, tuple) else value, default_flow_style=True).split("\n")[0]


def _below(node: Mapping[str, Any], prefix: str) -> Iterator[Setting]:
    target = locate(node["_target_"]) if node.get("_target_") else None
    known = parameters(target) if target else {}
    for key, value in node.items():
        if isinstance(value, Mapping) and "_target_" in value:
            yield from _below(value, f"{prefix}{key}.")
        elif key in known or key not in ("_target_", "name", "display", "entry"):
            yield Setting(f"{prefix}{key}", value, _comment(target, key) if key in known else "")


def _comment(target: Callable[..., Any] | None, key: str) -> str:
    """The comment behind an option of a class or function, or of the base that a dataclass has it from."""
    for source in map(inspect.getsource, getattr(target, "__mro__", [target, object])[:-1]):
        if found := re.search(rf"^\s+{key}\b[^\n#]*#\s*(.*)$", source, re.MULTILINE):
            return found[1]
    return ""


def _leaves(node: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _in_words(one: Field[Any]) -> str:
    about, limits = schema.about(one), schema.limits(one.type)
    parts = [f"{about.unit}: {about.help}" if about.unit else about.help]
    parts += [f"One of {', '.join(limits)}."] if len(limits) > 1 else [f"{limit}." for limit in limits]
    parts += ["Not part of a run's identity."] * (about.affects in ("place", "look"))
    return " ".join(part if part.endswith(".") else f"{part}." for part in parts)
