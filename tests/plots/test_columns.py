"""The table of columns, against the documentation, rows and what a task declares."""

import re
from dataclasses import asdict
from pathlib import Path

import pytest

from plots.runs import columns
from plots.runs.columns import Column, declare, higher_is_better, in_words, metric_among

DOCS = Path(__file__).resolve().parents[2] / "docs" / "results.md"


def documented() -> dict[str, str]:
    """The units of the columns of metrics.jsonl, as docs/results.md has them."""
    part = DOCS.read_text().partition("## Columns of")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| (`.*?) \| (.*?) \| .* \|$", part, re.MULTILINE)
    units = {}
    for names, of_them in lines:
        found = re.findall(r"`(\w+)`", names)
        units |= dict(zip(found, of_them.split(", "), strict=True))
    return units


def test_the_documentation_has_them_all() -> None:
    assert documented() == {some.name: some.unit or "–" for some in columns.TABLE if some.filled_by != "figure"}


def test_what_a_task_declares_is_known_and_ours_keeps_its_meaning() -> None:
    declare([asdict(Column("margin", "least margin", better="higher")), {"name": "train_loss", "better": "higher"}])
    assert (in_words("margin"), higher_is_better("margin")) == ("least margin", True)
    assert not higher_is_better("train_loss")


@pytest.mark.parametrize(
    ("measured", "declared", "metric"),
    [
        (("train_loss", "grad_norm"), (), "grad_norm"),
        (("train_loss", "grad_norm", "test_loss"), (), "train_loss"),
        (("train_loss", "an_accuracy"), ("an_accuracy",), "an_accuracy"),
        (("train_loss", "undeclared"), ("undeclared",), "train_loss"),
        (("train_loss",), ("margin",), "train_loss"),
        (("margin",), (), None),
    ],
)
def test_what_step_sizes_are_selected_by(
    measured: tuple[str, ...], declared: tuple[str, ...], metric: str | None
) -> None:
    assert metric_among(measured, *declared) == metric
