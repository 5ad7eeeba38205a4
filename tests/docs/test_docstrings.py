"""Docstrings reach their pages as they are written."""

import html
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator

import pytest
from docutils.core import publish_doctree
from docutils.nodes import literal

import algorithms
from docs.extensions.docstrings import restructured
from docs.extensions.equations import paragraph


def _docstrings() -> Iterator[tuple[str, str]]:
    """Those of every module, class, function and method of `algorithms`."""
    for found in pkgutil.walk_packages(algorithms.__path__, "algorithms."):
        module = importlib.import_module(found.name)
        yield found.name, module.__doc__ or ""
        for name, value in vars(module).items():
            if not callable(value) or getattr(value, "__module__", None) != found.name or name.startswith("_"):
                continue
            members = vars(value).items() if inspect.isclass(value) else ()
            parts = [(name, value), *((f"{name}.{k}", v) for k, v in members if inspect.isfunction(v))]
            yield from ((f"{found.name}.{label}", part.__doc__) for label, part in parts if part.__doc__)


DOCSTRINGS = dict(_docstrings())


@pytest.mark.parametrize("name", DOCSTRINGS)
def test_a_page_has_the_words_of_the_docstring(name):
    tree = publish_doctree("\n".join(restructured(DOCSTRINGS[name])), settings_overrides={"halt_level": 2})
    shown = tree.astext()  # a warning failed
    missing = [word for word in re.findall(r"(?<![\w\\])[A-Za-z]{4,}", DOCSTRINGS[name]) if word not in shown]
    assert not missing


def test_code_is_marked_and_markup_is_text():
    text = "text [*T, many] of `levels`' trailing_ and \\ (`norm: l1`)"
    tree = publish_doctree(paragraph(text), settings_overrides={"halt_level": 2})
    assert [node.astext() for node in tree.findall(literal)] == ["levels", "norm: l1"]
    assert html.unescape(tree.astext()) == text.replace("`", "")


def test_state_wire_and_source_are_fields():
    lines = restructured("It does.\n\nState: one on\nevery worker.\nWire: bits.")
    assert lines[2::2] == [":State: one on every worker.", ":Wire: bits."]
