"""The words on a figure: in lines that fit, and as matplotlib draws them."""

import math
import re
import textwrap
from collections.abc import Sequence

from matplotlib.cbook import is_math_text
from matplotlib.mathtext import MathTextParser


def joined(names: Sequence[str]) -> str:
    """As a list in words; names with commas of their own are set apart by semicolons."""
    if any("," in name for name in names):
        return "; ".join(names)
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def in_lines(text: str, most: int) -> str:
    """A label in lines of about equal length where it has more than `most` characters; formulas are left whole."""
    if "\n" in text:
        return "\n".join(in_lines(line, most) for line in text.split("\n"))
    words = re.findall(r"(?:\$[^$]*\$|[^\s$])+", text)
    seen = [len(re.sub(r"\\[A-Za-z]+", "x", re.sub(r"[${}_^]|\\[,;!|]", "", word))) for word in words]
    length = sum(seen) + len(words) - 1
    if length <= most:
        return text
    longest, lines, size = length / math.ceil(length / most) + 3, [""], 0
    for word, width in zip(words, seen, strict=True):
        if lines[-1] and size + 1 + width > longest:
            lines, size = [*lines, ""], 0
        size += width + bool(lines[-1])
        lines[-1] += " " * bool(lines[-1]) + word
    return "\n".join(lines)


def balanced(text: str, most: int) -> str:
    """A text in as few lines of at most so many characters as that takes, without a word alone in the last."""
    least = min(most, len(text) // math.ceil(max(len(text), 1) / most) + 8)
    return min((textwrap.fill(text, width) for width in (least, most)), key=lambda lines: lines.count("\n"))


def drawable(text: str) -> str:
    """A text as matplotlib draws it: a formula between dollars that does not parse is drawn as it is written."""
    lines = text.split("\n")
    return "\n".join(line if _parses(line) else re.sub(r"(?<!\\)\$", r"\$", line) for line in lines)


def _parses(line: str) -> bool:
    try:
        if is_math_text(line):
            MathTextParser("path").parse(line)
    except ValueError:
        return False
    return True
