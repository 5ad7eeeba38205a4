"""From a command line to one composed configuration, with every name in it checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from importlib.util import find_spec
from itertools import product
from pathlib import Path

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import MarkedYAMLError

from common.errors import UsageError
from common.names import nearest

CONF = Path(__file__).resolve().parents[2] / "conf"

Config = dict
"""A resolved configuration: nested dicts, lists and scalars."""


def expand(overrides: Iterable[str], multirun: bool) -> list[list[str]]:
    """The command lines a sweep stands for: `a=1,2 b=3` gives [a=1 b=3] and [a=2 b=3].

    Raises UsageError for what Hydra cannot parse, and for a sweep without `-m`.
    """
    choices = []
    for text in overrides:
        override = _parse(text)
        if not override.is_sweep_override():
            choices.append([text])
        elif multirun:
            try:
                choices.append([f"{override.key_or_group}={value}" for value in override.sweep_string_iterator()])
            except HydraException as error:
                raise UsageError(f"{text}: {error}; list the values, separated by commas") from error
        else:
            raise UsageError(
                f"{text}: several values are a sweep: add -m for one run each"
                + (f", or write lr=[{text.partition('=')[2]}] for one batched grid" if text.startswith("lr=") else "")
            )
    return [list(job) for job in product(*choices)]


def load(
    overrides: Iterable[str], name: str = "config", packages: Sequence[str] = (), also: Config | None = None
) -> Config:
    """Compose conf/<name>.yaml with overrides, resolved. Raises UsageError with the nearest valid name.

    packages: of users; a `conf` folder in one is a further place where choices are looked for.
    also: keys besides those of <name>.yaml that a message about a wrong one may point at.
    """
    overrides = list(overrides)
    parsed = [_parse(text) for text in overrides]
    roots = [CONF, *(root for package in packages if (root := folder_of_package(package) / "conf").is_dir())]
    groups = [override for override in parsed if any((root / override.key_or_group).is_dir() for root in roots)]
    for override in groups:
        _check_choice(override, roots)
    for override in parsed:
        if override.is_add() or override.is_delete():
            raise UsageError(f"{override.input_line}: keys can be set, not added or deleted; drop the + or ~")
    path = [f"hydra.searchpath=[{','.join(f'file://{root}' for root in roots[1:])}]"]
    with initialize_config_dir(str(CONF), version_base="1.3"):
        try:
            composed = hydra_compose(name, [*path, *overrides])
        except HydraException as error:
            with suppress(HydraException):  # which then is no matter of a wrong key
                base = hydra_compose(name, [*path, *(override.input_line for override in groups)])
                for override in parsed:
                    if override not in groups:
                        _check_key(override, base, also or {})
            raise UsageError(str(error)) from error
        except MarkedYAMLError as error:
            place = error.problem_mark
            raise UsageError(f"{place.name}, line {place.line + 1}: not YAML ({error.problem})") from error
    try:
        return OmegaConf.to_container(composed, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise UsageError(f"{error.full_key}: {str(error).splitlines()[0]}; set it on the command line") from error


def key_of(override: str) -> str:
    """What an override sets: `algorithm` of `algorithm=cd_adam`. Raises UsageError for what Hydra cannot parse."""
    return _parse(override).key_or_group


def value_of(key: str, overrides: Iterable[str]) -> object:
    """What the last override of a key sets it to; None where none does."""
    values = [override.value() for override in map(_parse, overrides) if override.key_or_group == key]
    return values[-1] if values else None


def folder_of_package(name: object) -> Path:
    """Where a user's package lies. Raises UsageError where it cannot be imported."""
    try:
        spec = find_spec(str(name))
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise UsageError(
            f"packages=[{name}]: no such package can be imported; install it, or name the folder that it lies in by "
            "the environment variable PYTHONPATH"
        )
    return Path(next(iter(spec.submodule_search_locations)))


def unknown(key: str, value: str, names: Iterable[str]) -> str:
    """What to say of a choice that is not among `names`."""
    return f"{key}={value}: no such choice; {nearest(value, names)}"


def check_keys(node: object, names: Iterable[str], place: str, required: Iterable[str] = ()) -> None:
    """Raise UsageError for keys of a node that are not among the names, and for required ones that are not there."""
    if not isinstance(node, dict):
        raise UsageError(f"{place}={node}: must have keys of its own")
    for key in node:
        if key not in names:
            raise UsageError(f"{place}: {key}: no such key; {nearest(str(key), names)}")
    for key in required:
        if key not in node:
            raise UsageError(f"{place}: has no {key}; it needs {', '.join(required)}")


def _parse(text: str) -> Override:
    try:
        override = OverridesParser.create().parse_override(text)
    except HydraException as error:
        why = f" ({str(error).splitlines()[0]})" if "=" in text else ""
        if any(text.count(opening) != text.count(closing) for opening, closing in ("[]", "{}", "()")):
            why = "; its brackets do not match: leave out spaces within brackets, or quote the whole for the shell"
        raise UsageError(f"{text}: not of the form key=value{why}") from error
    if not override.key_or_group:
        raise UsageError(f"{text}: not of the form key=value (there is no key)")
    return override


def _check_choice(override: Override, roots: list[Path]) -> None:
    groups = [root / override.key_or_group for root in roots]
    files = [(path, group) for group in groups for path in group.rglob("*.yaml")]
    # A leading underscore is for files that others build on.
    names = sorted(str(path.relative_to(group).with_suffix("")) for path, group in files if path.name[0] != "_")
    if override.value() not in names:
        raise UsageError(
            unknown(override.key_or_group, str(override.value()), names) + f" (conf/{override.key_or_group}/)"
        )


def _check_key(override: Override, config: DictConfig, also: Config) -> None:
    keys = list(_dotted(OmegaConf.to_container(config, resolve=False)))
    key = override.key_or_group
    if key not in keys:
        keys += _dotted(also)
        parent, _, last = key.rpartition(".")
        beside = [other for other in keys if other.rpartition(".")[0] == parent and not other.endswith("_target_")]
        elsewhere = {other.rpartition(".")[2]: other for other in keys}
        near = (
            [
                f"{parent}.{name}".lstrip(".")
                for name in get_close_matches(last, [k.rpartition(".")[2] for k in beside], 1)
            ]
            or [elsewhere[name] for name in get_close_matches(last, elsewhere, 1, cutoff=0.8)]
            or get_close_matches(key, keys, 1, cutoff=0.8)
        )
        hint = f"did you mean {near[0]}? " if near else ""
        valid = ", ".join(beside) or (f"none, {parent} has no options" if parent in keys else ", ".join(config))
        raise UsageError(f"{key}: no such key; {hint}Valid here: {valid}")


def _dotted(node: object, prefix: str = "") -> Iterable[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield f"{prefix}{key}"
            yield from _dotted(value, f"{prefix}{key}.")
