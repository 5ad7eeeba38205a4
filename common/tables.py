"""Tables: columns at a terminal, tab-separated lines for a file or another program, CSV."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from common.errors import visible

Rows = Sequence[Sequence[str]]

_FORMULA = r"^(?=[=@\t\r]|[+-](?![\d.e+-]*$))"  # the beginning of a text that a spreadsheet would compute


def show(console: Console, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table whose columns have these names.

    Rows are as wide as they are: a terminal folds them so that a path can still be copied in one piece. What would
    act on it, or end a line, is written out.
    """
    lines = [list(map(visible, cells)) for cells in [columns, *rows]]
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
        except BrokenPipeError:  # of a reader that has seen enough
            console.on_broken_pipe()


def write_csv(frame: Any, file: Path, **options: Any) -> None:
    """Write a table of pandas as CSV. An apostrophe keeps spreadsheets from computing texts as formulas."""
    frame = frame.rename(columns=lambda name: re.sub(_FORMULA, "'", str(name)))
    for name, texts in frame.select_dtypes(exclude="number").items():
        if any(re.match(_FORMULA, str(text)) for text in texts.astype(str).unique()):
            frame[name] = texts.replace(_FORMULA, "'", regex=True)
    frame.to_csv(file, index=False, **options)


def differing(columns: Sequence[str], rows: Rows, kept: Sequence[str]) -> tuple[list[str], Rows, list[str]]:
    """The columns and rows without what all rows have in common, and a line that says it, if there is anything.

    kept: columns that stay in any case. Those of dashes alone go without a word.
    """
    cells = dict(zip(columns, zip(*rows, strict=True), strict=True))
    common = {
        name: column[0]
        for name, column in cells.items()
        if set(column) == {"–"} or (name not in kept and len(set(column)) == 1 < len(rows))
    }
    left = [name for name in columns if name not in common]
    said = ", ".join(f"{name} {cell}" for name, cell in common.items() if cell != "–")
    return left, list(zip(*(cells[name] for name in left), strict=True)), [f"all: {said}"] if said else []
