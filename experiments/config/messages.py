"""What Hydra finds wrong with a command line, in words that say what was meant."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, MissingConfigException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import MarkedYAMLError

from common.errors import UsageError
from common.names import meant, unknown
from experiments.config.classes import foreign
from experiments.config.compose import CONF, compose, dotted, folder_of_package, packages_of, parse


@contextmanager
def explain_hydra_errors(
    overrides: Sequence[str], name: str = "config", also: Iterable[str] = (), folders: Sequence[str] = ()
) -> Iterator[None]:
    """Turn what Hydra raises meanwhile into a UsageError about one of the overrides of conf/<name>.yaml.

    also: keys besides those of that file. folders: where else Hydra looks, by --config-dir.
    """
    try:
        yield
    except MarkedYAMLError as error:
        place = error.problem_mark
        where = f"{place.name}, line {place.line + 1}: " if place else ""
        raise UsageError(f"{where}not YAML ({error.problem})") from error
    except (HydraException, OmegaConfBaseException) as error:
        _explain(list(overrides), name, also, folders)
        missing = str(getattr(error, "missing_cfg_file", ""))
        if missing.startswith("target/"):
            name = missing.removeprefix("target/")
            raise UsageError(f"{name}: must be a class or function of {foreign(name)}") from error
        if isinstance(error, MissingConfigException) and error.options:
            group, _, choice = str(error.missing_cfg_file).rpartition("/")
            raise UsageError(unknown(f"{group}={choice}: no such choice", choice, error.options)) from error
        cause = error.__cause__ if isinstance(error.__cause__, OmegaConfBaseException) else error
        key = getattr(cause, "full_key", None)
        said, *details = str(cause).splitlines()
        said = f"{said} {details[0]}" if said.endswith(":") and details else said
        raise UsageError(f"{f'{key}: ' if key else ''}{said}") from error


def check(overrides: Iterable[str], multirun: bool) -> None:
    """Raise UsageError for overrides that need no composing to be found wrong."""
    for text in overrides:
        override = parse(text)
        key = override.key_or_group
        if override.is_delete() and not key.startswith("hydra."):
            raise UsageError(f"{text}: a key cannot be deleted; drop the ~ and set it")
        if (CONF / key).is_dir() and not override.is_delete() and isinstance(override.value(), int | float | None):
            _check_choice(key, override.value(), [CONF])  # Hydra takes a choice for text
        if override.is_sweep_override() and not multirun and not key.startswith("hydra."):
            batch = (
                f", or write lr=[{text.partition('=')[2]}] for one batched grid"
                if key == "lr" and "(" not in text
                else ""
            )
            raise UsageError(f"{text}: several values are a sweep: add -m for one run each{batch}")


def _explain(overrides: list[str], name: str, also: Iterable[str], folders: Sequence[str]) -> None:
    """Raise UsageError about the first override that is wrong, if one is."""
    parsed = [one for one in map(parse, overrides) if not one.key_or_group.startswith("hydra")]
    roots = [CONF, *map(Path, folders)]
    roots += [folder_of_package(package) / "conf" for package in packages_of(overrides)]
    groups = [one for one in parsed if any((root / one.key_or_group).is_dir() for root in roots)]
    for override in parsed:
        if override.is_sweep_override() and not override.is_discrete_sweep():
            raise UsageError(f"{override.input_line}: needs a sweeper that searches: add hydra/sweeper=optuna")
    for override in groups:
        if not override.is_delete():
            for value in _values(override):
                _check_choice(override.key_or_group, value, roots)
    with suppress(HydraException):
        plain = [str(one.input_line) for one in groups if not one.is_sweep_override()]
        base = compose(plain, name, packages_of(overrides), folders)
        keys = list(dict.fromkeys([*dotted(OmegaConf.to_container(base, resolve=False)), *also]))
        for override in parsed:
            if override not in groups:
                _check_key(override, keys)


def _values(override: Override) -> list[object]:
    return list(override.sweep_iterator()) if override.is_discrete_sweep() else [override.value()]


def _check_choice(group: str, value: object, roots: list[Path]) -> None:
    files = [(path, root / group) for root in roots for path in (root / group).rglob("*.yaml")]
    # A leading underscore is for files that others build on.
    names = sorted(
        str(path.relative_to(group_)).removesuffix(".yaml") for path, group_ in files if path.name[0] != "_"
    )
    if value not in names:
        shown = "null" if value is None else str(value)
        raise UsageError(unknown(f"{group}={shown}: no such choice", shown, names) + f" (conf/{group}/)")


def _check_key(override: Override, keys: list[str]) -> None:
    key = override.key_or_group
    if key not in keys:
        raise UsageError(f"{key}: no such key; {_hint(key, keys)}")


def _hint(key: str, keys: list[str]) -> str:
    parent, _, last = key.rpartition(".")
    beside = [other for other in keys if other.rpartition(".")[0] == parent and not other.endswith("_target_")]
    elsewhere = {other.rpartition(".")[2]: other for other in keys}
    near = meant(key, [other for other in keys if other != parent]) or meant(key, beside)
    if near is None and (same := meant(last, elsewhere, cutoff=0.8)):
        near = elsewhere[same]
    top = [other for other in keys if "." not in other and other != "hydra"]
    valid = ", ".join(beside) or (f"none, {parent} has no options" if parent in keys else ", ".join(top))
    return f"{f'did you mean {near}? ' if near else ''}Valid here: {valid}"
