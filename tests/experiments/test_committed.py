"""A figure trained with a small budget, beside the committed runs of a larger one."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from experiments.figures import committed
from experiments.redraw import main


def beside(name: str, budget: str, target: Path) -> tuple[str, str]:
    """The report, which so far says what was trained here, and what is printed."""
    figure = replace(committed.figure_of(name, budget), name=name)
    (target / "report.md").write_text(f"# {figure.title}\n\nOurs\n")
    printed = io.StringIO()
    committed.report_beside(figure, target, Console(file=printed, width=200))
    return (target / "report.md").read_text(), printed.getvalue()


@pytest.mark.slow
def test_committed_runs_come_first_and_the_full_setting_is_named(tmp_path: Path) -> None:
    report, printed = beside("figure_3_wrn16_4", "quick", tmp_path)
    assert report.index("## Committed runs") < report.index("- 13 (6a)") < report.index("## Trained here")
    assert report.endswith("Ours\n")
    assert printed.index("Committed runs: medium budget") < printed.index("13 (6a)") < printed.index("Trained here: ")
    for text in (report, printed):
        assert "budget=full, which needs a GPU such as an H100" in text
    assert (tmp_path / "committed" / "figure_3_wrn16_4.png").exists()


@pytest.mark.parametrize(("name", "budget"), [("figure_3", "medium"), ("figure_2", "auto"), ("regime", "quick")])
def test_nothing_is_beside_what_has_no_larger_committed_runs(name: str, budget: str, tmp_path: Path) -> None:
    assert beside(name, budget, tmp_path)[1] == ""
    assert not (tmp_path / "committed").exists()


def test_an_unknown_figure_gets_a_suggestion(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        main(["figure_22"])
    assert "figure_22: no committed table; did you mean figure_2?" in capsys.readouterr().err
