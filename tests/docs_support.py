"""Parse the documentation's pages: commands, blocks of code, files and links."""

import re
import shlex
from dataclasses import dataclass
from itertools import pairwise, takewhile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

PAGES = [
    page
    for pattern in ("*.md", "docs/*.md", "examples/**/README.md", "results-reference/*.md")
    for page in sorted(ROOT.glob(pattern))
]

_BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<language>\S*)[^\n]*\n(?P<body>.*?)^(?P=indent)```", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True)
class Block:
    """Code on a page. `file` is its path, if the paragraph before names one."""

    page: Path
    line: int
    language: str
    body: str
    file: str | None


@dataclass(frozen=True)
class Command:
    """A command line of a page, and its documented exit status."""

    page: Path
    line: int
    text: str
    status: int = 0

    @property
    def words(self) -> list[str]:
        """The words as a shell splits them, without the variables set before the command."""
        return shlex.split(self.text)[len(self.variables) :]

    @property
    def variables(self) -> dict[str, str]:
        set_first = takewhile(lambda word: re.match(r"[A-Z_]+=", word), shlex.split(self.text))
        return dict(word.split("=", 1) for word in set_first)

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path, language: str | None = None) -> list[Block]:
    """The code blocks of a page, of one language if it is given."""
    text, found = page.read_text(), []
    for match in _BLOCK.finditer(text):
        before = text[: match.start()].rstrip().rpartition("\n\n")[2]
        names = re.findall(r"`([\w/]+\.(?:py|yaml))`", before)
        shown = names[-1] if names and match["language"] in ("python", "yaml") else None
        found.append(Block(page, text.count("\n", 0, match.start()) + 1, match["language"], match["body"], shown))
    return [block for block in found if language in (None, block.language)]


def commands(page: Path) -> list[Command]:
    """Every command line of the page's shell blocks."""
    return [command for block in blocks(page, "sh") for command in _lines(block)]


def sessions(page: Path) -> list[tuple[list[Command], str]]:
    """Pairs of a shell block's commands and the text block after it, the output of the last command."""
    pairs = pairwise(blocks(page))
    return [(_lines(one), two.body) for one, two in pairs if (one.language, two.language) == ("sh", "text")]


def links(page: Path) -> list[str]:
    """The local targets of the page's links and pictures."""
    return re.findall(r"\]\((?!https?:)([^)\s]+)\)", _BLOCK.sub("", page.read_text()))


def sentences(page: Path) -> list[str]:
    """The sentences in paragraphs, list items and table cells, without code and link targets."""
    text = re.sub(r"\]\([^)]*\)", "]", _BLOCK.sub("\n\n", page.read_text()))
    parts = re.split(r"\n\s*\n|^    .*$|^\s*[-*] |^#.*$|\|", text, flags=re.MULTILINE)
    return [sentence for part in parts for sentence in re.split(r"(?<=[.!?])\s+", " ".join(part.split())) if sentence]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and MyST name them."""
    headings = re.findall(r"^#+ (.*)$", _BLOCK.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _lines(block: Block) -> list[Command]:
    """The commands of a shell block without comments. Lines continued by a backslash are joined."""
    found = []
    body = re.sub(r"\\\n", "  ", block.body)
    for number, line in enumerate(body.splitlines(), start=block.line + 1):
        text, _, comment = line.partition(" #")
        status = re.search(r"exits with status (\d)", comment)
        if text.strip():
            found.append(Command(block.page, number, text.strip(), int(status[1]) if status else 0))
    return found
