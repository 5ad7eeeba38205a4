"""What a figure of conf/figure may say: anything else would fail only once all its runs are done."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import get_args, get_origin

from common.errors import UsageError
from experiments.config.compose import Config, check_keys, unknown
from experiments.config.run import path_name
from experiments.sweep.launching import check_grid
from plots.claims.claims import CHECKS, DESCRIPTION
from plots.figure.derive import DERIVATIONS
from plots.runs.best import mark_best
from plots.runs.columns import axes, misspelt
from plots.runs.levels import bits_to_reach

REQUIRED = ("name", "title", "grid", "rows")

KEYS = (
    *("name", "title", "note", "grid", "overrides", "budgets", "rows", "claims", "derive", "select", "step_size"),
    *("targets", "of_claim"),
)

BUDGETS = ("full", "quick")

_SCALES = ("linear", "log")
_WANTED = {str: "text", float: "a number", int: "a whole number"}


def completed(figure: object) -> Config:
    """The figure with all that it needs not say, without what is null; its keys are known. Raises UsageError."""
    if isinstance(figure, dict):
        figure = {key: value for key, value in figure.items() if value is not None}
    place = f"figure={figure['name']}" if isinstance(figure, dict) and "name" in figure else "figure"
    check_keys(figure, KEYS, place, ("name",))
    figure = {"note": None, "overrides": [], "budgets": {}, **figure}
    if figure["budgets"]:
        check_keys(figure["budgets"], BUDGETS, f"{place}: budgets", BUDGETS)
    for name, settings in figure["budgets"].items():
        check_keys(settings, KEYS, f"{place}: budgets.{name}")
    return figure


def check_figure(figure: Config) -> None:
    """Raise UsageError for anything in a figure, its budget chosen, that could not be drawn or judged."""
    place = f"figure={figure['name']}"
    check_keys(figure, KEYS, place, REQUIRED)
    path_name(figure["name"], "figure.name")
    _check_type(figure["title"], str, f"{place}: title")
    check_grid(figure, f"{place}: figure")
    if figure.get("step_size", "best") != "best":
        _check_type(figure["step_size"], float, f"{place}: step_size")
    for number, panel in enumerate(_nodes(figure["rows"], f"{place}: rows")):
        _check_panel(panel, f"{place}: rows[{number}]")
    for claim in _nodes(figure.get("claims", []), f"{place}: claims"):
        _check_claim(claim, f"{place}: claim {claim.get('number', 'without a number')}")
    for derivation in _nodes(figure.get("derive", []), f"{place}: derive"):
        check_keys(derivation, ("name", "options"), f"{place}: derive", ("name",))
        function = _named(derivation["name"], DERIVATIONS, f"{place}: derive.name")
        _check_options(function, derivation.get("options") or {}, f"{place}: derive.options")
    targets = figure.get("targets", [])
    for target in _nodes(targets if isinstance(targets, list) else [targets], f"{place}: targets"):
        _check_options(bits_to_reach, target, f"{place}: targets")
    for select in _nodes([figure.get("select", {})], f"{place}: select"):
        _check_options(mark_best, select, f"{place}: select")


def _check_panel(panel: Config, place: str) -> None:
    """One of the rows of panels."""
    check_keys(panel, ("x", "x_scale", "y", "y_scale", "y_min", "y_max", "guide"), place, ("x", "y"))
    _check_column("axis", panel["x"], f"{place}: x")
    _check_type(panel["y"], str, f"{place}: y")
    _check_column("metric", panel["y"], f"{place}: y")
    for key in ("x_scale", "y_scale"):
        _named(panel.get(key, "log"), dict.fromkeys(_SCALES), f"{place}: {key}")
    for key in ("y_min", "y_max", "guide"):
        if key in panel:
            _check_type(panel[key], float, f"{place}: {key}")


def _check_claim(claim: Config, place: str) -> None:
    for key in ("number", "statement", "check"):
        if key not in claim:
            raise UsageError(f"{place}: has no {key}")
    check = _named(claim["check"], CHECKS, f"{place}: check")
    if not isinstance(claim.get("negated", False), bool):
        raise UsageError(f"{place}: negated={claim['negated']}: true or false")
    _check_options(check, {key: value for key, value in claim.items() if key not in DESCRIPTION}, place)


def _check_options(function: Callable, options: object, place: str) -> None:
    """Hold the options of what is called with a table against its parameters behind the first."""
    _, *parameters = inspect.signature(function, eval_str=True).parameters.values()
    required = [parameter.name for parameter in parameters if parameter.default is parameter.empty]
    check_keys(options, [parameter.name for parameter in parameters], place, required)
    for parameter in parameters:
        if parameter.name in options:
            key = f"{place}: {parameter.name}"
            _check_type(options[parameter.name], parameter.annotation, key)
            _check_column(parameter.name, options[parameter.name], key)


def _check_type(value: object, annotation: type, place: str) -> None:
    several = get_origin(annotation) is list
    kind = get_args(annotation)[0] if several else annotation
    classes = (int, float) if kind is float else kind
    values = value if several and isinstance(value, list) else [value]
    if several != isinstance(value, list) or any(
        isinstance(some, bool) or not isinstance(some, classes) for some in values
    ):
        raise UsageError(f"{place}={value}: must be {'a list, each ' if several else ''}{_WANTED[kind]}")


def _check_column(option: str, value: object, place: str) -> None:
    """An axis is one of few. What a task measures is its own matter, unless it looks like one of ours misspelt."""
    if option == "axis":
        _named(value, dict.fromkeys(axes()), place)
    elif option in ("metric", "metrics"):
        for name in value if isinstance(value, list) else [value]:
            near = misspelt(str(name))
            if near:
                raise UsageError(f"{place}={name}: nothing is called that; did you mean {near}?")


def _named(name: object, there: dict, place: str) -> object:
    if not isinstance(name, str) or name not in there:
        raise UsageError(unknown(place, str(name), there))
    return there[name]


def _nodes(value: object, place: str) -> list[Config]:
    if not isinstance(value, list) or not all(isinstance(node, dict) for node in value):
        raise UsageError(f"{place}={value}: must be a list, each with keys of its own")
    return value
