"""Convert docstrings to reStructuredText with typeset equations."""

import inspect
import re

from sphinx.application import Sphinx

from docs.extensions.equations import block, paragraph


def to_rst(docstring: str) -> list[str]:
    """Convert a docstring to lines of reStructuredText. Indented blocks without a symbol are code."""
    lines: list[str] = []
    for part in re.split(r"\n\s*\n", inspect.cleandoc(docstring)):
        if part.startswith("    "):
            lines += ["::", "", *part.splitlines(), ""] if part.isascii() else block(part)
            continue
        for field in re.split(r"\n(?=[A-Z][a-z]+: )", part):  # State:, Wire: and Source: are fields
            lines += [re.sub(r"^([A-Z][a-z]+): ", r":\1: ", paragraph(" ".join(field.split()))), ""]
    return lines


def _process_docstring(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    lines[:] = to_rst("\n".join(lines)) if lines else []


def setup(app: Sphinx) -> dict[str, bool]:
    """Pass every docstring that autodoc shows through `to_rst`."""
    app.connect("autodoc-process-docstring", _process_docstring)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
