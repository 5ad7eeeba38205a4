"""The committed reports are what today's code makes of the committed tables."""

from pathlib import Path

import pytest
from docs_support import ROOT

from experiments.figures import committed
from experiments.redraw import redraw
from plots.figure import curves

REPORTS = sorted(path.parent.name for path in committed.PLACE.glob("*/report.md"))
WITHOUT_TABLE = {"regime", "regime_three_seeds"}
"""Their runs were not kept."""

DRAWN = ("figure_3", "regime_batches", "bandwidth")
"""Figures whose pictures are drawn too."""

QUICK = ("figure_2_top_k", "rate", "why", "why_frozen")
"""Figures that take 2 seconds."""


def test_every_figure_has_its_table_and_the_readme_names_it() -> None:
    assert set(REPORTS) - WITHOUT_TABLE == set(committed.tables())
    readme = (committed.PLACE / "README.md").read_text()
    assert all(f"]({name}/report.md)" in readme for name in REPORTS)
    files = {path: path.stat().st_size for path in committed.PLACE.rglob("*") if path.is_file()}
    entries = {path for path in files if committed.PLACE / "leaderboard" in path.parents}
    reports = files.keys() - entries
    assert len(reports) <= 120
    assert sum(files[path] for path in reports) <= 9e6
    assert {path.name for path in entries} == {"entry.yaml", "rows.csv.xz", "bits.png", "effects.png"}
    assert sum(files[path] for path in entries) <= 14e6


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in committed.tables()]
)
def test_a_figure_is_redrawn_equal(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    if name not in DRAWN:
        monkeypatch.setattr(curves, "draw", lambda *arguments, **options: None)
        monkeypatch.setattr(curves, "save", lambda *arguments, **options: None)
    assert redraw(committed.tables()[name], tmp_path)
