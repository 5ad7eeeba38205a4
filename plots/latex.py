r"""Tables for a paper in LaTeX: best step sizes, final metrics and bits to levels.

Include the file by \input. The document needs \usepackage{booktabs}.
"""

from collections.abc import Iterable, Sequence

import pandas as pd

from plots.claims.check import short_exponent
from plots.runs.best import rule_in_words
from plots.runs.columns import higher_is_better, in_words
from plots.runs.results import bits_to_reach, finals, usual_levels
from plots.runs.seeds import describe_axes, has_several_seeds, seeds_in_words

_ESCAPED = str.maketrans({
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}",
})  # fmt: skip


def latex_tables(frame: pd.DataFrame, metric: str = "", x: str = "bits") -> str:
    """Return the tables of rows of `plots.runs.variants.variant_rows`.

    `metric`: empty for each task's own. `x`: the column counted until a level. Raises ValueError for a metric that
    no run has.
    """
    best = finals(frame, metric)
    chosen = frame.merge(best[["task", "algorithm", "lr"]])
    about = f"Best step sizes: {rule_in_words(chosen, metric)}."
    unfinished = [f"{row.label} on {row.task}" for row in best.itertuples() if row.note == "not finished"]
    if unfinished:
        about += f" No step size was finished by every seed; the smallest is shown: {', '.join(unfinished)}."
    parts = [
        "% needs \\usepackage{booktabs}, and XeLaTeX or LuaLaTeX for names with Greek letters",
        _table(best, "task", best["lr"].map("{:g}".format), about),
    ]
    for key, part in best.groupby("metric", sort=False):
        metric = str(key)
        ends = _spread(part, ("final", "final_low", "final_high"))
        negative = part["final_low"] < 0
        mean = "mean" if higher_is_better(metric) or negative.all() else "geometric mean"
        if negative.any() and mean != "mean":
            mean += " (arithmetic if a value is negative)"
        ended = _describe_gaps(chosen[chosen["task"].isin(part["task"])])
        about = f"The {in_words(metric)} at the last evaluation. {_seeds(chosen, part['task'], mean)} {ended}"
        parts.append(_table(part, "task", ends, about))
        for task in part["task"].unique():
            rows = frame[frame["task"] == task]
            if levels := usual_levels(rows, metric):
                reached = bits_to_reach(rows, metric, levels, x)
                goal = f"{in_words(x)} until the {in_words(metric)} reaches a level"
                costs = _spread(reached, (x, f"{x}_min", f"{x}_max"))
                ended = _describe_gaps(chosen[chosen["task"] == task])
                about = f"{rows['task_label'].iloc[0]}: {goal}. {describe_axes(rows).get(x, '')}"
                parts.append(_table(reached, "level", costs, f"{about} {_seeds(rows, [task], 'mean')} {ended}"))
    return "\n".join(parts)


def _seeds(frame: pd.DataFrame, tasks: Iterable[str], mean: str) -> str:
    rows = frame[frame["task"].isin([*tasks])]
    if not has_several_seeds(rows):
        return ""
    return f"Of several seeds ({seeds_in_words(rows)}) the {mean}, with the least and the greatest."


def _describe_gaps(chosen: pd.DataFrame) -> str:
    """A caption's sentences about runs that end before their last planned round, and seeds without a finished run."""
    names = ["label", "task", "seed", "planned_rounds"]
    lasts = chosen.groupby(names, sort=False)["round"].max().reset_index()
    early = [
        f"{label} on {task}, seed {seed}, after round {last} of {planned}"
        for label, task, seed, planned, last in lasts.itertuples(index=False)
        if last < planned
    ]
    missing = chosen[chosen["left_out"] != ""].drop_duplicates(["task", "label"])
    left = [
        f"{label} on {task}, seed{'s' * (',' in seeds)} {seeds}"
        for label, task, seeds in missing[["label", "task", "left_out"]].itertuples(index=False)
    ]
    return " ".join(
        f"{about}: {'; '.join(curves)}." for about, curves in (("Ended early", early), ("Left out", left)) if curves
    )


def _spread(rows: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """Means as text, with the least and the greatest if these differ."""
    values = rows.reindex(columns=list(names)).astype(float).itertuples(index=False)
    return [
        "--" if mean != mean else short_exponent(f"{mean:.3g}" + (f" [{low:.3g}, {high:.3g}]" if low < high else ""))
        for mean, low, high in values
    ]


def _table(rows: pd.DataFrame, across: str, cells: Sequence[str] | pd.Series, caption: str) -> str:
    """A LaTeX table: a row for each method, a column for each task or level."""
    grid = rows.assign(cell=cells).pivot(index="label", columns=across, values="cell").fillna("--")
    grid = grid.reindex(index=list(rows["label"].unique()), columns=list(rows[across].unique())).rename(columns=str)
    style = grid.rename_axis(index=None, columns="Method").style
    style = style.format_index(escape="latex").format_index(escape="latex", axis=1)
    form, words = "l" + "r" * grid.shape[1], " ".join(caption.split()).translate(_ESCAPED)
    return style.to_latex(hrules=True, caption=words, position_float="centering", column_format=form)
