"""The committed reports are what today's code makes of the committed tables."""

import inspect
import re

import pandas as pd
import pytest
from docs_support import ROOT

from experiments.figures import committed
from experiments.redraw import redraw
from plots.claims.claims import CHECKS
from plots.figure.publish import verdicts

REPORTS = sorted(path.parent.name for path in committed.PLACE.glob("*/report.md"))
RULE = re.compile(r"^(?:It holds where this is not so: )?`(\w+)\(.*\)`: (.+)$", re.MULTILINE)
WITHOUT_TABLE = {"modern", "regime", "regime_three_seeds"}
"""Their runs were not kept."""

QUICK = ("figure_3", "regime_batches", "bandwidth")
"""Figures that are redrawn whole on every call."""


def report_of(name: str) -> str:
    return (committed.PLACE / name / "report.md").read_text()


def test_every_figure_has_its_table_and_the_readme_names_it() -> None:
    assert set(REPORTS) - WITHOUT_TABLE == set(committed.tables())
    readme = (committed.PLACE / "README.md").read_text()
    assert all(f"]({name}/report.md)" in readme for name in REPORTS)
    files = [path for path in committed.PLACE.rglob("*") if path.is_file()]
    assert len(files) <= 250
    assert sum(path.stat().st_size for path in files) <= 12e6


@pytest.mark.parametrize("name", [name for name in REPORTS if name not in WITHOUT_TABLE])
def test_rules_and_verdicts_are_those_of_today(name: str) -> None:
    report = report_of(name)
    frame, figure = committed.load(committed.tables()[name])
    for number, found in verdicts(frame, figure).groupby("number", sort=False):
        part = report.partition(f"\n### {number}. ")[2].partition("\n### ")[0]
        cells = {cell.strip() for line in part.splitlines() for cell in line.split("|")}
        assert set(found["verdict"] + " (" + found["measured"] + ")") <= cells, number
    rules = RULE.findall(report)
    assert len(rules) == len(figure.claims)
    for check, rule in rules:
        assert rule == " ".join(inspect.getdoc(CHECKS[check]).split())


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in committed.tables()]
)
def test_a_figure_is_redrawn_equal(name: str, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert redraw(committed.tables()[name], tmp_path)
    assert pd.read_csv(tmp_path / f"{name}.csv").shape[0] == len(committed.load(committed.tables()[name])[0])
