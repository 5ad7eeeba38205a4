"""Settings of parameter groups: lr and hyperparameters, read in every step."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from difflib import get_close_matches
from itertools import accumulate
from math import inf, prod
from typing import Any, Literal

from ..core.algorithm import Algorithm
from ..core.grouped import GroupedAlgorithms
from ..registry import explain_unknown_name, load_method, parameters
from ..utils.words import check_words

_TORCH_OPTIONS = (
    *("weight_decay", "betas", "momentum", "eps", "dampening", "nesterov", "amsgrad", "maximize"),
    *("foreach", "fused", "capturable", "differentiable"),
)
"""Standard torch group options. They are rejected where they would silently have no effect."""

_COMMON = ("seed", "process_group", "replicated", "partition", "intra_group")
"""The constructor's options for all groups."""

_EPSILON = (
    "ε is ν of the update rule, as in update=AMSGrad(nu=1e-8) of algorithms.core.update_rules; a method with an ε of "
    "its own takes eps= as a keyword, for all groups"
)

Partition = Literal["whole", "layer"]
"""The coordinates with one scale: the whole group, or one parameter."""

Settings = list[dict[str, Any]]
"""lr and hyperparameters of every group, as floats and tuples of floats."""


def resolve_method(algorithm: Algorithm | str, options: Mapping[str, Any]) -> Algorithm:
    """Return the method, loaded with its options if it is a name. Raises ValueError for anything else."""
    if isinstance(algorithm, str):
        return load_method(algorithm, **options)
    if not isinstance(algorithm, Algorithm):
        raise ValueError(f"{algorithm}: must be a method's name, or the Algorithm that its function returns")
    if options:
        raise ValueError(f"{', '.join(options)}: options are only for an algorithm given by name")
    return algorithm


def resolve_algorithm(
    algorithm: Algorithm | str, seed: int, workers: int, options: Mapping[str, Any]
) -> tuple[Algorithm, dict[str, Any]]:
    """Return the algorithm, loaded if it is a name, and the initial hyperparameters of all groups. Raises ValueError.

    seed: for a named method that draws random numbers itself, such as MARINA's coin. workers: for one that needs
    their number.
    """
    own = parameters(algorithm) if isinstance(algorithm, str) else []
    given = {"seed": seed, "workers": workers, **options}
    algorithm = resolve_method(algorithm, {name: value for name, value in given.items() if name in own})
    if algorithm.has_local_models:
        raise ValueError(f"{algorithm}: its workers have local models; use LocalSteps around a torch optimizer")
    if algorithm.looks_back:
        raise ValueError(
            f"{algorithm}: its workers also need gradients at the previous model, and an optimizer gets one"
        )
    hyperparameters = algorithm.hyperparameters()
    for name in options:
        if name not in (*own, *hyperparameters):
            raise ValueError(
                f"eps={options[name]}: {_EPSILON}"
                if name == "eps"
                else explain_unknown_name("option", name, dict.fromkeys([*own, *hyperparameters]))
            )
    return algorithm, {name: _plain(name, options.get(name, like), like) for name, like in hyperparameters.items()}


def with_partition(algorithm: Algorithm, partition: Partition, shapes: Sequence[Sequence[int]]) -> Algorithm:
    """Return the algorithm, with a scale for each parameter if `partition` is "layer". shapes: of the parameters.

    Raises ValueError, also if a block of a layout crosses parameters, or lacks its parameter's first axis.
    """
    check_words(with_partition, locals())
    _check_layouts(algorithm, shapes)
    sizes = map(prod, shapes)
    return algorithm if partition == "whole" else algorithm.with_blocks([size for size in sizes if size])


def _check_layouts(node: Any, shapes: Sequence[Sequence[int]]) -> None:
    for field in fields(node):
        value = getattr(node, field.name)
        if field.name == "layout":
            ends = list(accumulate(block.size for block in value))
            places = list(accumulate(map(prod, shapes)))
            wrong = [number for number, place in enumerate(places) if place not in (0, *ends)]
            if wrong and ends[-1:] == places[-1:]:  # `check` reports a wrong total
                raise ValueError(
                    f"layout: no block ends where parameter {wrong[0]} does, after {places[wrong[0]]} coordinates; "
                    "give the blocks in the order of the parameters"
                )
            whole = {(place - prod(shape), prod(shape)): shape for place, shape in zip(places, shapes, strict=True)}
            for block in value:
                shape = tuple(whole.get((block.offset, block.size), ()))
                is_flat = block.role == "vector" and len(block.shape) == 1
                if len(shape) > 1 and block.shape[:1] != shape[:1] and not is_flat:  # other axes are columns together
                    raise ValueError(
                        f"layout: block {block.name!r} is {block.shape}; give its parameter's shape, {shape}"
                    )
        elif is_dataclass(value):
            _check_layouts(value, shapes)


def check_group(group: Mapping[str, Any], names: Iterable[str], common: Iterable[str]) -> None:
    """Raise ValueError for a misspelt option, for options of all groups, and for torch options that it lacks.

    names: options of a group. common: options of the method.
    """
    names = [*names, "compressor"]
    if "algorithm" in group:  # only if another optimizer made the group
        raise ValueError(
            "a group has an algorithm, as in ZeroRedundancyOptimizer, which shards parameters over ranks; "
            "here every rank must hold all parameters"
        )
    if "eps" in group:
        raise ValueError(f"eps={group['eps']}: {_EPSILON}")
    for name in _TORCH_OPTIONS:
        if name in group and name not in names:
            raise ValueError(f"{name}={group[name]}: a group of this method may set {', '.join(names)}, nothing else")
    for name in group:
        if name in (*common, *_COMMON) and name not in names:
            raise ValueError(f"{name}={group[name]}: groups cannot set it; pass it to the optimizer, for all groups")
        is_own = any(name == known or name.startswith(f"{known}_") or name.endswith(f"_{known}") for known in names)
        if not is_own and get_close_matches(name, names, 1, cutoff=0.8):  # weight_decay_end is its own
            raise ValueError(f"{name}={group[name]}: {explain_unknown_name('option of a group', name, names)}")


def read_settings(groups: Iterable[Mapping[str, Any]], like: Mapping[str, Any]) -> Settings:
    """Return lr and hyperparameters of all groups, in the form of `like`."""
    return [{name: _plain(name, group[name], like[name]) for name in like} for group in groups]


def with_settings(algorithms: GroupedAlgorithms, settings: Settings) -> GroupedAlgorithms:
    """Return the groups' algorithms with these hyperparameters. Raises ValueError for one outside its range."""
    parts = []
    for part, row in zip(algorithms.parts, settings, strict=True):
        check_step_size(row["lr"])
        parts.append(part.with_hyperparameters(**{name: value for name, value in row.items() if name != "lr"}))
    return replace(algorithms, parts=tuple(parts))


def check_step_size(lr: Any) -> None:
    """Raise ValueError unless it is a number, finite and not negative."""
    lr = _plain("lr", lr, 0.0)
    if not 0 <= lr < inf:
        raise ValueError(f"lr={lr}: must be finite and not negative")


def _plain(name: str, value: Any, like: Any) -> float | tuple[float, ...]:
    try:
        if not isinstance(like, tuple):
            return _number(value)
        if len(value) == len(like):
            return tuple(map(_number, value))
    except (TypeError, ValueError):
        pass
    raise ValueError(f"{name}={value!r}: must be {f'{len(like)} numbers' if isinstance(like, tuple) else 'a number'}")


def _number(value: Any) -> float:
    if isinstance(value, str):  # a scheduler would multiply the text
        raise TypeError
    return float(value)
