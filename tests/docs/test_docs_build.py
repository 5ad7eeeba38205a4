"""The documentation builds without a warning, and its pages need no network."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from docs.extensions.reference import BUILT, SHOWN, names

ROOT = Path(__file__).resolve().parents[2]
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}

pytestmark = pytest.mark.slow


class _Links(HTMLParser):
    """What a page links to and what it loads."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attributes}
        if tag == "a":
            self.links += filter(None, [found.get("href")])
        if tag in LOADED and found.get("rel") not in ("canonical", "search", "index"):
            self.loads += filter(None, [found.get(LOADED[tag])])


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("docs")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-E", "-d", out / "trees", "-b", "html"]
    done = subprocess.run([*command, ROOT / "docs", out / "html"], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return out / "html"


def test_every_file_of_the_configuration_has_its_page(html):
    assert set(names("algorithm")) == {page.stem for page in (html / "algorithms").glob("*.html")}
    assert {"keys", *BUILT, *SHOWN} == {page.stem for page in (html / "configuration").glob("*.html")}


def test_nothing_is_loaded_from_elsewhere(html):
    for page in html.rglob("*.html"):
        assert not [load for load in _Links(page).loads if re.match(r"(\w+:)?//", load)], page
    for style in html.rglob("*.css"):
        assert not re.search(r"url\([\"']?(\w+:)?//|@import", style.read_text()), style


def test_links_lead_somewhere(html):
    pages = list(html.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        for link in _Links(page).links:
            target, _ = urldefrag(link)
            if target and not re.match(r"\w+:", target):
                assert (page.parent / unquote(target)).exists(), f"{page}: {link}"
