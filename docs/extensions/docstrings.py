"""Docstrings as reStructuredText, with their equations typeset."""

import inspect
import re

from sphinx.application import Sphinx

from docs.extensions.equations import block, paragraph


def restructured(docstring: str) -> list[str]:
    """The lines of reStructuredText for a docstring. Indented blocks without a symbol are code."""
    lines: list[str] = []
    for part in re.split(r"\n\s*\n", inspect.cleandoc(docstring)):
        if part.startswith("    "):
            lines += ["::", "", *part.splitlines(), ""] if part.isascii() else block(part)
            continue
        for field in re.split(r"\n(?=[A-Z][a-z]+: )", part):  # State:, Wire: and Source: are fields
            lines += [re.sub(r"^([A-Z][a-z]+): ", r":\1: ", paragraph(" ".join(field.split()))), ""]
    return lines


def _of_autodoc(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    lines[:] = restructured("\n".join(lines)) if lines else []


def setup(app: Sphinx) -> dict[str, bool]:
    """Let every docstring that autodoc shows go through `restructured`."""
    app.connect("autodoc-process-docstring", _of_autodoc)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
