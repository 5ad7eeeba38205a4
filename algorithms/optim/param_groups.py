"""What parameter groups set from step to step: lr and an algorithm's hyperparameters."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import inf
from typing import Any

from ..core.algorithm import Algorithm
from ..core.grouped import SideBySide
from ..registry import load_method, parameters, unlike

_ELSEWHERE = ("weight_decay", "betas", "momentum", "eps", "dampening", "nesterov", "amsgrad", "maximize")
"""What torch's optimizers let a group set: refused where it would have no effect, since nothing else would tell."""

Settings = list[dict[str, Any]]
"""Of every group: its lr and hyperparameters, as floats and tuples of them."""


def chosen(algorithm: Algorithm | str, options: Mapping[str, Any]) -> tuple[Algorithm, dict[str, Any]]:
    """An algorithm, made where it is a name, and its hyperparameters as all groups begin with them."""
    own = parameters(algorithm) if isinstance(algorithm, str) else []
    if isinstance(algorithm, str):
        algorithm = load_method(algorithm, **{name: value for name, value in options.items() if name in own})
    if algorithm.has_local_models:
        raise ValueError(f"{algorithm}: its workers have local models, which CompressedOptimizer does not support")
    if algorithm.looks_back:
        raise ValueError(
            f"{algorithm}: its workers also need gradients at the previous model, and an optimizer gets one"
        )
    hyperparameters = algorithm.hyperparameters()
    for name in options:
        if name not in (*own, *hyperparameters):
            raise ValueError(unlike("option", name, dict.fromkeys([*own, *hyperparameters])))
    return algorithm, {name: _plain(name, options.get(name, like), like) for name, like in hyperparameters.items()}


def check_group(group: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raise ValueError where a group sets what another optimizer lets it set, and not this one."""
    names = [*names, "compressor"]
    for name in _ELSEWHERE:
        if name in group and name not in names:
            raise ValueError(f"{name}={group[name]}: a group of this method may set {', '.join(names)}, and no more")


def read_settings(groups: Iterable[Mapping[str, Any]], like: Mapping[str, Any]) -> Settings:
    """What groups say of lr and hyperparameters, of the form of those in `like`."""
    return [{name: _plain(name, group[name], like[name]) for name in like} for group in groups]


def with_settings(algorithms: SideBySide, settings: Settings) -> SideBySide:
    """The groups' algorithms with these hyperparameters. Raises ValueError for a value outside its range."""
    parts = []
    for part, row in zip(algorithms.parts, settings, strict=True):
        check_step_size(row["lr"])
        parts.append(part.with_hyperparameters(**{name: value for name, value in row.items() if name != "lr"}))
    return replace(algorithms, parts=tuple(parts))


def check_step_size(lr: float) -> None:
    if not 0 <= lr < inf:
        raise ValueError(f"lr={lr}: must be finite and not negative")


def _plain(name: str, value: Any, like: Any) -> float | tuple[float, ...]:
    try:
        if not isinstance(like, tuple):
            return float(value)
        if len(value) == len(like):
            return tuple(map(float, value))
    except (TypeError, ValueError):
        pass
    raise ValueError(f"{name}={value}: must be {f'{len(like)} numbers' if isinstance(like, tuple) else 'a number'}")
