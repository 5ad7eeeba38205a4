"""Everything a figure leaves behind: PDF, PNG, the CSV of every curve, and tables of claims and targets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import matplotlib
import pandas as pd
from rich.console import Console

from common import tables
from plots.claims import claims
from plots.figure import curves, markdown
from plots.figure.derive import DERIVATIONS
from plots.figure.spec import Figure, Target
from plots.runs.best import mark_best, rule_in_words
from plots.runs.columns import in_words
from plots.runs.levels import bits_to_reach
from plots.runs.read import open_run, read
from plots.runs.seeds import repeated

_HIDDEN = ["label", "color", "marker", "task_label", "selected_by"]


def report(folders: Iterable[Path], figure: Figure, target: Path, console: Console) -> None:
    """Draw a figure and judge its claims from run folders into the folder `target`, and show the verdicts.

    Writes <name>.pdf, <name>.png, <name>.csv (every row of every run, those of the drawn curves with drawn = True),
    report.md and, where the figure asks for them, claims.csv and targets.csv.
    """
    matplotlib.use("Agg")
    folders = list(folders)
    frame = read(folders)
    for derivation in figure.derive:
        frame = DERIVATIONS[derivation.name](frame, **derivation.options)
    frame = mark_best(frame, figure.select)
    frame["drawn"] = frame["best"] if figure.step_size == "best" else frame["lr"] == figure.step_size
    precisions = {open_run(folder).config["task"].get("precision") for folder in folders}
    caption = _caption(figure, frame, sorted(filter(None, precisions)))
    target.mkdir(parents=True, exist_ok=True)
    curves.save(curves.draw(frame[frame["drawn"]], figure.rows, caption), target / figure.name)
    frame.drop(columns=_HIDDEN).to_csv(target / f"{figure.name}.csv", index=False)
    text = _introduction(frame, figure)
    if figure.targets:
        text += _targets(frame, figure.targets, target / "targets.csv")
    if figure.claims:
        findings = claims.judge(frame, figure.claims)
        findings.to_csv(target / "claims.csv", index=False)
        text += markdown.judged(findings, figure, repeated(frame))
        _show(findings, console)
    (target / "report.md").write_text("\n".join(text) + "\n")
    console.print(f"figure, curves and report: {target}", soft_wrap=True, highlight=False)


def _caption(figure: Figure, frame: pd.DataFrame, precisions: list[str]) -> str:
    note = f"{_note(figure)}\n" if _note(figure) else ""
    cut = [panel.y_min for panel in figure.rows if panel.y_min is not None]
    over_bits = any(panel.x == "bits" for panel in figure.rows)
    bits = " Bits are those of one worker, both directions." if over_bits else ""
    low = f" Convolutions in {' or '.join(precisions)}, also in evaluations." if precisions else ""
    if figure.step_size != "best":
        chosen = f"All methods with step size {figure.step_size:g}."
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
        f" The {in_words(panel.y)} goes on above {panel.y_max:g}."
        for panel in figure.rows
        if panel.y_max is not None and frame.loc[frame["drawn"], panel.y].max() > panel.y_max
    )
    below = f" Curves go on below {min(cut):g}." if cut else ""
    return note + f"{figure.title}.{bits}{low}\n{chosen}{seeds}{above}{below}".replace("e-0", "e-")


def _introduction(frame: pd.DataFrame, figure: Figure) -> list[str]:
    """What was run, and the step sizes: the best, and all that were tried where no claim's columns name them."""
    differ = _tried(frame).groupby("task").nunique().max() > 1
    return [
        f"# {figure.name}",
        "",
        f"![{figure.title}]({figure.name}.png)",
        "",
        *([f"**{_note(figure)}**", ""] if _note(figure) else []),
        f"{figure.title}. Up to {frame['round'].max()} rounds, seed{'s' * repeated(frame)} {_seeds(frame)}.",
        "",
        *(markdown.grids(frame) if differ and _choice(frame) and figure.claims else []),
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


def _targets(frame: pd.DataFrame, asked: Sequence[Target], target: Path) -> list[str]:
    """The tables of one metric or of several, and targets.csv, where several stand below each other."""
    parts = {some.metric: bits_to_reach(frame, some.metric, list(some.levels)) for some in asked}
    pd.concat([part.assign(metric=metric) for metric, part in parts.items()]).to_csv(target, index=False)
    return [line for metric, part in parts.items() for line in markdown.targets(part, metric)]


def _note(figure: Figure) -> str:
    """What marks the figure, on one line."""
    return " ".join(figure.note.split())


def _rule(figure: Figure, frame: pd.DataFrame) -> str:
    return rule_in_words(frame, figure.select)


def _seeds(frame: pd.DataFrame) -> str:
    return ", ".join(str(seed) for seed in sorted(frame["seed"].unique()))


def _show(findings: pd.DataFrame, console: Console) -> None:
    rows = []
    for (number, statement), some in findings.groupby(["number", "statement"], sort=False):
        tally = markdown.tally(some)
        rows.append([str(number), tally.get("best", "–"), tally.get("equal", "–"), statement])
    tables.show(console, ["claim", "best step sizes", "equal step sizes", ""], rows)
