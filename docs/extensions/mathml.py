"""Formulas as MathML, which browsers typeset by themselves: pages need no script and no network."""

from __future__ import annotations

import re

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

_ACCENTED_WITH_INDEX = re.compile(r"(\\(?:hat|tilde|bar)\s*(?:\{[^{}]+\}|\w))(?=[_^])")
_BRACKET = re.compile(r"<mo>([|‖⌊⌋⌈⌉{}])</mo>")

logger = logging.getLogger(__name__)


def mathml(latex: str, block: bool = False) -> str:
    """LaTeX as a `<math>` element. Raises docutils' MathError for what it cannot read."""
    # docutils puts an index of an accented letter below it, as a limit, unless the letter is a group of its own.
    element = tex2mathml(_ACCENTED_WITH_INDEX.sub(r"{\1{}}", latex), as_block=block)
    element = element.replace("&ApplyFunction;", "\u2061")  # an entity of HTML, unknown to XML
    # As in TeX, a slash has no space around it, and only brackets after \left and \right grow.
    element = element.replace('<mo stretchy="false">/</mo>', '<mo lspace="0em" rspace="0em">/</mo>')
    return element if r"\left" in latex else _BRACKET.sub(r'<mo stretchy="false">\1</mo>', element)


def _render(translator: nodes.NodeVisitor, node: nodes.math | nodes.math_block, block: bool) -> None:
    try:
        formula = mathml(node.astext(), block)
    except MathError as error:
        logger.warning("%s: %s", node.astext(), error, location=node)
        formula = translator.encode(node.astext())
    translator.body.append(f'<div class="math">{formula}</div>\n' if block else formula)
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer; conf.py chooses it by `html_math_renderer = "mathml"`."""
    app.add_html_math_renderer(
        "mathml",
        inline_renderers=(lambda translator, node: _render(translator, node, block=False), None),
        block_renderers=(lambda translator, node: _render(translator, node, block=True), None),
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
