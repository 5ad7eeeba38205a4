"""What a page calls methods, their variants and the settings in which they differ, and how it draws them."""

import re
from collections.abc import Iterable, Sequence

from plots.runs.variants import DASHES, Variant

_SYMBOLS = {
    "o": "circle", "s": "square", "D": "diamond", "^": "triangle-up", "v": "triangle-down", "<": "triangle-left",
    ">": "triangle-right", "X": "x", "x": "x", "P": "cross", "+": "cross", "p": "pentagon", "h": "hexagon",
    "H": "hexagon", "*": "star",
}  # fmt: skip
"""plotly's names of matplotlib's markers."""

_LINE = 2  # pixels


def methods(variants: Sequence[Variant]) -> list[dict]:
    """How each method is drawn, on every task and with all settings alike."""
    looks = {
        variant.run.algorithm: {
            "name": variant.run.algorithm,
            "label": variant.run.display["label"],
            "color": variant.run.display["color"],
            "symbol": _SYMBOLS.get(variant.run.display["marker"], "circle"),
            "dash": "solid",
        }
        for variant in reversed(variants)  # the first of a name decides
    }
    return sorted(looks.values(), key=lambda look: (look["label"].lower(), look["name"]))


def curves(variants: Sequence[Variant]) -> list[dict]:
    """The variants of methods by name, each with the dash that tells it from the others of its method."""
    looks = {
        variant.name: {
            "name": variant.name,
            "method": variant.run.algorithm,
            "label": variant.label,
            "dash": ",".join(f"{_LINE * length:g}px" for length in DASHES[variant.dash]) or "solid",
        }
        for variant in reversed(variants)
    }
    return sorted(looks.values(), key=lambda look: (_natural(look["label"]), look["name"]))


def ordered(settings: Iterable[dict[str, str]]) -> dict[str, list[str]]:
    """By key the values that there are, in order."""
    values: dict[str, set[str]] = {}
    for one in settings:
        for key, value in one.items():
            values.setdefault(key, set()).add(value)
    return {key: sorted(some, key=_natural) for key, some in values.items()}


def _natural(text: str) -> list[tuple[float, str]]:
    """A key to sort by in which 2 comes before 10 and 0.06 before 0.25."""
    parts = re.split(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)", text.lower())
    return [(float(part), "") if place % 2 else (-1.0, part) for place, part in enumerate(parts)]
