"""Everything a figure leaves behind: PDF, PNG, the CSV of every curve, and tables of claims and targets."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import matplotlib
import pandas as pd
from rich.console import Console

from common import tables
from common.files import naming
from plots.claims import claims
from plots.figure import curves, markdown
from plots.figure.derive import DERIVATIONS
from plots.figure.spec import Figure
from plots.runs.best import mark_best, rule_in_words
from plots.runs.columns import in_words
from plots.runs.levels import bits_to_reach
from plots.runs.read import open_run, table
from plots.runs.seeds import in_order, repeated

_HIDDEN = ["label", "color", "marker", "task_label", "selected_by"]


def report(folders: Iterable[Path], figure: Figure, target: Path, console: Console) -> None:
    """Draw a figure and judge its claims from run folders into the folder `target`, and show the verdicts.

    Writes <name>.pdf, <name>.png, <name>.csv (every row of every run, those of the drawn curves with drawn = True),
    report.md and, where the figure asks for them, claims.csv and targets.csv.
    """
    with naming(target):
        _report(folders, figure, target, console)


def _report(folders: Iterable[Path], figure: Figure, target: Path, console: Console) -> None:
    matplotlib.use("Agg")
    figure = replace(figure, note=" ".join(figure.note.split()))
    runs = [open_run(folder) for folder in folders]
    frame = table(runs)
    for derivation in figure.derive:
        frame = DERIVATIONS[derivation.name](frame, **derivation.options)
    frame = mark_best(frame, figure.select)
    frame["drawn"] = frame["best"] if figure.step_size == "best" else frame["lr"] == figure.step_size
    precisions = sorted({run.config["task"].get("precision") for run in runs} - {None})
    drawn = curves.draw(frame[frame["drawn"]], figure.rows, _caption(figure, frame, precisions))
    curves.save(drawn, *(target / f"{figure.name}{suffix}" for suffix in (".pdf", ".png")))
    target.mkdir(parents=True, exist_ok=True)
    frame.drop(columns=_HIDDEN).to_csv(target / f"{figure.name}.csv", index=False)
    text = _introduction(frame, figure)
    if figure.targets:
        parts = {some.metric: bits_to_reach(frame, some.metric, list(some.levels)) for some in figure.targets}
        reached = pd.concat([part.assign(metric=metric) for metric, part in parts.items()])
        reached.to_csv(target / "targets.csv", index=False)
        text += [line for metric, part in parts.items() for line in markdown.targets(part, metric)]
    if figure.claims:
        findings = claims.judge(frame, figure.claims)
        findings.to_csv(target / "claims.csv", index=False)
        text += markdown.judged(findings, figure, repeated(frame))
        _show(findings, console)
    (target / "report.md").write_text("\n".join(text) + "\n")
    console.print(f"figure, curves and report: {target}", soft_wrap=True, highlight=False)


def _caption(figure: Figure, frame: pd.DataFrame, precisions: list[str]) -> str:
    about, chosen = [f"{figure.title}."], []
    if any(panel.x == "bits" for panel in figure.rows):
        about.append("Bits are those of one worker, both directions.")
    if precisions:
        about.append(f"Convolutions in {' or '.join(precisions)}, also in evaluations.")
    if figure.step_size != "best":
        chosen.append(f"All methods with step size {figure.step_size:g}.")
    elif _was_selected(frame):
        chosen.append(f"Each method with {rule_in_words(frame, figure.select)}.")
    else:
        chosen.append("Each method with the one step size it was given.")
    if repeated(frame):
        chosen.append(
            f"Lines are means over seeds {in_order(frame['seed'])}, geometric on logarithmic axes, and bands go from "
            "the least to the greatest."
        )
    for panel in figure.rows:
        if panel.y_max is not None and frame.loc[frame["drawn"], panel.y].max() > panel.y_max:
            chosen.append(f"The {in_words(panel.y)} goes on above {panel.y_max:g}.")
    cut = [panel.y_min for panel in figure.rows if panel.y_min is not None]
    if cut:
        chosen.append(f"Curves go on below {min(cut):g}.")
    said = "\n".join([" ".join(about), " ".join(chosen)]).replace("e-0", "e-")
    return f"{figure.note}\n{said}" if figure.note else said


def _introduction(frame: pd.DataFrame, figure: Figure) -> list[str]:
    """What was run, and the step sizes: the best, and all that were tried where no claim's columns name them."""
    selected, seeds = _was_selected(frame), f"seed{'s' * repeated(frame)} {in_order(frame['seed'])}"
    differ = frame.groupby(["task", "algorithm"])["lr"].agg(in_order).groupby("task").nunique().max() > 1
    rule = f"Best step sizes, that is {rule_in_words(frame, figure.select)}:"
    return [
        f"# {figure.name}",
        "",
        *([" ".join(figure.finding.split()), ""] if figure.finding else []),
        f"![{figure.title}]({figure.name}.png)",
        "",
        *([f"**{figure.note}**", ""] if figure.note else []),
        f"{figure.title}. Up to {frame['round'].max()} rounds, {seeds}.",
        "",
        *(markdown.grids(frame) if differ and selected and figure.claims else []),
        rule if selected else "Step sizes, one a method:",
        "",
        *markdown.best_step_sizes(frame),
    ]


def _was_selected(frame: pd.DataFrame) -> bool:
    """Whether some method had several step sizes to select from."""
    return bool((frame.groupby(["task", "algorithm"])["lr"].nunique() > 1).any())


def _show(findings: pd.DataFrame, console: Console) -> None:
    rows = []
    for (number, statement), some in findings.groupby(["number", "statement"], sort=False):
        tally = markdown.tally(some)
        rows.append([str(number), tally.get("best", "–"), tally.get("equal", "–"), statement])
    tables.show(console, ["claim", "best step sizes", "equal step sizes", ""], rows)
