"""The words below a figure."""

import pandas as pd

from plots.figure.derive import ByStepSize
from plots.figure.spec import Figure
from plots.runs.best import on_edge, rule_in_words
from plots.runs.columns import ABOUT_BITS, in_words
from plots.runs.seeds import about_runs, in_order, repeated

_NAMED = 4
"""Best step sizes on the edge of their grid that a caption names. Of more it says how many; the report names all."""


def caption(figure: Figure, shown: pd.DataFrame, tried: pd.DataFrame) -> str:
    """The text below the panels of the rows `shown`, with best step sizes from `tried`."""
    about = [f"{figure.title}."]
    if any(panel.x == "modelled_seconds" for panel in figure.rows):
        about.append(f"Modelled: {figure.network.in_words()}.")
    about += [ABOUT_BITS[x] for x in dict.fromkeys(panel.x for panel in figure.rows) if x in ABOUT_BITS]
    if precisions := sorted(shown["precision"].dropna().unique()):
        about.append(f"Products in {' or '.join(precisions)}, also in evaluations.")
    curves = [*_step_sizes(figure, tried), *_seeds(figure, shown), *_beyond(figure, shown)]
    if ended := _diverged(shown):
        curves.append(f"Diverged: {', '.join(ended)}.")
    said = "\n".join([" ".join(about), " ".join(curves)]).replace("e-0", "e-")
    return f"{figure.note}\n{said}" if figure.note else said


def _step_sizes(figure: Figure, tried: pd.DataFrame) -> list[str]:
    if figure.step_size != "best":
        return [f"All methods with step size {figure.step_size:g}."]
    if was_selected(tried):
        which = "Best is" if figure.published else "Each method with"
        return [f"{which} {rule(figure, tried)}.", *_edges(tried)]
    if any(isinstance(one, ByStepSize) for one in figure.derive):
        return ["A curve for each step size."]
    return ["Each method with the one step size it was given."]


def _edges(tried: pd.DataFrame) -> list[str]:
    edge = on_edge(tried)
    first = tried.drop_duplicates(["task", "algorithm"]).set_index(["task", "algorithm"])
    several = tried["task"].nunique() > 1
    names = first["label"] + (" on " + first["task_label"] if several else "")
    if not edge:
        return []
    few = len(edge) <= _NAMED
    named = ", ".join(names.loc[edge]) if few else f"{len(edge)} of {len(first)} best step sizes"
    return [f"On the edge of what was tried: {named}."]


def _seeds(figure: Figure, shown: pd.DataFrame) -> list[str]:
    if not repeated(shown):
        return []
    is_log = any(panel.y_scale == "log" for panel in figure.rows)
    means = f"means over seeds {in_order(shown['seed'])}{', geometric on logarithmic axes,' * is_log}"
    return [f"Lines are {means} and bands go from the least to the greatest."]


def _beyond(figure: Figure, shown: pd.DataFrame) -> list[str]:
    """Which quantities go on beyond their panels' ranges, and whose are 0 on a logarithmic axis, in words."""
    said = []
    for panel in figure.rows:
        there, name = shown[shown["task"].map(panel.shows)], in_words(panel.y)
        greatest = there.groupby("label", sort=False)[panel.y].max()
        if panel.y_max is not None and greatest.max() > panel.y_max:
            said.append(f"The {name} goes on above {panel.y_max:g}.")
        if panel.y_min is not None and there[panel.y].min() < panel.y_min:
            said.append(f"The {name} goes on below {panel.y_min:g}.")
        if panel.y_scale == "log" and (names := list(greatest[greatest == 0].index)):
            said.append(f"The {name} of {', '.join(names)} is 0.")
    return list(dict.fromkeys(said))


def is_diverged(shown: pd.DataFrame) -> pd.Series:
    """Whether a row's curve ends before the last round of its runs."""
    each = shown.groupby(["task", "algorithm"])
    return each["round"].transform("max") < each["planned_rounds"].transform("max")


def _diverged(shown: pd.DataFrame) -> list[str]:
    """Whose curves end before the last round of their runs, and where, in words."""
    several, said = shown["task"].nunique() > 1, []
    for _, rows in shown[is_diverged(shown)].groupby(["task", "algorithm"], sort=False):
        first = rows.iloc[0]
        place = f" on {', '.join(first['task_label'].splitlines())}" if several else ""
        said.append(f"{first['label']}{place} after round {rows['round'].max():g}")
    return said


def note(figure: Figure, shown: pd.DataFrame) -> str:
    """What stands in the picture even where its caption stands outside: what marks it, the budget and the seeds."""
    about = about_runs(shown)
    step = f"Step size α = {figure.step_size:g}" if figure.step_size != "best" else ""
    cross = "Crosses: diverged" * bool(_diverged(shown))
    return ". ".join(filter(None, [figure.note, step, cross, about[:1].upper() + about[1:]]))


def rule(figure: Figure, tried: pd.DataFrame) -> str:
    """What the best step sizes were chosen by."""
    chosen = rule_in_words(tried, figure.select)
    if figure.held_out is None:
        return chosen
    share = f" and {figure.trial_share:.0%} of the rounds" if figure.trial_share < 1 else ""
    return f"{chosen}, on seed {figure.held_out}{share} alone, which is judged nowhere"


def was_selected(frame: pd.DataFrame) -> bool:
    """Whether some method had several step sizes to select from."""
    return bool((frame.groupby(["task", "algorithm"])["lr"].nunique() > 1).any())
