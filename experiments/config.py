"""From a command line to one resolved, checked configuration."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches
from itertools import product
from pathlib import Path

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from algorithms.schedules import SCHEDULES
from experiments.errors import UsageError

CONF = Path(__file__).resolve().parent.parent / "conf"

DEVICES = ("auto", "cpu", "cuda")

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


def load(overrides: Iterable[str], name: str = "config") -> Config:
    """Compose conf/<name>.yaml with overrides, resolved. Raises UsageError with the nearest valid name."""
    overrides = list(overrides)
    parsed = [_parse(text) for text in overrides]
    groups = [override for override in parsed if (CONF / override.key_or_group).is_dir()]
    for override in groups:
        _check_choice(override)
    for override in parsed:
        if override.is_add() or override.is_delete():
            raise UsageError(f"{override.input_line}: keys can be set, not added or deleted; drop the + or ~")
    with initialize_config_dir(str(CONF), version_base="1.3"):
        try:
            composed = hydra_compose(name, overrides)
        except HydraException as error:
            with suppress(HydraException):  # which then is no matter of a wrong key
                base = hydra_compose(name, [override.input_line for override in groups])
                for override in parsed:
                    if override not in groups:
                        _check_key(override, base)
            raise UsageError(str(error)) from error
    try:
        return OmegaConf.to_container(composed, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise UsageError(f"{error.full_key}: {str(error).splitlines()[0]}; set it on the command line") from error


def load_run(overrides: Iterable[str]) -> Config:
    """The configuration of one run: composed, in canonical form and with every shared key checked."""
    config = load(overrides)
    lr = config["lr"]
    config["lr"] = [_number(value, "lr") for value in (lr if isinstance(lr, list) else [lr])]
    if not config["lr"] or not all(0 < value < math.inf for value in config["lr"]):
        raise UsageError(f"lr={lr}: step sizes are positive numbers, or a non-empty list of them")
    if len(set(config["lr"])) < len(config["lr"]):
        raise UsageError(f"lr={lr}: a step size stands there twice")
    if not isinstance(config["cluster"], dict):
        raise UsageError(f"cluster={config['cluster']}: holds settings of its own; set cluster.workers, say")
    _integer(config["cluster"]["workers"], "cluster.workers", 1)
    if not 0 < _number(config["cluster"]["timeout"], "cluster.timeout") < math.inf:
        raise UsageError(f"cluster.timeout={config['cluster']['timeout']}: must be a positive number of seconds")
    _count_rounds(config)
    for key, least in (("rounds", 1), ("eval_every", 1), ("checkpoint_every", 1), ("seed", 0)):
        _integer(config[key], key, least)
    for group in ("task", "algorithm"):
        _path_name(config[group]["name"], f"{group}.name")
    for key in ("results_dir", "data_dir"):
        if not isinstance(config[key], str) or not config[key]:
            raise UsageError(f"{key}={config[key]}: must be a path")
    if not isinstance(config["eval_early"], bool):
        raise UsageError(f"eval_early={config['eval_early']}: true or false")
    if config["lr_schedule"] not in SCHEDULES:
        raise UsageError(_unknown("lr_schedule", str(config["lr_schedule"]), SCHEDULES))
    if config["threads"] is not None:
        _integer(config["threads"], "threads", 1)
    if config["device"] not in DEVICES:
        raise UsageError(_unknown("device", str(config["device"]), DEVICES))
    if config["partition"] not in ("whole", "layer"):
        raise UsageError(_unknown("partition", str(config["partition"]), ("whole", "layer")))
    _pin_files(config)
    return config


def _count_rounds(config: Config) -> None:
    """Fill in `rounds` and `eval_every` where a task counts in epochs of ⌊⌊rows/n⌋/batch_size⌋ rounds."""
    task, workers = config["task"], config["cluster"]["workers"]
    if "rows" not in task:
        if config["epochs"] is not None:
            raise UsageError(f"epochs={config['epochs']}: task={task['name']} counts in rounds; set rounds")
        return
    for key in ("rows", "batch_size"):
        _integer(task[key], f"task.{key}", 1)
    rows = task["rows"] // workers
    an_epoch = rows // task["batch_size"]
    if not an_epoch:
        raise UsageError(
            f"task.batch_size={task['batch_size']}: each of {workers} workers has {rows} images; choose at most that"
        )
    if config["rounds"] is not None:
        config["epochs"] = None
    else:
        epochs = _number(config["epochs"], "epochs")
        if not 0 < epochs < math.inf:
            raise UsageError(f"epochs={config['epochs']}: must be a positive number")
        config["rounds"] = max(1, round(epochs * an_epoch))
    if config["eval_every"] is None:
        config["eval_every"] = an_epoch


def _parse(text: str) -> Override:
    try:
        override = OverridesParser.create().parse_override(text)
    except HydraException as error:
        raise UsageError(f"{text}: not of the form key=value ({str(error).splitlines()[0]})") from error
    if not override.key_or_group:
        raise UsageError(f"{text}: not of the form key=value (there is no key)")
    return override


def _check_choice(override: Override) -> None:
    group = CONF / override.key_or_group
    files = [path for path in group.rglob("*.yaml") if not path.name.startswith("_")]  # which others build on
    names = sorted(str(path.relative_to(group).with_suffix("")) for path in files)
    if override.value() not in names:
        raise UsageError(
            _unknown(override.key_or_group, str(override.value()), names) + f" (conf/{override.key_or_group}/)"
        )


def _check_key(override: Override, config: DictConfig) -> None:
    keys = list(_dotted(OmegaConf.to_container(config, resolve=False)))
    key = override.key_or_group
    if key not in keys:
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


def _unknown(key: str, value: str, names: Iterable[str]) -> str:
    names = list(names)
    near = get_close_matches(value, names, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"{key}={value}: no such choice; {hint}Valid: {', '.join(names)}"


def _path_name(value: object, key: str) -> None:
    """Names become folders, which must lie within the results."""
    if not isinstance(value, str) or not re.fullmatch(r"\w[\w.+-]*(/\w[\w.+-]*)*", value):
        raise UsageError(f"{key}={value}: must be words of letters, digits, _ . + and -, separated by slashes")


def _number(value: object, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UsageError(f"{key}={value}: not a number")
    return float(value)


def _integer(value: object, key: str, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{key}={value}: must be a whole number of at least {least}")


def _pin_files(node: object) -> None:
    """Give every data file named by path the hash of its bytes, so that a changed file is another run."""
    if isinstance(node, dict):
        if "file" in node and "sha256" in node and node["sha256"] is None:
            try:
                with Path(str(node["file"])).expanduser().open("rb") as file:
                    node["sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError as error:
                raise UsageError(f"{node['file']}: {error.strerror}") from error
        for value in node.values():
            _pin_files(value)
