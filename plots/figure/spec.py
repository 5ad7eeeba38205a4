"""The specification of a figure: its panels, runs and claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Gt, Le, Len, MinLen
from pydantic import Field

from plots.claims.check import Metric
from plots.claims.claims import Claim
from plots.figure.derive import Derivation
from plots.runs.columns import Axis, higher_is_better
from plots.runs.network import Network, Topology
from plots.runs.options import Options

ROOT = Path(__file__).resolve().parents[2]

MOST = 7
"""The most curves that can be told apart in a panel. More are split over blocks of panels."""


class Panel(Options):
    """The column y over the column x. `guide` is the slope of a dotted line.

    Curves are cut beyond y_min or y_max. With both, every task's panel has that range. `task`: the only task with
    this panel; None for all.
    """

    x: Axis | Literal["batch_size", "bandwidth"]
    y: Metric
    x_scale: Literal["linear", "log"] = "linear"
    y_scale: Literal["linear", "log"] = "log"
    y_min: float | None = None
    y_max: float | None = None
    guide: float | None = None
    task: str | None = None

    def shows(self, task: str) -> bool:
        """Whether a task has this panel. Its name may end in a protocol."""
        return self.task in (None, task.partition(" · ")[0])


class Times(Options):
    """Modelled seconds until `metric` is at `level` or beyond, over the bandwidth of every link in Mbit/s (its ends).

    There is a panel for each number of workers, and a line for each method and topology. Claims are judged by the
    CSV `measured` of measured rounds. Its path is relative to the project's folder; `plots.figure.times` reads it.
    """

    metric: Metric
    level: float
    workers: Annotated[tuple[Annotated[int, Gt(0)], ...], MinLen(1)] = (8, 64, 1024)
    bandwidth: Annotated[tuple[Annotated[float, Gt(0)], ...], Len(2, 2)] = (10.0, 1e5)
    topologies: Annotated[tuple[Topology, ...], MinLen(1)] = ("sharded", "ring")
    measured: str = ""

    def model_post_init(self, context: Any, /) -> None:
        if self.bandwidth[0] >= self.bandwidth[1]:
            raise ValueError("bandwidth: give the smallest first, then the greatest")
        if self.measured and not (ROOT / self.measured).is_file():
            raise ValueError(f"measured={self.measured}: no such file in the project's folder")


class Figure(Options):
    """A figure with a chosen budget.

    Args:
        grid: every combination of its axes is a run; an entry sets one key or, separated by spaces, several.
        overrides: of every run.
        rows: its panels, with a column for each task.
        times: modelled seconds over bandwidth, in place of rows.
        network: the network of modelled seconds.
        select: the metric that chooses a method's best step size; empty for the task's own.
        step_size: the step size to draw.
        note: a remark that marks the figure.
        needs: requirements of its runs, shown to those who run a smaller budget.
        published: each algorithm's published step size, a second protocol besides best step sizes.
        published_as: the name of this protocol in panels and tables.
        families: algorithms drawn together, in panels of their own.
        held_out: the seed that chooses the best step sizes. Nothing is judged on it.
        trial_share: the share of the rounds that runs on that seed take.
        trial_overrides: overrides of the runs on that seed.
        seeds: the judged seeds, with `held_out`.
    """

    name: str
    title: str
    grid: Annotated[tuple[Annotated[tuple[str, ...], MinLen(1)], ...], MinLen(1)]
    rows: tuple[Panel, ...] = ()
    times: Times | None = None
    network: Network = Field(default_factory=Network)
    overrides: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    derive: tuple[Derivation, ...] = ()
    select: Metric = ""
    step_size: Literal["best"] | float = "best"
    note: str = ""
    needs: str = ""
    published: Mapping[str, float] = Field(default_factory=dict)
    published_as: str = "paper's"
    families: tuple[Annotated[tuple[str, ...], Len(1, MOST)], ...] = ()
    held_out: int | None = None
    trial_share: Annotated[float, Gt(0), Le(1)] = 1.0
    trial_overrides: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    budget: str | None = None

    def model_post_init(self, context: Any, /) -> None:
        if bool(self.rows) == (self.times is not None):
            raise ValueError("a figure has either rows of panels or times")
        if higher_is_better(self.select):
            raise ValueError(f"select={self.select}: choose a metric where lower is better")
        for word, times in Counter(word for one in self.claims for word in (one.number, one.statement)).items():
            if times > 1:
                raise ValueError(f"claims: {word}: stands {times} times; numbers and statements must differ")
