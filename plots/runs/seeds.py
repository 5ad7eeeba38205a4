"""One curve from several seeds."""

import numpy as np
import pandas as pd

from plots.runs.columns import ABOUT_BITS, in_words

BITS = ("bits", "bits_up", "bits_down")


def has_several_seeds(frame: pd.DataFrame) -> bool:
    """Whether any method has more than one seed on a task."""
    return bool((frame.groupby(["task", "algorithm"])["seed"].nunique() > 1).any())


def describe_runs(frame: pd.DataFrame) -> str:
    """Describe the early ends, rounds and seeds of curves, for a picture's note."""
    ends = frame.groupby(["task", "algorithm"])["round"].max()
    rounds = f"{ends.min()}" if ends.nunique() == 1 else f"Up to {ends.max()}"
    crosses = "Crosses: diverged. " * bool(ends_early(frame, stopped=False).any())
    stopped = "; ".join(list_early_ends(frame, stopped=True))
    rounds = crosses + f"Stopped: {stopped}. " * bool(stopped) + rounds
    if has_several_seeds(frame):
        return f"{rounds} rounds; means over seeds {seeds_in_words(frame)}, bands from the least to the greatest."
    seeds = join_sorted(frame["seed"])
    return f"{rounds} rounds; one seed{' a curve' if ',' in seeds else f' ({seeds})'}."


def ends_early(shown: pd.DataFrame, stopped: bool) -> pd.Series:
    """Whether a row's curve ends before its runs' last round, because a run was stopped or still runs (`stopped`), or
    diverged."""
    each = shown.groupby(["task", "algorithm"])
    was_stopped = each["stopped"].transform("any") if "stopped" in shown else False
    return (each["round"].transform("max") < each["planned_rounds"].transform("max")) & (was_stopped == stopped)


def list_early_ends(shown: pd.DataFrame, stopped: bool) -> list[str]:
    """List the curves that end before their runs' last round, with the round."""
    several, ends = shown["task"].nunique() > 1, []
    for _, rows in shown[ends_early(shown, stopped)].groupby(["task", "algorithm"], sort=False):
        first = rows.iloc[0]
        place = f" on {', '.join(first['task_label'].splitlines())}" if several else ""
        ends.append(f"{first['label']}{place} after round {rows['round'].max():g}")
    return ends


def describe_hidden(frame: pd.DataFrame, y: str) -> str:
    """Name the methods that a logarithmic axis cannot show, in a sentence. Empty if there are none."""
    values = frame.groupby("label", sort=False)[y].agg(["min", "max"])
    hidden = values[values["max"] <= 0]
    how = "0" if (hidden["min"] == 0).all() else "nowhere above 0"
    return f"The {in_words(y)} of {', '.join(hidden.index)} is {how}." if len(hidden) else ""


def seeds_in_words(frame: pd.DataFrame) -> str:
    """List the seeds of curves. If these differ, each list names its curves."""
    curves = frame.drop_duplicates(["task", "label", "seed"]).groupby(["task", "label"], sort=False)
    seeds = curves["seed"].agg(join_sorted)
    if seeds.nunique() == 1:
        return seeds.iloc[0]
    differs = seeds.groupby("label").transform("nunique") > 1
    names = [f"{label} on {task}" if differs[task, label] else label for task, label in seeds.index]
    lists = pd.Series(names).groupby(seeds.to_numpy(), sort=False).agg(lambda curves: " and ".join(curves.unique()))
    return "; ".join(f"{numbers} ({of})" for numbers, of in lists.items())


def describe_axes(frame: pd.DataFrame) -> dict[str, str]:
    """A caption's sentences about axes. With `cluster.groups` a group communicates as one worker."""
    grouped = frame["groups"].notna() if "groups" in frame else pd.Series([False])
    who = ["one worker"] * (not grouped.all()) + ["one group of workers"] * bool(grouped.any())
    about = {axis: text.format(" or ".join(who)) for axis, text in ABOUT_BITS.items()}
    if "trials" in frame and (frame["trials"] > 1).any():
        about["seconds"] = "Seconds are those of all step sizes that a run trained together."
    return about


def join_sorted(values: pd.Series) -> str:
    """Join the distinct numbers of a column, sorted, by commas."""
    return ", ".join(f"{value:.12g}" for value in sorted(values.unique()))


def geometric_mean(values: np.ndarray, axis: int | None = None) -> np.ndarray:
    """exp of the mean logarithm; 0 if a value is 0, NaN if one is missing or negative."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.exp(np.log(values).mean(axis))


def average_seeds(curve: pd.DataFrame, x: str, y: str, geometric: bool) -> pd.DataFrame:
    """Average one method's y over seeds: columns x, mean, low (the least) and high (the greatest), sorted by round.

    With one seed all three are its curve. If one seed has no value, all three are missing. Over `batch_size` a point
    is a run, sorted by batch size; runs without one are left out. Raises ValueError unless all seeds were evaluated
    at the same rounds with the same x: a mean would compare different places.
    """
    place = x if x == "batch_size" else "round"
    curve = curve[curve[place].notna()]
    if curve.empty:
        return pd.DataFrame(columns=["x", "mean", "low", "high"], dtype=float)
    each, seeds = np.unique(curve["seed"]), curve["seed"].nunique()
    order = np.lexsort([curve["seed"], curve[place]])[: len(curve) // seeds * seeds]
    of_seeds, points, xs, values = (
        curve[name].to_numpy()[order].reshape(-1, seeds) for name in ("seed", place, x, y)
    )
    same = (of_seeds == each) & (points == points[:, :1]) & ((xs == xs[:, :1]) | (xs != xs))  # a missing x is NaN
    if len(curve) % seeds or not same.all():
        raise ValueError(
            f"{curve['algorithm'].iloc[0]} on {curve['task'].iloc[0]}: seeds {join_sorted(curve['seed'])} were not "
            f"evaluated at the same rounds and {x}, so they have no mean; run them with the same rounds and "
            "eval_every"
        )
    values = values.astype(float)
    mean = values.mean(1) if seeds == 1 or not geometric else geometric_mean(values, 1)
    return pd.DataFrame({"x": xs[:, 0], "mean": mean, "low": values.min(1), "high": values.max(1)})


def keep_common_rounds(frame: pd.DataFrame) -> pd.DataFrame:
    """Drop the rounds that some seed of a curve did not reach, because they have no mean over seeds."""
    curve = ["task", "algorithm", "lr"]
    ends = frame.groupby([*curve, "seed"])["round"].transform("max")
    return frame[frame["round"] <= ends.groupby([frame[name] for name in curve]).transform("min")]


def average_costs(frame: pd.DataFrame) -> pd.DataFrame:
    """Replace times and bits by their means over a curve's seeds at that round.

    Seeds take different times for the same rounds, and different bits if a coin decides the message. A curve over
    them has one point for each round.
    """
    costs = [column for column in ("seconds", "modelled_seconds", *BITS) if column in frame]
    curves = frame.groupby(["task", "algorithm", "lr", "round"])
    return frame.assign(**{column: curves[column].transform("mean") for column in costs})
