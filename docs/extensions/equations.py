"""Docstrings as reStructuredText: prose with its mathematics typeset, blocks of equations as tables.

A block is indented, between empty lines, and its columns are two spaces or more apart: who or when, what is computed,
and in brackets where that stands in the paper or when it differs.

    worker   c_i = C(g_i − ĝ_i),  ĝ_i ← ĝ_i + c_i      (Algorithm 1, lines 5 and 6)
"""

from __future__ import annotations

import ast
import inspect
import re
from typing import NamedTuple

from sphinx.application import Sphinx

from docs.extensions.notation import spans

_CELL = re.compile(r"\S+(?: \S+)*")
_FIELD = re.compile(r"([A-Z][a-z]+): ")


class Row(NamedTuple):
    """One line of a block of equations, each part as it stands in the docstring."""

    labels: list[str]  # who or when, as many as the block has columns of them
    formulas: list[str]
    note: str


def rows(block: list[str]) -> list[Row]:
    """The lines of an indented block, taken apart by their columns."""
    width = min(len(line) - len(line.lstrip()) for line in block)
    lines = [[(cell.start(), cell.group()) for cell in _CELL.finditer(line[width:])] for line in block]
    columns: list[int] = []  # where labels begin; a line that begins at a later one has those before it from above
    for cells in lines:
        if cells[0][0] == 0:
            columns += [start for start, _ in _labels(cells) if start not in columns]
    found = []
    for cells in lines:
        labels = dict.fromkeys(sorted(columns), "")
        if cells[0][0] in columns:
            labels |= {start: text for start, text in _labels(cells) if start in columns}
        content = [text for start, text in cells if text != labels.get(start)]
        note = content.pop()[1:-1] if len(content) > 1 and _is_note(content[-1]) else ""
        found.append(Row(list(labels.values()), _formulas(content), note))
    return found


def _labels(cells: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """The cells at the beginning of a line, never all, that define nothing and end no formula."""
    labels = []
    for start, text in cells[:-1]:
        if re.search(r"[=←]|[,;:]$", text):
            break
        labels.append((start, text))
    return labels


def _is_note(cell: str) -> bool:
    return cell[0] == "(" and cell[-1] == ")" and [span.kind for span in spans(cell)] != ["math"]


def _formulas(cells: list[str]) -> list[str]:
    """Cells up to a comma or semicolon are one formula."""
    return [formula.strip(" ,;") for formula in re.split(r"(?<=[,;])  ", "  ".join(cells))]


def restructured(docstring: str) -> list[str]:
    """The lines of reStructuredText for a docstring. Raises UnknownSymbol."""
    lines: list[str] = []
    for part in re.split(r"\n\s*\n", inspect.cleandoc(docstring)):
        block = part.splitlines()
        if block[0].startswith("    "):
            lines += [*_block(block), ""]
            continue
        for paragraph in re.split(r"\n(?=[A-Z][a-z]+: )", part):  # State:, Wire: and Source: are fields
            text = " ".join(paragraph.split())
            field = _FIELD.match(text)
            lines += [f":{field[1]}: {inline(text[field.end() :])}"] if field else [inline(text), ""]
        lines += [""] * bool(lines[-1])
    return lines


def _block(block: list[str]) -> list[str]:
    text = inspect.cleandoc("\n".join(block))
    if _is_python(text):
        return [".. code-block:: python", "", *block]
    if not any(span.kind == "math" for line in block for span in spans(line)):
        return ["::", "", *block]
    cells = []
    for labels, formulas, note in rows(block):
        cells.append([*map(inline, labels), [inline(formula, fractions=True) for formula in formulas], inline(note)])
    return table(cells, "equations")


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def inline(text: str, fractions: bool = False) -> str:
    """One line of text with its code and mathematics marked up. Raises UnknownSymbol."""
    marked = ""
    for kind, content in spans(text, fractions):
        markup = {"code": f"``{content}``", "math": f":math:`{content}`"}
        piece = markup.get(kind) or re.sub(r"([\\*`|_])", r"\\\1", content)
        if marked and not (marked[-1].isspace() or piece[0].isspace()):
            marked += r"\ "  # prints nothing; without it markup between other characters would not be seen
        marked += piece
    return marked


def table(cells: list[list[str | list[str]]], style: str, head: list[str] | None = None) -> list[str]:
    """A list-table; a cell is reStructuredText, or a list of lines of it. Columns without content are left out."""
    used = [n for n in range(len(cells[0])) if any(row[n] and row[n] != [""] for row in cells)]
    lines = [".. list-table::", f"   :class: {style}", "   :widths: auto"]
    lines += ["   :header-rows: 1"] * bool(head) + [""]
    for row in ([head] if head else []) + cells:
        for place, n in enumerate(used):
            cell = row[n]
            text = [cell] if isinstance(cell, str) else [f"| {line}" for line in cell]
            for number, line in enumerate(text):
                bullet = ("*" if place == 0 else " ") + " -" if number == 0 else "   "
                lines.append(f"   {bullet} {line}".rstrip())
    return [*lines, ""]


def _of_autodoc(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    if lines:
        lines[:] = restructured("\n".join(lines))


def setup(app: Sphinx) -> dict[str, bool]:
    """Let every docstring that autodoc shows go through `restructured`."""
    app.connect("autodoc-process-docstring", _of_autodoc)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
