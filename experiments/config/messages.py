"""Explain Hydra's errors about a command line, with suggestions for typos."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path

from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import MarkedYAMLError

from common.errors import UsageError
from common.names import closest_name, explain_unknown
from experiments.config.classes import target_hint
from experiments.config.compose import choices, compose, dotted_keys, packages_of, parse, roots

GLOBAL = "`# @package _global_` as its first line"
"""What a method's YAML file needs."""


@contextmanager
def explain_hydra_errors(
    overrides: Sequence[str], name: str = "run", also: Iterable[str] = (), folders: Sequence[str] = ()
) -> Iterator[None]:
    """Turn Hydra's errors inside the with-block into a UsageError about an override of conf/<name>.yaml.

    also: further valid keys. folders: the folders of --config-dir.
    """
    try:
        yield
    except MarkedYAMLError as error:
        raise UsageError(f"not YAML: {' '.join(str(error).split())}") from error
    except (HydraException, OmegaConfBaseException) as error:
        _explain(overrides, name, also, folders)
        missing = str(getattr(error, "missing_cfg_file", ""))
        if missing.startswith("target/"):
            name = missing.removeprefix("target/")
            raise UsageError(f"{name}: {target_hint(name)}") from error
        if isinstance(error.__cause__, OmegaConfBaseException):
            error = error.__cause__
        text = str(error) if isinstance(error, HydraException) else str(error).partition("\n")[0]
        text += f" A file in conf/algorithm/ needs {GLOBAL}" * ("@algorithm." in text)
        key = getattr(error, "full_key", None)
        raise UsageError(f"{f'{key}: ' if key else ''}{' '.join(text.split())}") from error
    except ValueError:  # Hydra's, if a choice is no text
        _explain(overrides, name, also, folders)
        raise


def refuse_misspelt(overrides: Iterable[str], keys: list[str], places: Sequence[Path]) -> None:
    """Raise UsageError for a key that is nearly one of `keys`, before composing, which takes seconds.

    It skips options of choices. places: the folders that hold groups, the user's too.
    """
    for key in (parse(text).key_or_group for text in overrides):
        is_known = key in keys or "." in key or any((root / key).is_dir() for root in places)
        if not is_known and closest_name(key, keys, cutoff=0.8):
            raise UsageError(_no_such_key(key, keys))


def _explain(overrides: Sequence[str], name: str, also: Iterable[str], folders: Sequence[str]) -> None:
    parsed = [one for one in map(parse, overrides) if not one.key_or_group.startswith("hydra")]
    places = roots(packages_of(overrides), folders)
    groups = [one for one in parsed if any((root / one.key_or_group).is_dir() for root in places)]
    plain = [one for one in parsed if one not in groups and not (one.is_add() or one.is_force_add())]
    for override in groups:
        if not override.is_delete():
            for value in _values(override):
                _check_choice(override.key_or_group, "null" if value is None else str(value), places)
    fixed = [str(one.input_line) for one in groups if not one.is_sweep_override()]
    swept = [one for one in groups if one.is_sweep_override()]
    for cell in product(*([f"{one.key_or_group}={value}" for value in _values(one)] for one in swept)):
        with suppress(HydraException):
            base = compose([*fixed, *cell], name, packages_of(overrides), folders)
            keys = list(dict.fromkeys([*dotted_keys(OmegaConf.to_container(base, resolve=False)), *also]))
            for override in plain:
                if override.key_or_group not in keys:
                    raise UsageError(": ".join([*cell, _no_such_key(override.key_or_group, keys)]))


def _values(override: Override) -> list[object]:
    return list(override.sweep_iterator()) if override.is_discrete_sweep() else [override.value()]


def _check_choice(group: str, value: str, places: Sequence[Path]) -> None:
    names = choices(group, places)
    if value not in names:
        raise UsageError(
            explain_unknown(f"{group}={value}: no such choice", value, names)
            + f" (conf/{group}/; packages=[mine] adds those of a package mine)"
        )


def _no_such_key(key: str, keys: list[str]) -> str:
    parent, _, last = key.rpartition(".")
    near = closest_name(key, keys) or next((other for other in keys if other.rpartition(".")[2] == last), None)
    siblings = [other for other in keys if other.rpartition(".")[0] == parent and not other.endswith("_target_")]
    valid = ", ".join(siblings or [other for other in keys if "." not in other])
    return f"{key}: no such key; {f'did you mean {near}? ' if near else ''}Valid here: {valid}"
