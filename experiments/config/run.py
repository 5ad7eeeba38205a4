"""Read overrides into one checked run, and turn a run back into its configuration."""

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, fields
from typing import Any

from common.errors import UsageError
from experiments.config import schema
from experiments.config.classes import Classes, as_node
from experiments.config.compose import Config, compose, packages_of, quote, resolve, value_of
from experiments.config.derived import fill_derived_keys
from experiments.config.messages import GLOBAL, explain_hydra_errors
from experiments.config.schema import ClusterConfig, LaunchConfig, Part, RunConfig
from experiments.config.values import check_keys, read_keys
from plots.runs.variants import find_undrawable

_PARTS = [key.name for key in fields(RunConfig) if schema.is_part(key)]
LAUNCH = [key.name for key in fields(LaunchConfig)]
_LOOKS = {"task": ("label",), "algorithm": ("label", "color", "marker")}


def load_run(overrides: Iterable[str], also: Iterable[str] = ()) -> RunConfig:
    """Compose and check the run that overrides describe. Raises UsageError.

    also: keys of the command itself, to suggest for misspelt ones.
    """
    overrides = quote(overrides)
    with explain_hydra_errors(overrides, also=also):
        composed = compose(overrides, packages=packages_of(overrides))
    config = resolve(composed)
    run = read_run(config, packages_of(overrides))
    refuse_ignored_epochs(overrides, config)
    return run


def refuse_ignored_epochs(overrides: Sequence[str], config: Config) -> None:
    """Raise UsageError if `epochs` has no effect because a file or an earlier override sets `rounds`."""
    rounds = config["rounds"]
    epochs, names = value_of("epochs", overrides), [text.partition("=")[0].lstrip("+") for text in overrides]
    if None not in (epochs, rounds) and "rounds" not in names[::-1][: names[::-1].index("epochs")]:
        raise UsageError(f"epochs={epochs}: rounds={rounds} is set too and wins; add rounds=null")


def read_run(config: Mapping[str, Any], packages: Sequence[str]) -> RunConfig:
    """Read the run of a resolved configuration, with derived keys filled in.

    packages: the command line allows these. Raises UsageError for every error that shows without data.
    """
    config = deepcopy({key: value for key, value in config.items() if key not in (*LAUNCH, "sweep")})
    keys, own = [key.name for key in fields(RunConfig)], [key.name for key in fields(ClusterConfig)]
    check_keys(config, keys, "configuration", keys)
    for name in _PARTS:
        if not isinstance(config[name], dict):
            raise UsageError(f"{name}={config[name]}: must be a choice of conf/{name}/")
        if "_target_" not in config[name]:
            place, more = ("algorithm", f", and {GLOBAL}") if name == "algorithm" else ("_here_", "")
            line = f"`- /target@{place}: my_package.my_name` in its defaults{more}"
            raise UsageError(f"{name}: its YAML file sets no _target_; it needs {line}")
    check_keys(config["cluster"], own, "cluster", own)
    values = read_keys(RunConfig, config)
    for name in ("results_dir", "data_dir"):
        if not values[name]:
            hint = ", or unset DATA_DIR" * (name == "data_dir")
            raise UsageError(f"{name}=: is empty, perhaps by an unset variable; give a folder{hint}")
    if values["results_dir"].startswith("~"):
        raise UsageError(f"results_dir={values['results_dir']}: ~ is not expanded; give the full path")
    of_cluster = read_keys(ClusterConfig, config["cluster"], "cluster.")
    for name, without in (("participation", 1.0), ("absent", ()), ("late", ())):
        if of_cluster[name] == without:  # the same run, with the same id
            of_cluster[name] = None
    cluster = ClusterConfig(**of_cluster)
    if cluster.workers % (cluster.groups or 1):
        raise UsageError(f"cluster.groups={cluster.groups}: must divide cluster.workers={cluster.workers}")
    if cluster.groups and cluster.server == "sharded":
        raise UsageError("cluster.server=sharded: does not support cluster.groups; set cluster.server=rank0")
    fill_derived_keys(config)
    values |= {key: config[key] for key in ("rounds", "epochs", "eval_every")}
    for name in set(values["packages"]) - set(packages):
        raise UsageError(f"packages=[{name}]: only the command line may allow a package: add packages=[{name}]")
    for name in _LOOKS:
        _check_labels(config[name], name)
    if values["study"] is not None:
        check_path_name(values["study"], "study")
    parts = {name: Part.read(config[name]) for name in _PARTS}
    for name, part in parts.items():
        if part.target is not None:
            Classes(values["packages"]).find(as_node(part), name)
    decay = values["weight_decay"]
    if decay and not any(_sets_decay(parts[name].options, decay) for name in ("update", "algorithm")):
        raise UsageError(
            f"weight_decay={decay:g}: no option of the update or of algorithm={parts['algorithm'].name} has this "
            "value; set weight_decay=0, or write `weight_decay: ${weight_decay}` into the YAML file of the one that "
            "takes it"
        )
    return RunConfig(cluster=cluster, **parts, **values)


def config_of(run: RunConfig) -> Config:
    """Return the run's resolved configuration: nested dicts, lists and scalars."""
    config = {key.name: getattr(run, key.name) for key in fields(run)}
    parts = {name: value.node() for name, value in config.items() if isinstance(value, Part)}
    return {**config, **parts, "cluster": asdict(run.cluster), "lr": list(run.lr), "packages": list(run.packages)}


def launch_of(config: Mapping[str, Any], is_sweep: bool = True) -> LaunchConfig:
    """Read how a command starts its runs from its resolved configuration. Raises UsageError."""
    launch = LaunchConfig(**read_keys(LaunchConfig, config))
    if launch.select is not None and not launch.select.startswith(("final_", "best_")):
        raise UsageError(f"select={launch.select}: must be final_<metric> or best_<metric>, such as final_grad_norm")
    if launch.select is not None and not is_sweep:
        raise UsageError(f"select={launch.select}: is for sweeps; a figure or a track has a metric of its own")
    return launch


def check_path_name(value: object, key: str) -> None:
    """Raise UsageError unless the value can name a folder within the results."""
    if not isinstance(value, str) or not re.fullmatch(r"\w[\w.+-]*(/\w[\w.+-]*)*", value):
        raise UsageError(
            f"{key}={value}: may have letters, digits and _ . + - /, and each word starts with a letter, digit or _"
        )


def _sets_decay(options: Mapping[str, Any], decay: float) -> bool:
    """Whether a weight decay is set anywhere in options."""
    return any(
        _sets_decay(value, decay) if isinstance(value, dict) else value == decay or (key == "weight_decay" and value)
        for key, value in options.items()
    )


def _check_labels(node: Mapping[str, Any], group: str) -> None:
    check_path_name(node.get("name"), f"{group}.name")
    display = node.get("display")
    if not isinstance(display, Mapping) or not all(isinstance(display.get(look), str) for look in _LOOKS[group]):
        raise UsageError(f"{group}.display={display}: must have {', '.join(_LOOKS[group])} for drawing")
    if group == "algorithm" and (wrong := find_undrawable(display["color"], display["marker"])):
        raise UsageError(f"algorithm.display.{wrong}: not known to matplotlib, which draws the curves")
