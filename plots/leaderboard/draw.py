"""Pictures of a ranking: bits with intervals, bits against final metrics, and the curves of all entries."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from plots.figure import curves
from plots.figure.spec import Panel
from plots.leaderboard.ranking import Goals
from plots.runs.columns import in_words, usual_scale
from plots.runs.seeds import average_costs, keep_common_rounds
from plots.runs.variants import DASHES

_DARK = "#0b3a66"
_LEAST = 1e-12  # smaller ends are drawn here: a float32 loss may become 0, and its logarithm would fill the panel
_LINE = 0.17  # inches per entry


def dots(ranking: pd.DataFrame) -> Figure:
    """Bits to each level with 95 % intervals: a panel for each task, a line for each entry.

    The entry with the fewest bits to the hardest level is on top. If some seed missed the level, a hollow arrow marks
    the lower bound.
    """
    tasks, hardest = _by_task(ranking), ranking[ranking["level"] == ranking["level"].max()].drop_duplicates("entry")
    names = {name: place for place, name in enumerate(hardest["entry"])}
    with curves.use_style():
        label_width = 0.2 + curves.LETTER * hardest["label"].str.len().max()
        size = (label_width + max(1.8, 5.2 / len(tasks)) * len(tasks), 1.3 + _LINE * len(names))
        figure, axes = plt.subplots(1, len(tasks), sharey=True, squeeze=False, figsize=size, layout="constrained")
        for axis, (task, rows) in zip(axes[0], tasks.items(), strict=True):
            shades = plt.get_cmap("Blues")(np.linspace(0.4, 1, rows["level"].nunique()))
            for (_, own), shade in zip(rows.groupby("level"), shades, strict=True):
                y, is_there = own["entry"].map(names), own["reached"] == own["runs"]
                high = own["bits_high"].where(is_there, own["bits"])
                axis.hlines(y, own["bits_low"], high, color=shade, linewidth=1.4)
                axis.plot(own["bits"][is_there], y[is_there], "o", color=shade, label=f"{own['target'].iloc[0]:g}")
                hollow = {"fillstyle": "none", "markeredgewidth": 0.9, "markeredgecolor": shade}
                axis.plot(own["bits"][~is_there], y[~is_there], ">", **hollow)
            axis.set(xscale="log", xlabel=in_words("bits"))
            curves.set_log_ticks(axis.xaxis)
            above = f"{task}\n{in_words(rows['metric'].iloc[0])}"
            axis.legend(
                loc="lower center",
                bbox_to_anchor=(0.5, 1),
                ncols=3,
                title=above,
                columnspacing=0.6,
                handletextpad=0,
                handlelength=1,
            )
        axes[0, 0].set_yticks(list(names.values()), hardest["label"])
        axes[0, 0].set_ylim(len(names) - 0.4, -0.6)
    return figure


def front(ranking: pd.DataFrame) -> Figure:
    """All bits of a run against its final metric, in a panel for each task.

    A line joins the entries that no other entry beats in both. Their names stand below, by number.
    """
    tasks = _by_task(ranking)
    with curves.use_style():
        across, down = min(2, len(tasks)), math.ceil(len(tasks) / 2)
        listed = ranking[ranking["front"].eq(True)].drop_duplicates(["task", "entry"])
        wide, lines = curves.LETTER * max([0, *listed["label"].str.len()]), max([0, *listed["task"].value_counts()])
        size = (0.4 + max(3.1, 0.6 + wide) * across, (2.4 + 0.17 * lines) * down)
        figure, axes = plt.subplots(down, across, squeeze=False, figsize=size, layout="constrained")
        for axis in axes.flat[len(tasks) :]:
            axis.remove()
        for axis, (task, rows) in zip(axes.flat, tasks.items(), strict=False):
            rows = rows.drop_duplicates("entry").sort_values("spent")
            rows, metric = rows[np.isfinite(rows["end"])], rows["metric"].iloc[0]
            rows = rows.assign(end=rows["end"].clip(lower=_LEAST))
            best = rows[rows["front"].astype(bool)]
            axis.plot(rows["spent"], rows["end"], "o", color="#999999")
            axis.plot(best["spent"], best["end"], "o-", color=_DARK, drawstyle="steps-post")
            below = [f"{in_words('bits')} of a run"]
            for number, (place, alike) in enumerate(best.groupby(["spent", "end"]), start=1):
                axis.annotate(str(number), place, xytext=(3, 3), textcoords="offset points", fontsize=7)
                below += [f"{number}: {label}" for label in alike["label"]]
            axis.set(title=task, xlabel="\n".join(below), ylabel=in_words(metric))
            if rows.empty:
                axis.set(xticks=[], yticks=[])
                axis.text(0.5, 0.5, "in each entry some seed diverged", ha="center", transform=axis.transAxes)
                continue
            axis.set(xscale="log", yscale=usual_scale(metric))
            axis.margins(0.12)
            curves.set_log_ticks(axis.xaxis)
            curves.set_log_ticks(axis.yaxis)
    return figure


def entry_curves(frame: pd.DataFrame, goals: Goals) -> Figure:
    """The curves of all entries over bits: means over the seeds, up to the first that ends."""
    panels = [
        Panel(x="bits", y=metric, task=task, x_scale=usual_scale("bits"), y_scale=usual_scale(metric))
        for task, (metric, _) in goals.items()
    ]
    shown = average_costs(keep_common_rounds(frame))
    ends = shown.groupby(["task", "algorithm"])["round"].transform("max")
    looks = shown[["algorithm", "color", "marker"]].drop_duplicates("algorithm").set_index("algorithm")
    dash = looks.groupby(["color", "marker"]).cumcount() % len(DASHES)  # of entries of one method
    shown = shown.assign(diverged=ends < shown["planned_rounds"], dash=shown["algorithm"].map(dash))
    note = "Means over seeds up to the first that ends, bands from the least to the greatest."
    return curves.draw(shown, panels, f"{note} Crosses: a seed diverged. Arrows: the curve leaves the panel.")


def _by_task(ranking: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {str(task): rows for task, rows in ranking[ranking["metric"].notna()].groupby("task", sort=False)}
