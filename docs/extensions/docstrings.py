"""Docstrings as reStructuredText: indented blocks stay as they are written, prose has no markup but `code`."""

import inspect
import re

from sphinx.application import Sphinx


def restructured(docstring: str) -> list[str]:
    """The lines of reStructuredText for a docstring."""
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(docstring)):
        if paragraph.startswith("    "):
            lines += ["::", "", *paragraph.splitlines(), ""]
            continue
        for part in re.split(r"\n(?=[A-Z][a-z]+: )", paragraph):  # State:, Wire: and Source: are fields
            lines += [re.sub(r"^([A-Z][a-z]+): ", r":\1: ", inline(" ".join(part.split()))), ""]
    return lines


def inline(text: str) -> str:
    """One line of text with its code marked, and with what would be read as markup escaped."""
    pieces = text.split("`")
    pieces[::2] = [re.sub(r"([\\*|_])", r"\\\1", prose) for prose in pieces[::2]]
    pieces[1::2] = [rf"\ ``{code}``\ " for code in pieces[1::2]]
    return "".join(pieces)


def _of_autodoc(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    lines[:] = restructured("\n".join(lines)) if lines else []


def setup(app: Sphinx) -> dict[str, bool]:
    """Let every docstring that autodoc shows go through `restructured`."""
    app.connect("autodoc-process-docstring", _of_autodoc)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
