"""What a figure is: panels, the runs that they show, and the claims that these decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from plots.figure.look import Look
from plots.runs.network import Network


@dataclass(frozen=True, kw_only=True)
class Panel:
    """The column y over the column x; `guide` is a dotted line's slope.

    Curves are cut beyond y_min or y_max; with both, that is the range of every task's panel.

    task: the only one that has this panel; None for all.
    """

    x: str
    y: str
    x_scale: Literal["linear", "log"] = "linear"
    y_scale: Literal["linear", "log"] = "log"
    y_min: float | None = None
    y_max: float | None = None
    guide: float | None = None
    task: str | None = None

    def shows(self, task: str) -> bool:
        """Whether it is a panel of a task, whose name may go on with what tells protocols apart."""
        return self.task in (None, task.partition(" · ")[0])


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A statement that `check` of plots.claims decides with `options`; a negated one holds where its check fails."""

    number: str
    statement: str
    check: str
    negated: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Derivation:
    """A function of plots.figure.derive, which adds columns, and its options."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Target:
    """Levels of a metric, whose bits are tabled, of one task or, where that is None, of all."""

    metric: str
    levels: tuple[float, ...]
    task: str | None = None


@dataclass(frozen=True, kw_only=True)
class Times:
    """Modelled seconds until `metric` is at `level` or beyond, over the bandwidth of every link in Mbit/s, between
    two ends; a panel a number of workers, a line a method and topology.

    measured: a CSV of measured rounds, as `plots.figure.measured` reads it, relative to the project's folder; they
    are drawn in a picture of their own.
    """

    metric: str
    level: float
    workers: tuple[int, ...] = (8, 64, 1024)
    bandwidth: tuple[float, ...] = (10.0, 1e5)
    topologies: tuple[str, ...] = ("sharded", "ring")
    measured: str = ""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure with its budget chosen.

    grid: every combination of its axes is one run; an entry sets one key or, with spaces between, several.
    overrides: of every run. rows: its panels, a column a task; times: modelled ones over bandwidth in their place.
    network: what modelled seconds are of. select: the metric that a method's best step size is
    chosen by, empty for the task's own. step_size: the one that is drawn. note: what marks the figure.
    published: by algorithm the step size of its paper's setting, a protocol beside that of best step sizes;
    published_as: whose they are, in the words of panels and tables.
    families: algorithms that are drawn together, in panels of their own. look: how it fits into a page.
    held_out: the seed that the best are chosen on, and on which nothing is judged. trial_share: of a run's rounds,
    what a run on that seed has. trial_overrides: of those runs alone. seeds: those that are judged then.
    """

    name: str
    title: str
    grid: tuple[tuple[str, ...], ...]
    rows: tuple[Panel, ...] = ()
    times: Times | None = None
    network: Network = field(default_factory=Network)
    overrides: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    derive: tuple[Derivation, ...] = ()
    targets: tuple[Target, ...] = ()
    select: str = ""
    step_size: Literal["best"] | float = "best"
    note: str = ""
    published: Mapping[str, float] = field(default_factory=dict)
    published_as: str = "paper's"
    families: tuple[tuple[str, ...], ...] = ()
    look: Look = field(default_factory=Look)
    held_out: int | None = None
    trial_share: float = 1.0
    trial_overrides: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    budget: str | None = None
