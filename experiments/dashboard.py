"""Create a figure's page in wandb: its panels over the runs that were mirrored there.

    python -m experiments.dashboard figure=figure_3
    python -m experiments.dashboard figure=figure_2 logger.entity=my_team logger.project=mine
    python -m experiments.dashboard figure=figure_2 out=figure_2.json

The page is a report of wandb: for every task of the figure its panels, one line a method and step size, the mean over
seeds between the least and the most, and bars of the bits to each level of conf/logger/wandb.yaml. It shows the
figure's own runs, also those that another figure began, those that are there and those still to come. Every call
creates a new page.

Keys are those of experiments.reproduce and of conf/logger/wandb.yaml; `out` writes the definition to a file instead,
without a network.
"""

import argparse
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

from common.errors import RunError, UsageError, exit_with_message
from experiments.config import figure as figures
from experiments.config import identity
from experiments.config.compose import compose, packages_of, resolved, split
from experiments.config.messages import explained
from experiments.config.run import load_run
from experiments.config.schema import RunConfig
from experiments.loggers.layout import group, ids, name_of, reached
from experiments.loggers.logger import build_logger
from experiments.loggers.service import mode_and_reason, one_line, serving
from experiments.reproduce import moved
from plots.figure.spec import Figure, Panel
from plots.runs.columns import column, higher_is_better, in_words

WIDTH, HEIGHT = 12, 8  # of a panel; a page is 24 wide


def page(figure: Figure, runs: list[RunConfig], chosen: Mapping[str, Any], entity: str = "") -> Any:
    """The report of a figure: its panels, once for every task and number of workers of its runs.

    chosen: the logger's options; entity: whose project it is, where that is to be looked up in wandb.
    """
    import wandb_workspaces.reports.v2.interface as wr
    from wandb_workspaces import expr

    keys = ["config.algorithm.name"]
    if any(len(run.lr) > 1 for run in runs):
        keys.append("config.lr")
    place = {"entity": entity, "project": chosen["project"]}
    parts: dict[str, list[str]] = defaultdict(list)
    for run in runs:
        study = run.study or figure.name
        parts[group(study, run.task.name, run.cluster.workers)] += ids(identity.of(run), run.lr)
    blocks: list[Any] = []
    for name, shared in parts.items():  # by id: a run that another figure began stands in that one's group
        theirs = wr.Runset(
            name=name, filters=expr.And(expr.Metric("ID").isin(shared)), groupby=keys, **(place if entity else {})
        )
        blocks += [wr.H2(text=name), wr.PanelGrid(runsets=[theirs], panels=_panels(figure.rows, chosen["targets"]))]
    about = {"title": figure.title[:128], "description": figure.note}
    return wr.Report(**place, **about, blocks=blocks, width="fluid")


def _panels(rows: Sequence[Panel], targets: Mapping[str, list[float]]) -> list[Any]:
    """A line plot for every row, and bars for the levels of the metrics that they show."""
    import wandb_workspaces.reports.v2.interface as wr

    over_seeds: dict[str, Any] = {"groupby_aggfunc": "mean", "groupby_rangefunc": "minmax"}
    panels: list[Any] = [
        wr.LinePlot(
            title=f"{in_words(row.y)} over {in_words(row.x)}",
            x=name_of(row.x),
            y=[name_of(row.y)],
            log_x=row.x_scale == "log",
            log_y=row.y_scale == "log",
            range_y=(row.y_min, row.y_max),
            title_x=in_words(row.x),
            title_y=in_words(row.y),
            max_runs_to_show=100,
            **over_seeds,
        )
        for row in rows
    ]
    panels += [
        wr.BarPlot(
            title=f"bits to {in_words(metric)} {'≥' if higher_is_better(metric) else '≤'} {level:g}",
            metrics=[reached(metric, level)],
            title_x=in_words("bits"),
            **over_seeds,
        )
        for metric in dict.fromkeys(row.y for row in rows)
        for level in targets.get(metric, [])
    ]
    for place, panel in enumerate(panels):
        panel.layout = wr.Layout(x=place % 2 * WIDTH, y=place // 2 * HEIGHT, w=WIDTH, h=HEIGHT)
    return panels


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line above."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.dashboard",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("overrides", nargs="+", metavar="key=value")
    words = parser.parse_args(arguments).overrides
    with exit_with_message():
        files = [Path(word.removeprefix("out=")) for word in words if word.startswith("out=")]
        of_logger, others = split([word for word in words if not word.startswith("out=")], ["logger"])
        if find_spec("wandb_workspaces") is None:
            raise UsageError("the package wandb-workspaces is not installed; pip install wandb-workspaces")
        overrides = moved(others)
        with explained(overrides, "reproduce"):
            asked = figures.asked_of(resolved(compose(overrides, "reproduce", packages_of(overrides))))
        figure, logging = figures.read(asked, _which), load_run(["logger=wandb", *of_logger])
        build_logger(logging)
        chosen = logging.logger.options
        if not files:
            mode, reason = mode_and_reason(chosen["mode"])
            if mode != "online":
                raise UsageError(
                    f"wandb is {mode}, {reason}: log in to create the page there, or write it to out=FILE.json"
                )
        derived = [row.y for row in figure.rows if column(row.y).filled_by == "figure"]
        figure = replace(figure, rows=tuple(row for row in figure.rows if row.y not in derived))
        if not figure.rows:
            raise UsageError(f"figure={figure.name}: its panels show what is derived from several runs alone")
        if derived:
            print(f"without {', '.join(derived)}, which is derived from several runs")
        runs = figures.runs(figure, asked.overrides, asked.packages)
        if files:
            made = page(figure, runs, chosen)._to_model()
            files[-1].write_text(made.model_dump_json(by_alias=True, exclude_none=True, indent=2) + "\n")
            print(f"dashboard: {files[-1]}")
        else:
            with serving():
                print(f"dashboard: {_create(figure, runs, chosen)}")


def _which(candidates: Sequence[Figure]) -> NoReturn:
    """A page shows the runs of one budget, which nothing is timed for."""
    names = ", ".join(str(figure.budget) for figure in candidates)
    raise UsageError(f"budget: which one? budget={names}")


def _create(figure: Figure, runs: list[RunConfig], chosen: Mapping[str, Any]) -> str:
    """Create the page in wandb; returns its address. Raises RunError where that failed."""
    import wandb

    try:
        entity = chosen["entity"] or wandb.Api(timeout=chosen["init_timeout"]).default_entity
        return page(figure, runs, chosen, entity or "").save().url
    except (wandb.Error, ValueError, OSError) as error:
        raise RunError(f"wandb: {one_line(error)}") from error


if __name__ == "__main__":
    main()
