"""A figure as conf/figure and the command line describe it."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from common.errors import UsageError
from common.names import closest_name
from experiments.config.compose import Config
from experiments.config.run import check_path_name
from experiments.config.schema import Reproduction
from experiments.config.values import check_keys, read_keys
from plots.claims.claims import CHECKS, Claim
from plots.figure.derive import DERIVATIONS
from plots.figure.spec import Figure, Panel, Times
from plots.runs.network import Network

BUDGETS = ("full", "large", "medium", "quick")
"""The largest first."""

_KINDS: tuple[Any, ...] = (Figure, Panel, Times, Network, Claim, *CHECKS.values(), *DERIVATIONS.values())
_WORDS = sorted({name for kind in _KINDS for name in kind.model_fields})
_OF_CLAIM = ("number", "statement", "negated")
_KEYS = [*(name for name in Figure.model_fields if name not in ("budget", "seeds")), "budgets", "of_claim"]


def reproduction_of(config: Config) -> Reproduction:
    """Read the keys of conf/reproduction.yaml from a resolved configuration. Raises UsageError."""
    return Reproduction(figure=config["figure"], **read_keys(Reproduction, config))


def read_figure(asked: Reproduction, pick: Callable[[Sequence[Figure]], Figure]) -> Figure:
    """Read the requested figure with a budget and seeds. Null keys count as left out.

    `pick` chooses among the budgets for `auto`. Raises UsageError if the figure could not be drawn or judged.
    """
    if not isinstance(asked.figure, Mapping):
        raise UsageError(f"figure={asked.figure}: must be one of conf/figure/, or have keys of its own")
    node = {key: value for key, value in asked.figure.items() if value is not None}
    place = f"figure={node.get('name', '')}"
    check_keys(node, _KEYS, place, ("name",))
    check_path_name(node["name"], "figure.name")
    budgets = node.pop("budgets", {})
    nodes = {name: _with_budget(node, budgets, name) for name in _budgets(budgets, asked.budget, place)}
    figures = [_with_seeds(_figure(node, name, place), asked.seeds, place) for name, node in nodes.items()]
    return figures[0] if len(figures) == 1 else pick(figures)


def _budgets(budgets: Mapping[str, Any], asked: str, place: str) -> list[str | None]:
    for name, settings in budgets.items():
        check_keys(settings, _KEYS, f"{place}: budgets.{name}")
    if budgets:
        check_keys(budgets, BUDGETS, f"{place}: budgets", ("full", "quick"))
    if asked == "auto":
        return [name for name in BUDGETS if name in budgets] or [None]
    if asked in budgets:
        return [asked]
    has = f"has {', '.join(budgets)}" if budgets else "has one setting only; leave it out"
    raise UsageError(f"budget={asked}: {place} {has}")


def _with_budget(node: Config, budgets: Mapping[str, Any], name: str | None) -> Config:
    chosen = budgets[name] if name else {}
    overrides = [*node.get("overrides", []), *(chosen.get("overrides") or [])]
    both = {**node, **chosen, "overrides": overrides, "name": node["name"]}
    return {key: value for key, value in both.items() if value is not None}


def _with_seeds(figure: Figure, seeds: object, place: str) -> Figure:
    if seeds is None:
        return figure if figure.held_out is None else figure.replace(seeds=(0,))
    if not isinstance(seeds, list) or not seeds or len(set(map(str, seeds))) < len(seeds):
        raise UsageError(f"seeds={seeds}: must be a list of different whole numbers, such as [0,1,2]")
    entries = [entry for axis in (*figure.grid, figure.trial_overrides) for entry in axis]
    if any(re.search(r"(^|\s)seed=", entry) for entry in entries):
        raise UsageError(f"seeds={seeds}: {place} sets seed in its grid or trial_overrides; leave seeds= out")
    if figure.held_out is None:
        return figure.replace(grid=(*figure.grid, tuple(f"seed={seed}" for seed in seeds)))
    if str(figure.held_out) in map(str, seeds):
        raise UsageError(
            f"seeds={seeds}: {place} chooses step sizes on seed {figure.held_out}, so nothing is judged on it"
        )
    return figure.replace(seeds=tuple(seeds))


def _figure(node: Config, budget: str | None, place: str) -> Figure:
    of_claim = node.pop("of_claim", None)
    if isinstance(claims := node.get("claims", []), list):
        node = {**node, "claims": [_claim(claim, of_claim) for claim in claims], "budget": budget}
    try:
        figure = Figure.model_validate_json(json.dumps(node), strict=True)
    except ValidationError as error:
        raise UsageError(f"{place}: {_explain(error)}") from error
    return figure


def _claim(node: Any, of_claim: object) -> Any:
    if not isinstance(node, Mapping):
        return node
    options = {key: value for key, value in node.items() if key not in _OF_CLAIM}
    claim = {key: node[key] for key in _OF_CLAIM if key in node}
    if of_claim is not None and "number" in claim:
        claim["number"] = f"{of_claim} ({claim['number']})"
    return {**claim, "check": {"name": options.pop("check", ""), **options}}


def _explain(error: ValidationError) -> str:
    """Return what is wrong, and where. Unknown keys come first."""
    first = min(error.errors(), key=lambda fault: fault["type"] != "extra_forbidden")
    parts = [part for part in first["loc"] if isinstance(part, int) or part.isidentifier()]  # others are types
    place = "".join(f"[{part}]" if isinstance(part, int) else f": {part}" for part in parts)
    if first["type"] == "extra_forbidden":
        near = closest_name(str(first["loc"][-1]), _WORDS)
        return f"{place}: no such key{f'; did you mean {near}?' if near else ''}".removeprefix(": ")
    given = f"={first['input']}" if isinstance(first["input"], (str, int, float, list)) else ""
    return f"{place}{given}: {first['msg'].removeprefix('Value error, ')}".removeprefix(": ")
