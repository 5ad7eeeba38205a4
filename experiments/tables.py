"""Tables: ruled into columns at a terminal, tab-separated lines for a file or another program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text


def show(console: Console, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table whose columns have these names."""
    if console.is_terminal:
        table = Table(box=None, header_style="bold", pad_edge=False)
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*map(Text, row))
        console.print(table, soft_wrap=False)
    else:
        try:
            for row in (columns, *rows):
                print("\t".join(row), file=console.file)
            console.file.flush()
        except BrokenPipeError:  # of a reader that has seen enough
            console.on_broken_pipe()
