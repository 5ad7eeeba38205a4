"""The committed results of figures: a folder of results-reference has a report, its pictures and the table of rows.

Table and folder have the figure's name, except for a second budget: figure_3_full/figure_3.csv.xz.
"""

from operator import itemgetter
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from experiments.config.compose import compose, resolve
from experiments.config.schema import Reproduction
from experiments.figures.configuration import BUDGETS, read_figure
from plots.figure import markdown
from plots.figure.publish import print_tallies, publish, read_rows
from plots.figure.spec import Figure

PLACE = Path(__file__).resolve().parents[2] / "results-reference"


def tables() -> dict[str, Path]:
    """The tables by folder."""
    return {path.parent.name: path for path in sorted(PLACE.glob("*/*.csv.xz"))}


def load(table: Path) -> tuple[pd.DataFrame, Figure]:
    """Read the rows of a table, and its figure with the budget of those runs."""
    frame = read_rows(table)
    budget = frame["budget"].iloc[0]
    return frame, figure_of(table.name.removesuffix(".csv.xz"), "auto" if pd.isna(budget) else str(budget))


def figure_of(name: str, budget: Any) -> Figure:
    """Read a figure of conf/figure with a budget."""
    node = resolve(compose([f"figure={name}"], "reproduction"))["figure"]
    return read_figure(Reproduction(figure=node, budget=budget), itemgetter(0))


def report_committed(figure: Figure, target: Path, console: Console) -> None:
    """If committed runs had a larger budget, draw these too, into `target`/committed, and report them first."""
    table = tables().get(figure.name)
    if figure.budget is None or table is None:
        return
    frame, theirs = load(table)
    if theirs.budget is None or BUDGETS.index(theirs.budget) >= BUDGETS.index(figure.budget):
        return
    committed = publish(frame, theirs, target / "committed")
    full = figure_of(figure.name, "full")
    needs = f"The paper's setting: budget=full, which needs {full.needs}." if full.needs else ""
    console.print(f"Committed runs: {theirs.note}", style="bold", soft_wrap=True, highlight=False)
    print_tallies(committed, theirs, console)
    console.print(f"Trained here: {figure.note}. {needs}", style="bold", soft_wrap=True, highlight=False)
    own = (target / "report.md").read_text()
    title, _, rest = own.partition("\n")
    picture = f"![{theirs.title}](committed/{theirs.name}.png)"
    first = ["", "## Committed runs", "", f"{theirs.note}. [Their report](committed/report.md).", "", picture, ""]
    text = [title, *first, *markdown.summarize_claims(committed, theirs), "## Trained here", "", needs, rest]
    (target / "report.md").write_text("\n".join(text))
