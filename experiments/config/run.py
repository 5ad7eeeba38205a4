"""The configuration of one run: every key that runs share is checked before anything is built."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import yaml

from algorithms.schedules import SCHEDULES
from common.errors import UsageError
from experiments.config.compose import Config, folder_of_package, load, unknown, value_of

DEVICES = ("auto", "cpu", "cuda")

_UNITS = {
    "epochs": "passes over the training images",
    "rounds": "rounds",
    "eval_every": "rounds",
    "checkpoint_every": "rounds",
    "cluster.timeout": "seconds",
    "job_timeout": "seconds",
    "cluster.workers": "workers",
    "threads": "threads",
}
"""What numbers count, for messages about those that are none."""


def load_run(overrides: Iterable[str], also: Config | None = None) -> Config:
    """The configuration of one run: composed, in canonical form and with every shared key checked.

    Raises UsageError, whose message about an unknown key knows those of `also` too.
    """
    overrides = list(overrides)
    packages = value_of("packages", overrides) or []
    config = load(overrides, packages=_packages(packages), also=also)
    lr = config["lr"]
    config["lr"] = [number(value, "lr") for value in (lr if isinstance(lr, list) else [lr])]
    _check_cluster(config)
    _count_rounds(config)
    _pin_files(config)
    _check(config)
    return config


def frozen(file: Path) -> Config:
    """The configuration that a sweep resolved and wrote down. Raises UsageError where it is damaged."""
    try:
        config = yaml.safe_load(file.read_text())
        _check(config)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from error
    except (yaml.YAMLError, KeyError, TypeError, AttributeError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{file}: not a frozen configuration ({type(error).__name__}: {error}); start the sweep again"
        ) from error
    return config


def number(value: object, key: str) -> float:
    """The value as a float. Raises UsageError for what is no number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UsageError(f"{key}={value}: not a number{_unit(value, key)}")
    return float(value)


def positive(value: object, key: str) -> None:
    """Raise UsageError for what is no positive, finite number."""
    if not 0 < number(value, key) < math.inf:
        raise UsageError(f"{key}={value}: must be a positive number{f' of {_UNITS[key]}' if key in _UNITS else ''}")


def integer(value: object, key: str, least: int) -> None:
    """Raise UsageError for what is no whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{key}={value}: must be a whole number of at least {least}{_unit(value, key)}")


def _unit(value: object, key: str) -> str:
    """What a number counts, for a value that is words."""
    return f"; it counts {_UNITS[key]}, with no unit behind it" if isinstance(value, str) and key in _UNITS else ""


def path_name(value: object, key: str) -> None:
    """Raise UsageError for what cannot be the name of a folder within the results."""
    if not isinstance(value, str) or not re.fullmatch(r"\w[\w.+-]*(/\w[\w.+-]*)*", value):
        raise UsageError(f"{key}={value}: must be words of letters, digits, _ . + and -, separated by slashes")


def choice(value: object, key: str, names: Iterable[str]) -> None:
    """Raise UsageError for what is not among `names`."""
    names = list(names)
    if value not in names:
        raise UsageError(unknown(key, str(value), names))


def _check_cluster(config: Config) -> None:
    if not isinstance(config["cluster"], dict):
        raise UsageError(f"cluster={config['cluster']}: holds settings of its own; set cluster.workers, say")
    integer(config["cluster"]["workers"], "cluster.workers", 1)
    positive(config["cluster"]["timeout"], "cluster.timeout")


@cache
def _keys() -> tuple[str, ...]:
    """The keys of every run."""
    return tuple(load([]))


def _check(config: Config) -> None:
    for key in config.keys() - set(_keys()):
        raise UsageError(unknown("key", key, _keys()))
    _packages(config["packages"])
    _check_cluster(config)
    if not config["lr"] or not all(0 < value < math.inf for value in config["lr"]):
        raise UsageError(f"lr={config['lr']}: step sizes are positive numbers, or a non-empty list of them")
    if len(set(config["lr"])) < len(config["lr"]):
        raise UsageError(f"lr={config['lr']}: a step size stands there twice")
    for key, least in (("rounds", 1), ("eval_every", 1), ("checkpoint_every", 1), ("seed", 0)):
        integer(config[key], key, least)
    for group, looks in (("task", ("label",)), ("algorithm", ("label", "color", "marker"))):
        path_name(config[group].get("name"), f"{group}.name")
        display = config[group].get("display")
        if not isinstance(display, dict) or not all(isinstance(display.get(look), str) for look in looks):
            raise UsageError(f"{group}.display={display}: must have {', '.join(looks)}, by which it is drawn")
    for key in ("results_dir", "data_dir"):
        if not isinstance(config[key], str) or not config[key]:
            raise UsageError(f"{key}={config[key]}: must be a path")
    if not isinstance(config["eval_early"], bool):
        raise UsageError(f"eval_early={config['eval_early']}: true or false")
    choice(config["lr_schedule"], "lr_schedule", SCHEDULES)
    if config["threads"] is not None:
        integer(config["threads"], "threads", 1)
    choice(config["device"], "device", DEVICES)
    choice(config["partition"], "partition", ("whole", "layer"))
    if not isinstance(config["logger"], dict):
        raise UsageError(f"logger={config['logger']}: a choice of conf/logger/, none or wandb")
    if config["study"] is not None:
        path_name(config["study"], "study")


def _count_rounds(config: Config) -> None:
    """Fill in `rounds` and `eval_every` where a task counts in epochs of ⌊⌊rows/n⌋/batch_size⌋ rounds."""
    task, workers = config["task"], config["cluster"]["workers"]
    if "rows" not in task:
        if config["epochs"] is not None:
            raise UsageError(f"epochs={config['epochs']}: task={task['name']} counts in rounds; set rounds")
        return
    for key in ("rows", "batch_size"):
        integer(task[key], f"task.{key}", 1)
    rows = task["rows"] // workers
    an_epoch = rows // task["batch_size"]
    if not an_epoch:
        raise UsageError(
            f"task.batch_size={task['batch_size']}: each of {workers} workers has {rows} images; choose at most that"
        )
    if config["rounds"] is not None:
        config["epochs"] = None
    else:
        positive(config["epochs"], "epochs")
        config["rounds"] = max(1, round(config["epochs"] * an_epoch))
    if config["eval_every"] is None:
        config["eval_every"] = an_epoch


def _packages(packages: object) -> list[str]:
    """The users' packages, all of them there. Raises UsageError."""
    if not isinstance(packages, list):
        raise UsageError(f"packages={packages}: must be a list of packages' names, [my_package] say")
    for package in packages:
        folder_of_package(package)
    return packages


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
