"""Create a figure's page in wandb: a report with its panels over the logged runs.

    python -m experiments.dashboard figure=figure_3 budget=medium        # default: full
    python -m experiments.dashboard figure=figure_2 logger.entity=my_team logger.project=mine

For every task the page has the figure's panels, and bars of the bits to each of `logger.targets`. Each method and
step size has one line: the mean over seeds, between the least and the greatest. Runs are selected by their ids, so
later runs appear too. Every call creates a new page.

Keys are those of experiments.reproduce and of conf/logger/wandb.yaml.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from common.errors import RunError, UsageError, exit_with_message
from experiments.config import identity
from experiments.config.compose import compose, packages_of, resolve, split
from experiments.config.messages import explain_hydra_errors
from experiments.config.run import load_run
from experiments.config.schema import RunConfig
from experiments.figures.configuration import read_figure, reproduction_of
from experiments.figures.runs import runs_of
from experiments.loggers.logger import build_logger, one_line, wandb_name
from experiments.loggers.wandb_logger import WandbLogger, bits_to, group, ids, mode_and_reason
from experiments.reproduce import move_overrides
from plots.figure.spec import Figure, Panel
from plots.request import parse_words
from plots.runs.columns import column, in_words

WIDTH, HEIGHT = 12, 8  # of a panel; a page is 24 wide


def page(figure: Figure, runs: Sequence[RunConfig], logger: WandbLogger, entity: str) -> Any:
    """Build a figure's report, with its panels for every task and number of workers of its runs."""
    import wandb_workspaces.reports.v2.interface as wr
    from wandb_workspaces import expr

    curves = {(run.algorithm.name, lr) for run in runs for lr in run.lr}
    keys = ["config.algorithm.name", *["config.lr"] * (len(curves) > len({name for name, _ in curves}))]
    sections: dict[str, list[str]] = defaultdict(list)
    for run in runs:
        name = group(run.study or figure.name, run.task.name, run.cluster.workers)
        sections[name] += ids(identity.folder(run), run.lr)
    place: dict[str, Any] = {"entity": entity, "project": logger.project}
    blocks: list[Any] = []
    for name, members in sections.items():  # by id: runs that another figure began are in its group
        of_run = expr.And(expr.Metric("ID").isin(members))
        runset = wr.Runset(name=name, filters=of_run, groupby=keys, **(place if entity else {}))
        blocks += [wr.H2(text=name), wr.PanelGrid(runsets=[runset], panels=_panels(figure.rows, logger.targets))]
    return wr.Report(**place, title=figure.title[:128], description=figure.note, blocks=blocks, width="fluid")


def _panels(rows: Sequence[Panel], targets: Mapping[str, list[float]]) -> list[Any]:
    import wandb_workspaces.reports.v2.interface as wr

    over_seeds: dict[str, Any] = {"groupby_aggfunc": "mean", "groupby_rangefunc": "minmax"}
    panels: list[Any] = [
        wr.LinePlot(
            title=f"{in_words(row.y)} over {in_words(row.x)}",
            x=wandb_name(row.x),
            y=[wandb_name(row.y)],
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
            title=f"bits to {in_words(metric)} {level:g}",
            metrics=[bits_to(metric, level)],
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
    given = parse_words("experiments.dashboard", __doc__, arguments)
    with exit_with_message():
        of_logger, others = split(given, ["logger"])
        logger = build_logger(load_run(["logger=wandb", *of_logger]))
        assert isinstance(logger, WandbLogger)
        figure, runs = figure_and_runs(others)
        try:
            print(f"dashboard: {_create(figure, runs, logger)}")
        except ImportError as error:
            raise UsageError(f"{one_line(error)}; pip install wandb-workspaces") from error


def figure_and_runs(overrides: Sequence[str]) -> tuple[Figure, list[RunConfig]]:
    """Return the figure without derived panels, and its runs without trials of step sizes."""
    overrides = move_overrides(overrides)
    with explain_hydra_errors(overrides, "reproduction"):
        asked = reproduction_of(resolve(compose(overrides, "reproduction", packages_of(overrides))))
    figure = read_figure(asked, lambda candidates: candidates[0])
    shown = tuple(row for row in figure.rows if column(row.y).filled_by != "figure")
    if len(shown) < len(figure.rows):
        print("left out: panels of columns that are derived from several runs")
    figure = figure.replace(rows=shown)
    if figure.held_out is None:
        return figure, runs_of(figure, asked.overrides, asked.packages)
    from experiments.figures import held_out  # imports torch

    both, is_known = held_out.both_steps(figure, asked.overrides, asked.packages)
    judged = [run for run in runs_of(both, (), asked.packages) if run.seed != figure.held_out]
    missing = "best step sizes are not known yet; experiments.reproduce runs the trials that choose them"
    if not judged:
        raise UsageError(f"figure={figure.name}: {missing}")
    if not is_known:
        print(missing)
    return figure, judged


def _create(figure: Figure, runs: Sequence[RunConfig], logger: WandbLogger) -> str:
    import wandb

    mode, reason = mode_and_reason(logger.mode)
    if mode != "online":
        raise UsageError(f"wandb is {mode}, {reason}: log in to create the page")
    try:
        return page(figure, runs, logger, logger.entity or wandb.Api(timeout=15).default_entity or "").save().url
    except (wandb.Error, ValueError, OSError) as error:
        raise RunError(f"wandb: {one_line(error)}") from error


if __name__ == "__main__":
    main()
