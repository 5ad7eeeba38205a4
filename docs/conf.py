"""Sphinx configuration for `make docs`. Files that git ignores here are written or copied before each build."""

import sys
import tomllib
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

_project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
project = "Communication-compressed adaptive optimization"
release = _project["version"]
author = copyright = "the developers of compressed-adaptive-optimization"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx-mathjax-offline",  # MathJax without a network
    "docs.extensions.docstrings",
    "docs.extensions.pages",
    "docs.extensions.repository",
]
exclude_patterns = ["_build"]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
highlight_language = "none"

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_type_aliases = {"Payload": "Payload"}  # a recursive type
maximum_signature_line_length = 90

html_theme = "furo"
html_title = project
html_copy_source = False
html_static_path = ["style"]
html_css_files = ["wrap.css"]
mathjax3_config = {"options": {"enableMenu": False}}


def setup(app):
    """Keep viewcode from looking for aliases of built-in types, such as `Payload`, among the built-ins."""
    app.connect("viewcode-follow-imported", _find_alias)


def _find_alias(app, module, name):
    found = getattr(import_module(module), name, None)
    return module if getattr(found, "__module__", None) == "builtins" else None
