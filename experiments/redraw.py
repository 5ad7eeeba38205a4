"""Redraw the committed figures from their tables, and judge their claims again.

    python -m experiments.redraw                    # all of results-reference, a few minutes
    python -m experiments.redraw figure_2 why       # these
    python -m experiments.redraw out=FOLDER         # target folder; default results/redrawn

A line for each figure says whether its new report equals the committed one. The exit status is 1 if one differs.
"""

from collections.abc import Sequence
from pathlib import Path

from common.errors import RunError, UsageError
from common.names import explain_unknown
from experiments.figures import committed
from plots.figure.publish import publish
from plots.request import parse_words, report_errors


def main(arguments: Sequence[str] | None = None) -> None:
    with report_errors():
        asked = parse_words("experiments.redraw", __doc__, arguments, "figure")
        names = [word for word in asked if not word.startswith("out=")]
        out = Path(next((word.removeprefix("out=") for word in asked if word not in names), "results/redrawn"))
        tables = committed.tables()
        for name in names:
            if name not in tables:
                raise UsageError(explain_unknown(f"{name}: no committed table", name, tables))
        different = [name for name in names or tables if not redraw(tables[name], out / name)]
        if different:
            raise RunError(f"not as committed: {', '.join(different)}; compare the reports in {out}")


def redraw(table: Path, target: Path) -> bool:
    """Draw one figure from its table, and return whether its report equals the committed one."""
    frame, figure = committed.load(table)
    findings = publish(frame, figure, target)
    is_same = (target / "report.md").read_text() == (table.parent / "report.md").read_text()
    how = "as committed" if is_same else "DIFFERENT"
    print(f"{table.parent.name}: {len(findings)} verdicts, report {how}", flush=True)
    return is_same


if __name__ == "__main__":
    main()
