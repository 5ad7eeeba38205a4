"""The committed reports print the rules that claims are judged by today, and the verdicts that these come to."""

import inspect
import re
from operator import itemgetter
from pathlib import Path

import pandas as pd
import pytest
from docs_support import ROOT

from experiments.config import figure as figures
from experiments.config.compose import compose, resolved
from experiments.config.schema import Reproduction
from plots.claims.claims import CHECKS, judge
from plots.figure.spec import Figure

PLACE = ROOT / "results-reference"
REPORTS = sorted(str(path.parent.relative_to(PLACE)) for path in PLACE.rglob("report.md"))
RULE = re.compile(r"^(?:It holds where this is not so: )?`(\w+)\(.*\)`: (.+)$", re.MULTILINE)

OLDER = {"modern", "figure_1", "figure_3", "figure_3_vgg16", "figure_3_wrn16_4"}
"""Reports of rules that have changed since: they are drawn anew with their next runs."""


ROWS = sorted(path for path in PLACE.rglob("*.csv.xz") if path.parent.name != "bandwidth")
"""What reports were made of, but for those drawn before these were kept, and for lines over bandwidth."""


def rules(report: str) -> list[tuple[str, str]]:
    return RULE.findall((PLACE / report / "report.md").read_text())


def is_todays(name: str, rule: str) -> bool:
    return rule == " ".join(inspect.getdoc(CHECKS[name]).split())


@pytest.mark.parametrize("report", REPORTS)
def test_a_printed_rule_is_that_of_today_but_where_it_is_named_as_older(report: str) -> None:
    old = [name for name, rule in rules(report) if not is_todays(name, rule)]
    assert bool(old) == (report in OLDER), old


def test_every_claim_of_a_report_has_its_rule() -> None:
    for report in REPORTS:
        claims = (PLACE / report / "report.md").read_text().partition("\n## Claims\n")[2]
        assert len(rules(report)) == claims.count("\n### "), report
    assert set(REPORTS) >= OLDER
    assert {name for report in REPORTS for name, _ in rules(report)} <= set(CHECKS)


def figure_of(rows: Path, report: str) -> Figure:
    """What a report is of, by the name and the budget that it has."""
    node = resolved(compose([f"figure={rows.name.partition('.')[0]}"], "reproduce"))["figure"]
    budget = "medium" if "\n**medium budget" in report else "auto"
    return figures.read(Reproduction(figure=node, budget=budget), itemgetter(-1))


@pytest.mark.parametrize("rows", [pytest.param(path, id=str(path.parent.relative_to(PLACE))) for path in ROWS])
def test_verdicts_are_what_todays_rules_make_of_the_rows_beside_the_report(rows: Path) -> None:
    report = (rows.parent / "report.md").read_text()
    figure = figure_of(rows, report)
    frame = pd.read_csv(rows)
    findings = judge(frame[frame["seed"] != figure.held_out], figure.claims)
    for number, found in findings.groupby("number", sort=False):
        part = report.partition(f"\n### {number}. ")[2].partition("\n### ")[0]
        cells = {cell.strip() for line in part.splitlines() for cell in line.split("|")}
        assert set(found["verdict"] + " (" + found["measured"] + ")") <= cells, number
