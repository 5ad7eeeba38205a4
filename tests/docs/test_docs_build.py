"""The documentation builds without a warning, and its pages need no network."""

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from docs.extensions.reference import BUILT, SHOWN, names

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow  # .ci/run builds them too, by `make docs`


def _attributes(page: Path, elements: str, attribute: str) -> list[str]:
    """What these elements of a page link to or load."""
    found = re.findall(rf"<(?:{elements})\b([^>]*)>", page.read_text())
    plain = [text for text in found if not re.search(r'rel="(canonical|search|index)"', text)]
    return [name for text in plain for name in re.findall(rf'\b{attribute}="([^"]+)"', text)]


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
        loads = _attributes(page, "link", "href") + _attributes(page, "script|img|iframe|source", "src")
        assert not [load for load in loads if re.match(r"(\w+:)?//", load)], page
    for style in html.rglob("*.css"):
        assert not re.search(r"url\([\"']?(\w+:)?//|@import", style.read_text()), style


def test_links_lead_somewhere(html):
    pages = list(html.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        for link in _attributes(page, "a", "href"):
            target, _ = urldefrag(link)
            if target and not re.match(r"\w+:", target):
                assert (page.parent / unquote(target)).exists(), f"{page}: {link}"
