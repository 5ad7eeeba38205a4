"""The symbols that docstrings and comments write mathematics with, and their LaTeX."""

from __future__ import annotations

import unicodedata

from docutils.utils.math.tex2unichar import mathalpha

LETTERS = {char: f"\\{name}" for name, char in mathalpha.items()} | {"∇": r"\nabla", "E": r"\mathbb{E}"}
MARKS = {"\u0302": r"\hat", "\u0303": r"\tilde", "\u0304": r"\bar"}  # above a letter
EXPONENTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ᵉᴷ", "0123456789+-eK", strict=True))
INDICES = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋", "0123456789+-", strict=True)) | {"∞": r"\infty"}
FUNCTIONS = {"sgn±": r"\operatorname{sgn}_\pm"} | {
    name: rf"\operatorname{{{name}}}" for name in ("max", "min", "log", "mean", "sgn", "rint", "code", "Bernoulli")
}
INEQUALITIES = {"≤": r"\le", "≥": r"\ge", "<": "<", ">": ">"}
RELATIONS = INEQUALITIES | {"←": r"\leftarrow", "≈": r"\approx", "=": "="}
SIGNS = {"−": "-", "±": r"\pm", "+": "+"}
OPERATORS = {"·": r"\cdot", "×": r"\times", "/": "/"}
IN_BRACKETS = {",": ",", "-": "-", "*": "{*}", "%": r"\%"}  # prose elsewhere
BRACKETS = {  # closed by, in LaTeX; in braces where nothing else would tell what an index belongs to
    "(": (")", "(", ")"),
    "[": ("])", "[", "]"),
    "{": ("}", r"\{", r"\}"),
    "|": ("|", "{|", "|}"),
    "‖": ("‖", r"{\|", r"\|}"),
    "⌊": ("⌋", r"{\lfloor ", r"\rfloor}"),
    "⌈": ("⌉", r"{\lceil ", r"\rceil}"),
}
NEVER_PROSE = set("←≤≥≈‖⌊⌈√")


def letter(text: str) -> str:
    """The LaTeX of one letter with the marks above it."""
    base, *marks = unicodedata.normalize("NFD", text)
    latex = LETTERS.get(base, base)
    for mark in marks:
        latex = f"{MARKS[mark]}{{{latex}}}"
    return latex
