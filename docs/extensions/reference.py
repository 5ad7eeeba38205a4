"""The configuration reference: the keys of the schema, and the options of every choice in a group."""

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
    """A key on the command line, its default value, and its meaning."""

    key: str
    value: object
    meaning: str


def schema_settings(kind: type) -> list[Setting]:
    """The keys of a schema's dataclass, except groups."""
    prefix = "cluster." if kind is schema.ClusterConfig else ""
    plain = [one for one in fields(kind) if not schema.is_part(one) and one.default is not MISSING]
    return [Setting(prefix + one.name, one.default, _in_words(one)) for one in plain]


def names(group: str) -> list[str]:
    """The choices of a group. Files with a leading underscore are bases of others."""
    files = (CONF / group).rglob("*.yaml")
    return sorted(str(file.relative_to(CONF / group).with_suffix("")) for file in files if file.name[0] != "_")


def description(file: Path) -> str:
    """The comment at the top of a YAML file, without its indented commands."""
    lines = re.match(r"(?:#.*\n)*", file.read_text())[0].splitlines()  # type: ignore[index]
    return " ".join(line[2:].strip() for line in lines if not line.startswith(("# @", "#  ")))


def choice_settings(group: str, name: str) -> list[Setting]:
    """The settings of a choice: the keys below its group, and the schema's keys that it sets."""
    config, plain = compose_config(f"{group}={name}"), dict(_leaves(compose_config()))
    known = {setting.key: setting for kind in KEYS.values() for setting in schema_settings(kind)}
    changed = [(key, value) for key, value in _leaves(config) if key in known and value != plain[key]]
    return [
        *_option_settings(config[group], f"{group}."),
        *(known[key]._replace(value=value) for key, value in changed),
    ]


@cache
def compose_config(*overrides: str) -> dict[str, Any]:
    """Compose the configuration of a command line, with unresolved interpolations."""
    return OmegaConf.to_container(compose(overrides), resolve=False)  # type: ignore[return-value]


def display(name: str) -> tuple[str, str]:
    """A method's label, and the path of its function."""
    node = compose_config(f"algorithm={name}")["algorithm"]
    return node["display"]["label"], node["_target_"]


def format_value(value: object) -> str:
    """Format a value as on a command line."""
    return yaml.safe_dump(list(value) if isinstance(value, tuple) else value, default_flow_style=True).split("\n")[0]


def _option_settings(node: Mapping[str, Any], prefix: str) -> Iterator[Setting]:
    target = locate(node["_target_"]) if node.get("_target_") else None
    known = parameters(target) if target else {}
    for key, value in node.items():
        if isinstance(value, Mapping) and "_target_" in value:
            yield from _option_settings(value, f"{prefix}{key}.")
        elif key in known or key not in ("_target_", "name", "display", "entry"):
            yield Setting(f"{prefix}{key}", value, _comment(target, key) if key in known else "")


def _comment(target: Callable[..., Any] | None, key: str) -> str:
    """The comment after an option of a class or function, or of the base class that defines it."""
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
    about, limits = schema.spec_of(one), schema.limits(one.type)
    parts = [f"{about.unit}: {about.help}" if about.unit else about.help]
    parts += [f"One of {', '.join(limits)}."] if len(limits) > 1 else [f"{limit}." for limit in limits]
    parts += ["Not part of a run's identity."] * (about.affects in ("place", "look"))
    return " ".join(part if part.endswith(".") else f"{part}." for part in parts)
