"""Everything a figure leaves behind: PDF, PNG, the CSV of every curve, and tables of claims and targets."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import matplotlib
import pandas as pd
from rich.console import Console

from common import tables
from plots.claims import claims
from plots.figure import curves, markdown
from plots.figure.derive import DERIVATIONS
from plots.runs import read
from plots.runs.best import mark_best, rule_in_words
from plots.runs.columns import in_words
from plots.runs.levels import bits_to_reach
from plots.runs.seeds import repeated

_HIDDEN = ["label", "color", "marker", "task_label", "selected_by"]


def report(folders: Iterable[Path], figure: dict, target: Path, console: Console) -> None:
    """Draw a figure and judge its claims from run folders into the folder `target`, and show the verdicts.

    Writes <name>.pdf, <name>.png, <name>.csv (every row of every run, those of the drawn curves with drawn = True),
    report.md and, where the figure asks for them, claims.csv and targets.csv.
    """
    matplotlib.use("Agg")
    frame = read.read(folders)
    for derivation in figure.get("derive", []):
        frame = DERIVATIONS[derivation["name"]](frame, **derivation.get("options", {}))
    frame = mark_best(frame, **(figure.get("select") or {}))
    step_size = figure.get("step_size", "best")
    frame["drawn"] = frame["best"] if step_size == "best" else frame["lr"] == step_size
    name = figure["name"]
    target.mkdir(parents=True, exist_ok=True)
    curves.save(curves.draw(frame[frame["drawn"]], figure["rows"], _caption(figure, step_size, frame)), target / name)
    frame.drop(columns=_HIDDEN).to_csv(target / f"{name}.csv", index=False)
    text = _introduction(frame, figure)
    if "targets" in figure:
        text += _targets(frame, figure["targets"], target / "targets.csv")
    if figure.get("claims"):
        findings = claims.judge(frame, figure["claims"])
        findings.to_csv(target / "claims.csv", index=False)
        text += markdown.judged(findings, figure, repeated(frame))
        _show(findings, console)
    (target / "report.md").write_text("\n".join(text) + "\n")
    console.print(f"figure, curves and report: {target}", soft_wrap=True, highlight=False)


def _caption(figure: dict, step_size: str | float, frame: pd.DataFrame) -> str:
    note = f"{_note(figure)}\n" if _note(figure) else ""
    cut = [row["y_min"] for row in figure["rows"] if "y_min" in row]
    bits = (
        " Bits are those of one worker, both directions." if any(row["x"] == "bits" for row in figure["rows"]) else ""
    )
    if step_size != "best":
        chosen = f"All methods with step size {step_size:g}."
    elif _choice(frame):
        chosen = f"Each method with {_rule(figure, frame)}."
    else:
        chosen = "Each method with the one step size it was given."
    seeds = (
        f" Lines are means over seeds {_seeds(frame)}, geometric on logarithmic axes, and bands go from the least to"
        " the greatest."
        if repeated(frame)
        else ""
    )
    above = "".join(
        f" The {in_words(row['y'])} goes on above {row['y_max']:g}."
        for row in figure["rows"]
        if "y_max" in row and frame.loc[frame["drawn"], row["y"]].max() > row["y_max"]
    )
    below = f" Curves go on below {min(cut):g}." if cut else ""
    return note + f"{figure['title']}.{bits}\n{chosen}{seeds}{above}{below}".replace("e-0", "e-")


def _introduction(frame: pd.DataFrame, figure: dict) -> list[str]:
    """What was run, and the step sizes: the best, and all that were tried where no claim's columns name them."""
    differ = _tried(frame).groupby("task").nunique().max() > 1
    return [
        f"# {figure['name']}",
        "",
        f"![{figure['title']}]({figure['name']}.png)",
        "",
        *([f"**{_note(figure)}**", ""] if _note(figure) else []),
        f"{figure['title']}. Up to {frame['round'].max()} rounds, seed{'s' * repeated(frame)} {_seeds(frame)}.",
        "",
        *(markdown.grids(frame) if differ and _choice(frame) and figure.get("claims") else []),
        f"Best step sizes, that is {_rule(figure, frame)}:" if _choice(frame) else "Step sizes, one a method:",
        "",
        *markdown.best_step_sizes(frame),
    ]


def _tried(frame: pd.DataFrame) -> pd.Series:
    """The step sizes that each method was given on each task."""
    return frame.groupby(["task", "algorithm"])["lr"].unique().map(sorted).map(tuple)


def _choice(frame: pd.DataFrame) -> bool:
    """Whether there was anything to select from."""
    return bool((_tried(frame).map(len) > 1).any())


def _targets(frame: pd.DataFrame, asked: dict | list[dict], target: Path) -> list[str]:
    """The tables of one metric or of several, and targets.csv, where several stand below each other."""
    if isinstance(asked, dict):
        reached = bits_to_reach(frame, **asked)
        reached.to_csv(target, index=False)
        return markdown.targets(reached, asked["metric"])
    parts = [bits_to_reach(frame, **some).assign(metric=some["metric"]) for some in asked]
    pd.concat(parts).to_csv(target, index=False)
    return [line for part in parts for line in markdown.targets(part, part["metric"].iloc[0])]


def _note(figure: dict) -> str:
    """What marks the figure, on one line."""
    return " ".join((figure.get("note") or "").split())


def _rule(figure: dict, frame: pd.DataFrame) -> str:
    return rule_in_words(frame, **(figure.get("select") or {}))


def _seeds(frame: pd.DataFrame) -> str:
    return ", ".join(str(seed) for seed in sorted(frame["seed"].unique()))


def _show(findings: pd.DataFrame, console: Console) -> None:
    rows = []
    for (number, statement), some in findings.groupby(["number", "statement"], sort=False):
        tally = markdown.tally(some)
        rows.append([str(number), tally.get("best", "–"), tally.get("equal", "–"), statement])
    tables.show(console, ["claim", "best step sizes", "equal step sizes", ""], rows)
