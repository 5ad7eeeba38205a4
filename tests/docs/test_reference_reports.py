"""The committed reports print the rules that claims are judged by today."""

import inspect
import re

import pytest
from docs_support import ROOT

from plots.claims.claims import CHECKS

PLACE = ROOT / "results-reference"
REPORTS = sorted(str(path.parent.relative_to(PLACE)) for path in PLACE.rglob("report.md"))
RULE = re.compile(r"^(?:It holds where this is not so: )?`(\w+)\(.*\)`: (.+)$", re.MULTILINE)

OLDER = {"modern"}
"""Reports of rules that have changed since: they are drawn anew with their next runs."""


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
