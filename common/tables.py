"""Tables: columns at a terminal, tab-separated lines for a file or another program."""

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from common.characters import visible


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
