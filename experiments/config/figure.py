"""From a figure of conf/figure to what it is and to its runs; what would fail only once these are done is refused."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from functools import partial
from itertools import product
from typing import Any, TypeVar

from common.errors import UsageError
from common.names import unknown
from experiments.config import signatures
from experiments.config.compose import Config, split
from experiments.config.run import check_text, load_run, path_name
from experiments.config.schema import Reproduction, RunConfig
from experiments.config.values import check_keys, checked, held
from plots.claims.claims import CHECKS, methods_of
from plots.figure.derive import DERIVATIONS
from plots.figure.look import MOST, Look
from plots.figure.spec import Claim, Derivation, Figure, Panel, Target, Times
from plots.runs.columns import higher_is_better, misspelt, x_axes
from plots.runs.network import FORMS, Network

BUDGETS = ("full", "large", "medium", "quick")
"""The largest first."""

_ABOUT_CLAIM = [one.name for one in fields(Claim) if one.name != "options"]
_KEYS = [*(one.name for one in fields(Figure) if one.name not in ("budget", "seeds")), "budgets", "of_claim"]

Spec = TypeVar("Spec")


def asked_of(config: Config) -> Reproduction:
    """What a resolved configuration of conf/reproduce.yaml asks for. Raises UsageError."""
    return Reproduction(figure=config["figure"], **checked(Reproduction, config))


def read(asked: Reproduction, pick: Callable[[Sequence[Figure]], Figure]) -> Figure:
    """The figure that is asked for, its budget chosen, by `pick` where that is `auto`, and its seeds set.

    These are an axis of its grid, but where step sizes are chosen on another one (experiments.planning.held_out).
    What is null counts as left out. Raises UsageError for a budget that the figure does not have, and for anything
    that could not be drawn or judged.
    """
    if not isinstance(asked.figure, Mapping):
        raise UsageError(f"figure={asked.figure}: must be one of conf/figure/, or have keys of its own")
    check_text(asked.figure, "figure", allowed="\n")
    node = {key: value for key, value in asked.figure.items() if value is not None}
    place = f"figure={node.get('name', '')}"
    check_keys(node, _KEYS, place, ("name",))
    path_name(node["name"], "figure.name")
    budgets = node.pop("budgets", {})
    for name, settings in budgets.items():
        check_keys(settings, _KEYS, f"{place}: budgets.{name}")
    if budgets:
        check_keys(budgets, BUDGETS, f"{place}: budgets", ("full", "quick"))
    if asked.budget == "auto":
        names: list[str | None] = [name for name in BUDGETS if name in budgets] or [None]
    elif asked.budget in budgets:
        names = [asked.budget]
    else:
        has = f"has {', '.join(budgets)}" if budgets else "has one setting only; leave it out"
        raise UsageError(f"budget={asked.budget}: {place} {has}")
    figures = []
    for name in names:
        chosen = budgets[name] if name else {}
        overrides = [*node.get("overrides", []), *(chosen.get("overrides") or [])]
        figure = _figure({**node, **chosen, "overrides": overrides, "name": node["name"]}, name, place)
        figures.append(_seeded(figure, asked.seeds, place))
    return figures[0] if len(figures) == 1 else pick(figures)


def _seeded(figure: Figure, seeds: object, place: str) -> Figure:
    """The figure with the seeds that are asked for, if any are. Raises UsageError."""
    if seeds is None:
        return figure if figure.held_out is None else replace(figure, seeds=(0,))
    if not isinstance(seeds, list) or not seeds or len(set(map(str, seeds))) < len(seeds):
        raise UsageError(f"seeds={seeds}: must be a list of different whole numbers, [0,1,2] say")
    if figure.held_out is None:
        return replace(figure, grid=(*figure.grid, tuple(f"seed={seed}" for seed in seeds)))
    if str(figure.held_out) in map(str, seeds):
        raise UsageError(
            f"seeds={seeds}: {place} chooses step sizes on seed {figure.held_out}, so nothing is judged on it"
        )
    return replace(figure, seeds=tuple(seeds))


def runs(figure: Figure, overrides: Sequence[str], packages: Sequence[str] = ()) -> list[RunConfig]:
    """The runs of a figure in the order of `combinations`, with overrides and users' packages for all of them.

    packages: those that the command line let in; neither a figure nor its overrides can.
    Raises UsageError for a wrong key of any of them, and for what the figure could not show of them.
    """
    place = f"figure={figure.name}"
    lines = combinations(figure.grid)
    for text in split([*figure.overrides, *overrides, *(text for line in lines for text in line)], ["packages"])[0]:
        raise UsageError(f"{place}: {text}: a package is let in by the command line alone, beside figure=")
    ours = {text.partition("=")[0] for line in lines for text in line}
    for text in overrides:
        if text.partition("=")[0] in ours:
            raise UsageError(f"{text}: the figure itself sets this key, differently for each of its runs")
    also = [one.name for one in fields(Reproduction)]
    let_in = [f"packages=[{','.join(packages)}]"] if packages else []
    found = [load_run([*let_in, *figure.overrides, *line, *overrides], also) for line in lines]
    methods = {run.algorithm.name for run in found}
    for claim in figure.claims:
        if not methods_of(claim) <= methods:
            missing = ", ".join(sorted(methods_of(claim) - methods))
            raise UsageError(f"claim {claim.number} is about {missing}: not among the figure's algorithms")
    tasks, drawn = {run.task.name for run in found}, {panel.task for panel in figure.rows}
    for key, some in (("rows", figure.rows), ("targets", figure.targets)):
        for one in some:
            if one.task is not None:
                _named(one.task, tasks, f"{place}: {key}: task")
    if drawn and None not in drawn and not tasks <= drawn:
        raise UsageError(f"{place}: rows: {', '.join(sorted(tasks - drawn))}: has no panel, so it would not be drawn")
    for some in figure.families:
        for name in some:
            _named(name, methods, f"{place}: families")
    if figure.families and not methods <= {name for some in figure.families for name in some}:
        missing = ", ".join(sorted(methods - {name for some in figure.families for name in some}))
        raise UsageError(f"{place}: families: {missing}: in none of them, so it would not be drawn")
    for run in found if figure.published else ():
        name = run.algorithm.name
        if name not in figure.published:
            raise UsageError(f"{place}: published has no step size of {name}; give every method one, or none")
        if figure.held_out is None and figure.published[name] not in run.lr:
            raise UsageError(f"{place}: published.{name}={figure.published[name]}: not among {list(run.lr)}")
    if figure.step_size != "best" and not any(figure.step_size in run.lr for run in found):
        raise UsageError(f"{place}: step_size={figure.step_size}: none of its runs has this one among its lr")
    places = [run.rounds for run in found]  # which tell runs of a method apart
    if any(panel.x == "batch_size" for panel in figure.rows):
        places = [run.task.options.get("batch_size") for run in found]
        if None in places:
            task = found[places.index(None)].task.name
            raise UsageError(f"{place}: rows: x=batch_size: {task} has none, so it would not be drawn")
    curves = [
        (run.task.name, run.algorithm.name, at, run.seed, lr)
        for run, at in zip(found, places, strict=True)
        for lr in run.lr
    ]
    for curve, times in Counter(curves).items():
        if times > 1:
            task, method, *_ = curve
            raise UsageError(
                f"{method} on {task} stands twice in the figure: its curves would become one; give the runs "
                "different task.name or algorithm.name"
            )
    return found


def combinations(grid: Iterable[Sequence[str]]) -> list[list[str]]:
    """One entry of every axis, in every way, as overrides; spaces tell those of an entry apart, and values may hold
    some too."""
    return [
        [override for entry in entries for override in re.split(r"\s+(?=[^\s=]+=)", entry.strip())]
        for entries in product(*grid)
    ]


def _figure(node: Config, budget: str | None, place: str) -> Figure:
    """The figure of a node whose budget was chosen."""
    check_keys(node, _KEYS, place, ("name", "title", "grid", "times" if "times" in node else "rows"))
    of_claim = node.pop("of_claim", None)
    readers = {
        "rows": _panel,
        "claims": partial(_claim, of_claim=of_claim),
        "derive": _derivation,
        "targets": _target,
    }
    parts = {key: _each(reader, node.get(key, []), f"{place}: {key}") for key, reader in readers.items()}
    look = _read(Look, node.get("look", {}), f"{place}: look")
    look.check(f"{place}: look.")
    network = _read(Network, node.get("network", {}), f"{place}: network")
    network.check(f"{place}: network.")
    times = _times(node["times"], f"{place}: times") if "times" in node else None
    own = {"look": look, "network": network, "times": times, "budget": budget}
    figure = _read(Figure, {**node, **parts, **own}, place)
    for some in figure.families:
        if not 1 <= len(some) <= MOST:
            raise UsageError(f"{place}: families: {list(some)}: a panel shows from 1 to {MOST} methods")
    _check_metric(figure.select, f"{place}: select")
    if higher_is_better(figure.select):
        raise UsageError(f"{place}: select={figure.select}: select by one of which less is better")
    if not 0 < figure.trial_share <= 1:
        raise UsageError(
            f"{place}: trial_share={figure.trial_share}: must be a share of the rounds, above 0 and up to 1"
        )
    if not figure.grid or not all(figure.grid) or not (figure.rows or figure.times):
        raise UsageError(f"{place}: its grid and its rows of panels must not be empty")
    over_batches, derived = {panel.x == "batch_size" for panel in figure.rows}, {one.name for one in figure.derive}
    if True in over_batches and (
        False in over_batches or "minimum_over_rounds" not in derived or figure.claims or figure.targets
    ):
        raise UsageError(
            f"{place}: rows: x=batch_size shows a point a run: of all panels, with minimum_over_rounds in derive and "
            "without claims or targets"
        )
    for about, times in Counter(word for one in figure.claims for word in (one.number, one.statement)).items():
        if times > 1:
            raise UsageError(f"{place}: claims: {about}: of {times} claims; each has a number and words of its own")
    if figure.rows and figure.times:
        raise UsageError(f"{place}: times stand in the place of rows; give one of the two")
    return figure


def _panel(node: object, place: str) -> Panel:
    panel = _read(Panel, node, place)
    _named(panel.x, [*x_axes(), "batch_size"], f"{place}: x")
    _check_metric(panel.y, f"{place}: y")
    return panel


def _times(node: object, place: str) -> Times:
    times = _read(Times, node, place)
    _check_metric(times.metric, f"{place}: metric")
    for name in times.topologies:
        _named(name, FORMS, f"{place}: topologies")
    if not times.workers or not times.topologies or min(times.workers) < 1:
        raise UsageError(f"{place}: workers={list(times.workers)}, topologies={list(times.topologies)}: one at least")
    if len(times.bandwidth) != 2 or not 0 < times.bandwidth[0] < times.bandwidth[1]:
        raise UsageError(f"{place}: bandwidth={list(times.bandwidth)}: must be two ends in Mbit/s, the smaller first")
    return times


def _claim(node: object, place: str, of_claim: object) -> Claim:
    """A claim; where its figure's claims are cases of another figure's, it has that one's number before its own."""
    if not isinstance(node, Mapping):
        raise UsageError(f"{place}: must have keys of its own")
    about = {key: str(value) if key == "number" else value for key, value in node.items() if key in _ABOUT_CLAIM}
    options = {key: value for key, value in node.items() if key not in _ABOUT_CLAIM}
    claim = _read(Claim, {**about, "options": options}, place)
    _check_options(_named(claim.check, CHECKS, f"{place}: check"), options, place)
    return claim if of_claim is None else replace(claim, number=f"{of_claim} ({claim.number})")


