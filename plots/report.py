"""Everything a figure leaves behind: PDF, PNG, the CSV of every curve, and tables of claims and targets."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from pathlib import Path

import matplotlib
import pandas as pd
from rich.console import Console
from rich.table import Table

from plots import claims, curves, results
from plots.derive import DERIVATIONS
from plots.selection import RULE, mark_best
from plots.targets import bits_to_reach

_HIDDEN = ["label", "color", "marker", "task_label"]


def report(folders: Iterable[Path], figure: dict, target: Path, console: Console) -> None:
    """Draw a figure and judge its claims from run folders into the folder `target`, and show the verdicts.

    Writes <name>.pdf, <name>.png, <name>.csv (every row of every run, those of the drawn curves with drawn = True),
    report.md and, where the figure asks for them, claims.csv and targets.csv.
    """
    matplotlib.use("Agg")
    frame = results.read(folders)
    for derivation in figure.get("derive", []):
        frame = DERIVATIONS[derivation["name"]](frame, **derivation.get("options", {}))
    frame = mark_best(frame)
    step_size = figure.get("step_size", "best")
    frame["drawn"] = frame["best"] if step_size == "best" else frame["lr"] == step_size
    name = figure["name"]
    target.mkdir(parents=True, exist_ok=True)
    caption = _caption(figure, step_size)
    curves.save(curves.draw(frame[frame["drawn"]], figure["rows"], caption), target / name)
    frame.drop(columns=_HIDDEN).to_csv(target / f"{name}.csv", index=False)
    text = _introduction(frame, figure)
    if "targets" in figure:
        reached = bits_to_reach(frame, **figure["targets"])
        reached.to_csv(target / "targets.csv", index=False)
        text += _targets(reached, figure["targets"]["metric"])
    if figure.get("claims"):
        findings = claims.judge(frame, figure["claims"])
        findings.to_csv(target / "claims.csv", index=False)
        text += _claims(findings, figure)
        _show(findings, console)
    (target / "report.md").write_text("\n".join(text) + "\n")
    console.print(f"figure, curves and report: {target}", soft_wrap=True, highlight=False)


def _caption(figure: dict, step_size: str | float) -> str:
    cut = [row["y_min"] for row in figure["rows"] if "y_min" in row]
    bits = (
        " Bits are those of one worker, both directions." if any(row["x"] == "bits" for row in figure["rows"]) else ""
    )
    return (
        f"{figure['title']}.{bits}\n"
        + (f"Each method with {RULE}." if step_size == "best" else f"All methods with step size {step_size:g}.")
        + (f" Curves go on below {min(cut):g}." if cut else "")
    ).replace("e-0", "e-")


def _introduction(frame: pd.DataFrame, figure: dict) -> list[str]:
    """What was run, and the best step sizes."""
    seeds = ", ".join(str(seed) for seed in sorted(frame["seed"].unique()))
    best = frame[frame["best"]].groupby(["task", "algorithm"], sort=False)["lr"].first().unstack(sort=False)
    return [
        f"# {figure['name']}",
        "",
        f"{figure['title']}. Up to {frame['round'].max()} rounds, seed {seeds}.",
        "",
        f"Best step sizes, that is {RULE}:",
        "",
        *_table(["task", *best.columns], [[task, *(f"{lr:.12g}" for lr in row)] for task, row in best.iterrows()]),
    ]


def _targets(reached: pd.DataFrame, metric: str) -> list[str]:
    """The bits to reach each level, a table a task: methods down, levels across."""
    lines = ["", f"## Bits to reach a {metric}", ""]
    lines += [
        "Bits of one worker, both directions, at the first evaluation there, over all step sizes of the grid (the"
    ]
    lines += ["one that got there with the fewest bits in parentheses). A dash: none did."]
    reached = reached.assign(
        cell=[
            "–" if pd.isna(bits) else f"{bits:.3g} ({lr:g})".replace("e+0", "e") if bits else "at the start"
            for bits, lr in zip(reached["bits"], reached["lr"], strict=True)
        ]
    )
    for task, rows in reached.groupby("task", sort=False):
        grid = rows.pivot(index="label", columns="level", values="cell").loc[
            rows["label"].unique(), rows["level"].unique()
        ]
        lines += ["", f"### {task}", ""]
        lines += _table(
            ["method", *(f"{level:g}" for level in grid)], [[label, *row] for label, row in grid.iterrows()]
        )
    return lines


def _claims(findings: pd.DataFrame, figure: dict) -> list[str]:
    """The claims, a table each: tasks down, step sizes across."""
    lines = ["", "## Claims", ""]
    lines += ["Column *best*: each method with its own best step size; the others: all methods with this step size."]
    for (number, statement), rows in findings.groupby(["number", "statement"], sort=False):
        text = rows.assign(cell=rows["verdict"] + " (" + rows["measured"] + ")")
        settings = list(dict.fromkeys(rows["step_size"]))
        grid = text.pivot(index="task", columns="step_size", values="cell").loc[rows["task"].unique(), settings]
        lines += ["", f"### {number}. {statement}", "", f"{_tally(rows)}.", ""]
        lines += _table(["task", *settings], [[task, *row] for task, row in grid.iterrows()])
        lines += ["", *_how(figure, number)]
    return lines


def _how(figure: dict, number: object) -> list[str]:
    """What was measured and with which thresholds."""
    claim = next(claim for claim in figure["claims"] if claim["number"] == number)
    options = ", ".join(f"{key}={value}" for key, value in claim.items() if key not in claims.DESCRIPTION)
    meaning = " ".join(inspect.getdoc(claims.CHECKS[claim["check"]]).split())
    negated = "It holds where this is not so: " if claim.get("negated") else ""
    return [f"{negated}`{claim['check']}({options})`: {meaning}"]


def _table(header: list[str], rows: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(cells) + " |" for cells in [header, ["---"] * len(header), *rows]]


def _tally(rows: pd.DataFrame) -> str:
    """How often a claim holds, apart for best and for equal step sizes."""
    parts = []
    for kind, some in (("best", rows[rows["step_size"] == "best"]), ("equal", rows[rows["step_size"] != "best"])):
        counts = some["verdict"].value_counts()
        open_ones = f", {counts[claims.NOT_DECIDABLE]} not decidable" if claims.NOT_DECIDABLE in counts else ""
        parts.append(f"{kind} step sizes: holds in {counts.get(claims.HOLDS, 0)} of {len(some)}{open_ones}")
    return "; ".join(parts)


def _show(findings: pd.DataFrame, console: Console) -> None:
    table = Table(title="Claims", show_lines=False)
    for heading in ("", "claim", "best step sizes", "equal step sizes"):
        table.add_column(heading, overflow="fold")
    for (number, statement), rows in findings.groupby(["number", "statement"], sort=False):
        best, equal = (part.partition(": ")[2] for part in _tally(rows).split("; "))
        table.add_row(str(number), statement, best, equal)
    console.print(table)
