"""A figure's numbers as Markdown."""

import inspect
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from common.errors import escape_controls
from plots.claims import check, claims
from plots.figure.spec import Figure
from plots.runs.best import find_edges

_PROTOCOLS = {
    claims.PAPERS: "Column *{}*: each method with its published step size.",
    claims.BEST: "Column *best*: each method with its own best step size.",
    claims.MEASURED: "Column *measured*: rounds on links of given bandwidth and latency.",
    "equal": "The columns of numbers: all methods with this step size.",
}
"""The meaning of the columns of claims, by kind."""


def head(figure: Figure, caption: str, frame: pd.DataFrame) -> list[str]:
    """The title's first sentence, the figure with its caption, its note, and the commits of its runs."""
    title = figure.title.partition(". ")[0]
    commits = ", ".join(sorted(frame["commit"].dropna().unique())) if "commit" in frame else ""
    marks = ". ".join(filter(None, [figure.note.removesuffix("."), f"Runs of commit {commits}" if commits else ""]))
    below = " ".join(caption.removeprefix(f"{figure.note}\n").removeprefix(f"{title}.").split())
    note = [f"**{marks}**", ""] if marks else []
    return [f"# {title}", "", f"![{title}]({figure.name}.png)", "", f"*{below}*", "", *note]


def best_step_sizes(frame: pd.DataFrame) -> list[str]:
    """A table of the best step size of each method on each task. Those on the edge of their grid are marked."""
    best = frame[frame["best"]].drop_duplicates(["task", "algorithm"])
    edge = find_edges(frame)
    cells = [f"{row.lr:.12g}{' (edge)' if (row.task, row.algorithm) in edge else ''}" for row in best.itertuples()]
    marked = ["", "*edge*: no smaller, or no larger, step size was tried; the best may lie beyond."] if edge else []
    return [*cross_table(best.assign(cell=cells), "task", "algorithm"), *marked]


def summarize_claims(findings: pd.DataFrame, figure: Figure) -> list[str]:
    """Count for each claim how often it holds, in a line at the top of a report."""
    lines = []
    for (number, statement), rows in findings.groupby(["number", "statement"], sort=False):
        counts = "; ".join(f"{name}: {count}" for name, count in tally(rows, figure).items())
        lines.append(f"- {number}. {statement}: **{counts}**.")
    return [*lines, ""] if lines else []


def claim_tables(findings: pd.DataFrame, figure: Figure, several_seeds: bool) -> list[str]:
    """A table for each claim: tasks down, step sizes across."""
    kinds = _kinds(findings)
    about = " ".join(text for name, text in _PROTOCOLS.items() if name in set(kinds))
    lines = ["", "## Claims", "", about.format(figure.published_as)]
    if several_seeds:
        lines += [
            "Every claim is checked seed by seed: it holds where it holds in all of them, fails where it fails",
            "in all, and is otherwise not decidable.",
        ]
    for (number, statement), rows in findings.groupby(["number", "statement"], sort=False):
        protocols = rows["step_size"].replace(claims.PAPERS, figure.published_as)
        cells = rows.assign(cell=rows["verdict"] + " (" + rows["measured"] + ")", step_size=protocols)
        claim = next(claim for claim in figure.claims if claim.number == number)
        check: Any = claim.check
        options = ", ".join(f"{name}={value}" for name, value in check if name != "name")
        meaning = " ".join((inspect.getdoc(check) or "").split())
        negated = "It holds where this is not so: " if claim.negated else ""
        lines += ["", f"### {number}. {statement}", "", *cross_table(cells, "task", "step_size"), ""]
        lines.append(f"{negated}`{check.name}({options})`: {meaning}")
    return lines


def tally(rows: pd.DataFrame, figure: Figure) -> dict[str, str]:
    """Count how often a claim holds, for each kind of protocol under its heading."""
    tallies, kinds = {}, _kinds(rows)
    for kind in (kind for kind in _PROTOCOLS if kind in set(kinds)):
        group = rows[kinds == kind]
        counts = group["verdict"].value_counts()
        undecided = f", {counts[check.NOT_DECIDABLE]} not decidable" if check.NOT_DECIDABLE in counts else ""
        name = f"{figure.published_as if kind == claims.PAPERS else kind}{' step sizes' * (kind != claims.MEASURED)}"
        tallies[name] = f"holds in {counts.get(check.HOLDS, 0)} of {len(group)}{undecided}"
    return tallies


def _kinds(findings: pd.DataFrame) -> pd.Series:
    """The kind of each protocol: its name, or equal step sizes."""
    return findings["step_size"].where(findings["step_size"].isin(_PROTOCOLS), "equal")


def cross_table(cells: pd.DataFrame, down: str, across: str) -> list[str]:
    """A table with a row for each value of `down` and a column for each of `across`, in their order."""
    grid = cells.pivot(index=down, columns=across, values="cell").fillna("–")
    grid = grid.loc[cells[down].unique(), cells[across].unique()]
    return row_table([down, *grid], [[str(name), *row] for name, row in grid.iterrows()])


def row_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [
        "| " + " | ".join(map(escape_controls, cells)) + " |" for cells in [columns, ["---"] * len(columns), *rows]
    ]
