"""What pages show of the repository around them: results-reference/ as pages, and no links to folders."""

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
    """Sources link to what lies beside docs/, and results to docs/, so that they can be read in place; built pages
    have nothing beside them, and the results among them."""
    text = source[0].replace(f"](../{RESULTS.name}/", f"]({RESULTS.name}/").replace("](../docs/", "](../")
    source[0] = re.sub(r"\[([^\]]+)\]\((?:[\w./-]*/|\.\./benchmarks/[\w/]+\.md[\w#-]*)\)", r"\1", text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Copy before Sphinx looks for its sources; change links as they are read."""
    app.connect("builder-inited", _copy)
    app.connect("source-read", _change_links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