def _derivation(node: object, place: str) -> Derivation:
    derivation = _read(Derivation, node, place)
    function = _named(derivation.name, DERIVATIONS, f"{place}: name")
    _check_options(function, derivation.options, f"{place}: options")
    return derivation


def _target(node: object, place: str) -> Target:
    target = _read(Target, node, place)
    _check_metric(target.metric, f"{place}: metric")
    return target


def _read(kind: type[Spec], node: object, place: str) -> Spec:
    """A dataclass of plots.figure.spec from its node, lists as tuples. Raises UsageError."""
    known = {one.name: one for one in fields(kind)}  # type: ignore[arg-type]
    required = [name for name, one in known.items() if one.default is one.default_factory is MISSING]
    check_keys(node, known, place, required)
    assert isinstance(node, Mapping)
    for key, value in node.items():
        held(value, str(known[key].type), f"{place}: {key}")
    return kind(**{key: _tuple(value) for key, value in node.items()})


def _check_options(function: Callable, options: Mapping[str, Any], place: str) -> None:
    """Hold the options of what is called with a table against its parameters behind the first."""
    _, *parameters = signatures.options(f"{function.__module__}.{function.__name__}").values()
    required = [one.name for one in parameters if one.default is signatures.REQUIRED]
    check_keys(options, [one.name for one in parameters], place, required)
    for one in parameters:
        if one.name not in options:
            continue
        value, key = options[one.name], f"{place}: {one.name}"
        held(value, one.annotation, key)
        if value == []:
            raise UsageError(f"{key}: names nothing, of which anything would hold")
        if one.name in ("share", "until") and not 0 < value <= 1:
            raise UsageError(f"{key}={value}: must be a share, above 0 and up to 1")
        if one.name in ("within", "alike", "factor", "times") and not value > 0:
            raise UsageError(f"{key}={value}: must be above 0")
        if one.name == "axis":
            _named(value, x_axes(), key)
        for name in _listed(value) if one.name in ("metric", "metrics") else ():
            _check_metric(name, key)


def _check_metric(name: object, place: str) -> None:
    """What a task measures is its own matter, unless it looks like one of ours misspelt."""
    near = misspelt(str(name))
    if near:
        raise UsageError(f"{place}={name}: nothing is called that; did you mean {near}?")


def _named(name: str, there: Any, place: str) -> Any:
    """What goes by a name. Raises UsageError for one that is none."""
    if name not in there:
        raise UsageError(unknown(f"{place}={name}: no such choice", name, there))
    return there[name] if isinstance(there, Mapping) else name


def _each(reader: Callable[[object, str], Spec], nodes: object, place: str) -> list[Spec]:
    """The nodes of a list, each read with its place."""
    if not isinstance(nodes, list):
        raise UsageError(f"{place}={nodes}: must be a list, each with keys of its own")
    return [reader(node, f"{place}[{number}]") for number, node in enumerate(nodes)]


def _listed(value: Any) -> Sequence[str]:
    return [value] if isinstance(value, str) else value


def _tuple(value: Any) -> Any:
    return tuple(map(_tuple, value)) if isinstance(value, list) else value
