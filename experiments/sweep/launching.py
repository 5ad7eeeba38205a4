"""How runs are started: the keys of conf/launch.yaml and conf/multirun.yaml, told apart from those of runs."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from functools import cache

from common.errors import UsageError
from experiments.config.compose import Config, check_keys, expand, key_of, load, value_of
from experiments.config.run import choice, integer, path_name, positive
from plots.runs.columns import misspelt

SUBMIT = ("slurm", "submitit")
_SWEEP = ("name", "grid", "overrides")


@cache
def defaults(name: str) -> Config:
    """conf/<name>.yaml as it stands: `launch`, or `multirun` with what sweeps have besides."""
    return load([], name)


def launching(overrides: Iterable[str]) -> tuple[Config, list[str]]:
    """The keys of conf/multirun.yaml, composed and checked, and the overrides that are left for the runs.

    Raises UsageError.
    """
    ours, rest = split(overrides, defaults("multirun"))
    packages = value_of("packages", rest)  # which may bring sweeps of their own
    launch = load(ours, "multirun", packages if isinstance(packages, list) else ()) if ours else defaults("multirun")
    launch = {**launch, "sweep": _sweep(launch, value_of("sweep", ours))}
    check(launch)
    return launch, rest


def split(overrides: Iterable[str], keys: Container[str]) -> tuple[list[str], list[str]]:
    """The overrides of these keys and of what lies below them, and all others.

    Raises UsageError where one of the first has several values.
    """
    ours, rest = [], []
    for text in overrides:
        mine = key_of(text).partition(".")[0] in keys
        if mine and len(expand([text], multirun=True)) > 1:
            raise UsageError(f"{text}: has one value, for all runs")
        (ours if mine else rest).append(text)
    return ours, rest


def check(launch: Config) -> None:
    """Raise UsageError for a wrong value of a launching key."""
    integer(launch["jobs"], "jobs", 1)
    integer(launch["ranks"], "ranks", 1)
    if launch["job_timeout"] is not None:
        positive(launch["job_timeout"], "job_timeout")
    for key in ("fail_fast", "dry_run"):
        if not isinstance(launch[key], bool):
            raise UsageError(f"{key}={launch[key]}: true or false")
    if launch["submit"] is not None:
        choice(launch["submit"], "submit", SUBMIT)
        if launch["job_timeout"] is not None:
            raise UsageError(f"job_timeout={launch['job_timeout']}: a submitted run is given its time by slurm.time")
        if launch["fail_fast"]:
            raise UsageError("fail_fast=true: the runs of an array job do not know of each other; leave it out")
    if not isinstance(launch["slurm"], dict):
        raise UsageError(f"slurm={launch['slurm']}: holds settings of its own; set slurm.time, say")
    for key, value in launch["slurm"].items():
        if value is not None and launch["submit"] is None:
            raise UsageError(f"slurm.{key}={value}: is for runs that are submitted; add submit=slurm")
    if launch.get("select") is not None:
        _check_select(str(launch["select"]))
    if "sweep" in launch:
        path_name(launch["sweep"]["name"], "sweep.name")
        check_grid(launch["sweep"], "sweep")


def apart(launch: Config) -> bool:
    """Whether something is asked for that only a run in a process of its own can have."""
    return {**launch, "dry_run": False} != defaults("multirun" if "sweep" in launch else "launch")


def _check_select(rule: str) -> None:
    if not re.fullmatch(r"(final|best)_\w+", rule):
        raise UsageError(f"select={rule}: final_<metric> or best_<metric>, final_grad_norm say")
    which, _, metric = rule.partition("_")
    near = misspelt(metric)
    if near:
        raise UsageError(f"select={rule}: nothing is measured by that name; did you mean {which}_{near}?")


def check_grid(node: Config, place: str) -> None:
    """Raise UsageError for a grid or overrides of another form; `place` is where they stand."""
    grid, wanted = node["grid"], "a list of overrides, [seed=0, seed=1] say"
    if not _overrides(node["overrides"]):
        raise UsageError(f"{place}.overrides={node['overrides']}: must be {wanted}")
    if not isinstance(grid, list) or not all(axis and _overrides(axis) for axis in grid):
        raise UsageError(f"{place}.grid={grid}: must be a list of axes, each of them {wanted}")


def _sweep(launch: Config, name: object) -> Config:
    """The sweep of a file of this name with all its keys. Raises UsageError for keys that are none."""
    keys, place = defaults("multirun"), f"sweep={name}"
    check_keys(launch, keys, place)
    sweep = launch.get("sweep") or {}
    for key in keys:
        if key in sweep:
            raise UsageError(
                f"{place}: {key} is about how runs are started: for that the file's first line must be "
                "# @package _global_, and name, grid and overrides stand below sweep:"
            )
    check_keys(sweep, _SWEEP, place, ("grid",))
    return {"name": name, "overrides": [], **sweep}


def _overrides(node: object) -> bool:
    return isinstance(node, list) and all(isinstance(entry, str) and entry.strip() for entry in node)
