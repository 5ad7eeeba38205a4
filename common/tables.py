"""Tables: columns at a terminal, tab-separated lines for files and other programs, and CSV."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from common.errors import escape_controls

Rows = Sequence[Sequence[str]]

_FORMULA = r"^(?=[=@\t\r]|[+-](?![\d.e+-]*$))"  # the start of a text that a spreadsheet would compute


def print_table(console: Console, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table with these column names.

    The terminal folds wide rows, so that a path can be copied in one piece. Control characters are escaped.
    """
    lines = [list(map(escape_controls, cells)) for cells in [columns, *rows]]
    if console.is_terminal:
        widths = [max(map(cell_len, cells)) for cells in zip(*lines, strict=True)]
        for number, line in enumerate(lines):
            padded = (cell + " " * (width - cell_len(cell)) for cell, width in zip(line, widths, strict=True))
            text = Text("  ".join(padded).rstrip(), style="" if number else "bold")
            console.print(text, soft_wrap=True)
    else:
        try:
            for line in lines:
                print("\t".join(line), file=console.file)
            console.file.flush()
        except BrokenPipeError:  # the reader has closed its end
            console.on_broken_pipe()


def write_csv(frame: Any, file: Path, **options: Any) -> None:
    """Write a pandas table as CSV. An apostrophe keeps spreadsheets from computing texts as formulas."""
    frame = frame.rename(columns=lambda name: re.sub(_FORMULA, "'", str(name)))
    for name, texts in frame.select_dtypes(exclude="number").items():
        if any(re.match(_FORMULA, str(text)) for text in texts.astype(str).unique()):
            frame[name] = texts.replace(_FORMULA, "'", regex=True)
    frame.to_csv(file, index=False, **options)


def drop_common_columns(columns: Sequence[str], rows: Rows, kept: Sequence[str]) -> tuple[list[str], Rows, list[str]]:
    """Drop the columns that have one value in all rows. Returns columns, rows, and a line with the dropped values.

    kept: columns that stay, unless they hold only dashes. Columns of dashes are dropped without mention.
    """
    cells = dict(zip(columns, zip(*rows, strict=True), strict=True))
    common = {
        name: column[0]
        for name, column in cells.items()
        if set(column) == {"–"} or (name not in kept and len(set(column)) == 1 < len(rows))
    }
    left = [name for name in columns if name not in common]
    dropped = ", ".join(f"{name} {cell}" for name, cell in common.items() if cell != "–")
    return left, list(zip(*(cells[name] for name in left), strict=True)), [f"all: {dropped}"] if dropped else []
