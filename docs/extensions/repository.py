"""Include results-reference/ as pages, and drop links to folders."""

import re
import shutil
from pathlib import Path

from sphinx.application import Sphinx

RESULTS = Path(__file__).resolve().parents[2] / "results-reference"


def _copy(app: Sphinx) -> None:
    copy = Path(app.srcdir) / RESULTS.name
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(RESULTS, copy)


def _change_links(app: Sphinx, page: str, source: list[str]) -> None:
    """Adapt the links between docs/ and results-reference/. In the repository they are neighbours; in the built pages
    the results lie below docs/."""
    text = source[0].replace(f"](../{RESULTS.name}/", f"]({RESULTS.name}/").replace("](../docs/", "](../")
    source[0] = re.sub(r"\[([^\]]+)\]\((?:[\w./-]*/|\.\./benchmarks/[\w/]+\.md[\w#-]*)\)", r"\1", text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Copy the results before Sphinx reads its sources, and change links as pages are read."""
    app.connect("builder-inited", _copy)
    app.connect("source-read", _change_links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
