"""Everything a figure leaves behind: PDF, PNG, the CSV of every curve, and the claims."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from pathlib import Path

import matplotlib
import pandas as pd
from rich.console import Console
from rich.table import Table

from plots import claims, curves, results
from plots.selection import RULE, mark_best

_HIDDEN = ["label", "color", "marker", "task_label"]


def report(folders: Iterable[Path], figure: dict, target: Path, console: Console) -> None:
    """Draw a figure and judge its claims from run folders into the folder `target`, and show the verdicts.

    Writes <name>.pdf, <name>.png, <name>.csv (every row of every run, those of the drawn curves with best = True),
    claims.csv and claims.md.
    """
    matplotlib.use("Agg")
    frame = mark_best(results.read(folders))
    name = figure["name"]
    target.mkdir(parents=True, exist_ok=True)
    drawing = curves.draw(frame[frame["best"]], figure["rows"], _caption(figure))
    for suffix in ("pdf", "png"):
        drawing.savefig(target / f"{name}.{suffix}")
    curves.plt.close(drawing)
    frame.drop(columns=_HIDDEN).to_csv(target / f"{name}.csv", index=False)
    findings = claims.judge(frame, figure["claims"])
    findings.to_csv(target / "claims.csv", index=False)
    (target / "claims.md").write_text(_markdown(findings, frame, figure))
    _show(findings, console)
    console.print(f"figure, curves and claims: {target}", soft_wrap=True, highlight=False)


def _caption(figure: dict) -> str:
    cut = [row["y_min"] for row in figure["rows"] if "y_min" in row]
    return (
        f"{figure['title']}. Bits are those of one worker, both directions.\nEach method with {RULE}."
        + (f" Curves go on below {min(cut):g}." if cut else "")
    ).replace("e-0", "e-")


def _markdown(findings: pd.DataFrame, frame: pd.DataFrame, figure: dict) -> str:
    """The claims as one table each: tasks down, step sizes across."""
    seeds = ", ".join(str(seed) for seed in sorted(frame["seed"].unique()))
    lines = [
        f"# Claims of {figure['name']}",
        "",
        f"{figure['title']}. {frame['round'].max()} rounds, seed {seeds}. Column *best*: each method with its own "
        f"best step size, that is {RULE}; the other columns: all methods with this step size.",
        "",
        "Best step sizes:",
        "",
    ]
    best = frame[frame["best"]].groupby(["task", "algorithm"], sort=False)["lr"].first().unstack()
    lines += _table(["task", *best.columns], [[task, *(f"{lr:g}" for lr in row)] for task, row in best.iterrows()])
    for (number, statement), rows in findings.groupby(["number", "statement"], sort=False):
        text = rows.assign(cell=rows["verdict"] + " (" + rows["measured"] + ")")
        settings = list(dict.fromkeys(rows["step_size"]))
        grid = text.pivot(index="task", columns="step_size", values="cell").loc[rows["task"].unique(), settings]
        lines += ["", f"## {number}. {statement}", "", f"{_tally(rows)}.", ""]
        lines += _table(["task", *settings], [[task, *row] for task, row in grid.iterrows()])
        lines += ["", *_how(figure, number)]
    return "\n".join(lines) + "\n"


def _how(figure: dict, number: object) -> list[str]:
    """What was measured and with which thresholds."""
    claim = next(claim for claim in figure["claims"] if claim["number"] == number)
    options = ", ".join(f"{key}={value}" for key, value in claim.items() if key not in claims.DESCRIPTION)
    meaning = " ".join(inspect.getdoc(claims.CHECKS[claim["check"]]).split())
    return [f"`{claim['check']}({options})`: {meaning}"]


def _table(header: list[str], rows: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(cells) + " |" for cells in [header, ["---"] * len(header), *rows]]


def _tally(rows: pd.DataFrame) -> str:
    """How often a claim holds, apart for best and for equal step sizes."""
    parts = []
    for kind, some in (("best", rows[rows["step_size"] == "best"]), ("equal", rows[rows["step_size"] != "best"])):
        counts = some["verdict"].value_counts()
        others = "".join(f", {counts[v]} {v}" for v in (claims.NOT_DECIDABLE,) if v in counts)
        parts.append(f"{kind} step sizes: holds in {counts.get(claims.HOLDS, 0)} of {len(some)}{others}")
    return "; ".join(parts)


def _show(findings: pd.DataFrame, console: Console) -> None:
    table = Table(title="Claims", show_lines=False)
    for heading in ("", "claim", "best step sizes", "equal step sizes"):
        table.add_column(heading, overflow="fold")
    for (number, statement), rows in findings.groupby(["number", "statement"], sort=False):
        best, equal = (part.partition(": ")[2] for part in _tally(rows).split("; "))
        table.add_row(str(number), statement, best, equal)
    console.print(table)
