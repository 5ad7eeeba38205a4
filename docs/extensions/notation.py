"""The mathematics of docstrings and comments, written there in its own symbols, as LaTeX.

A text is taken apart into prose, `code` and mathematics. A stretch is mathematics where it parses as such and holds
something that prose does not: a letter on its own, a Greek letter, an exponent, a norm, a root, an arrow.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import NamedTuple

from docs.extensions.symbols import (
    BRACKETS,
    EXPONENTS,
    FUNCTIONS,
    IN_BRACKETS,
    INDICES,
    INEQUALITIES,
    NEVER_PROSE,
    OPERATORS,
    RELATIONS,
    SIGNS,
    letter,
)

_LATIN = "A-Za-zÀ-ÖØ-öø-ž"
_PROSE = re.compile(rf"[\s -~{_LATIN}−→…–—’“”·×±]*")  # what may be left over as text
_TOKEN = re.compile(
    rf"""(?P<space>\s+)
    |(?P<code>`[^`]+`)
    |(?P<function>(?:mean|code)(?=_[{_LATIN}]\b)|(?:sgn±?|max|min|log|rint|Bernoulli)(?![{_LATIN}_'-]))
    |(?P<word>(?<!\S)-[a-z]\b|i\.e\.|e\.g\.|I/O|(?:[{_LATIN}]|[0-9.]+)'s\b|[aAI](?=[\s.,;:)]|$)
        |(?:[0-9]+-|[{_LATIN}]-)?[{_LATIN}]{{2,}}(?:[{_LATIN}0-9]|[-._'’](?=[{_LATIN}0-9]))*
        |[a-z][0-9]+[a-z]?\b|[0-9]+[abc]\b)  # such as l1 and a9a, and claim 12b
    |(?P<letter>[{_LATIN}ḡα-ωΑ-Ω∇ℓ][\u0302-\u0304]*)
    |(?P<number>[0-9]+(?:,[0-9]{{3}})+|[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?)
    |(?P<exponent>[{"".join(EXPONENTS)}]+)
    |(?P<index>[{"".join(INDICES)}]+)
    |(?P<dots>\.\.\.|…)
    |(?P<other>.)""",
    re.VERBOSE,
)


class UnknownSymbol(ValueError):
    """A character that prose does not use and that is no mathematics known here."""


class Span(NamedTuple):
    """A stretch of text: its kind is `text`, `code` or `math`, its content LaTeX where it is mathematics."""

    kind: str
    content: str


def spans(text: str, fractions: bool = False) -> list[Span]:
    """The text in stretches of prose, code and mathematics; with `fractions` a/b is written with a bar.

    Raises UnknownSymbol for a character that none of them can hold.
    """
    reader = _Reader(unicodedata.normalize("NFC", text), fractions)
    found: list[Span] = []
    prose, i = "", 0
    while (token := reader.tokens[i]).kind != "end":
        part = None if token.kind in ("space", "code") else reader.terms(i)
        if token.kind == "code" or (part and part.certain):
            span = Span("math", part.latex) if part else Span("code", token.text.strip("`"))
            found += [*_prose(prose, text), span]
            prose, i = "", part.end if part else i + 1
        else:
            prose, i = prose + token.text, i + 1
    return found + _prose(prose, text)


def _prose(stretch: str, text: str) -> list[Span]:
    unknown = _PROSE.sub("", stretch)
    if unknown:
        raise UnknownSymbol(f"{unknown[0]!r} in {text!r}: teach docs/extensions/symbols.py what it is in LaTeX")
    return [Span("text", stretch)] if stretch else []


class _Token(NamedTuple):
    kind: str
    text: str


@dataclass
class _Part:
    """What parsed as mathematics, up to before the token `end`."""

    latex: str
    end: int
    certain: bool  # prose cannot look like that
    inner: str = ""  # what a bracket holds
    role: str = "term"  # or relation, sign, operator
    gap: bool = False  # there is a space before it

    @property
    def is_word(self) -> bool:
        return self.latex.startswith(r"\text")


class _Reader:
    """Recursive descent over the tokens of one text. What does not parse is None: the caller takes it as prose."""

    def __init__(self, text: str, fractions: bool) -> None:
        self.tokens = [_Token(match.lastgroup, match.group()) for match in _TOKEN.finditer(text)]
        self.tokens += [_Token("end", "")] * 3  # so that looking ahead needs no care
        self.fractions = fractions

    def terms(self, i: int, closed_by: str | None = None, words: bool = False) -> _Part | None:
        """Terms and operators, as far as they go or up to what closes the bracket around them.

        `words` says whether words may be among them, as in ⌊warmup·rounds⌋.
        """
        parts: list[_Part] = []
        while True:
            gap = self.tokens[i].kind == "space"
            i += gap
            text = self.tokens[i].text
            if closed_by and text and text in closed_by:
                break
            part = _operator(text, i + 1, closed_by is not None)
            part = part or self._term(i, words or _takes_words(parts[-1:], text))
            if part is None or (parts and parts[-1].is_word and part.is_word):  # two words in a row are prose
                break
            part.gap = gap
            parts.append(part)
            i = part.end
        while parts and parts[-1].role in ("sign", "operator"):
            parts.pop()
        if not any(part.role == "term" for part in parts) or parts[0].role == "operator":
            return None
        if self.fractions and closed_by is None:
            parts = _with_bars(parts)
        return _Part(_typeset(parts), parts[-1].end, any(part.certain for part in parts))

    def _term(self, i: int, words: bool) -> _Part | None:
        """A letter, number, function, root or bracket, with its indices, exponents and arguments."""
        base = self._base(i, words)
        if base is None:
            return None
        part = self._with_scripts(base)
        kind, text = self.tokens[i]
        if self.tokens[part.end].text == "(" and (kind == "function" or text[0].isupper()):
            arguments = self._bracket(part.end, words=True)
            if arguments:
                return self._with_scripts(_Part(part.latex + arguments.latex, arguments.end, certain=True))
        return part

    def _base(self, i: int, words: bool) -> _Part | None:
        kind, text = self.tokens[i]
        if kind == "letter":
            blackboard = text == "R" and self.tokens[i + 1].text == "^"
            return _Part(r"\mathbb{R}" if blackboard else letter(text), i + 1, certain=True)
        if kind == "number":
            digits, _, power = text.partition("e")
            return _Part(_power_of_ten(digits, power) if power else digits, i + 1, certain=bool(power))
        if kind == "function":
            return _Part(FUNCTIONS[text], i + 1, certain=False)
        if kind == "dots":
            return _Part(r"\ldots", i + 1, certain=False)
        if kind == "word" and (words or self.tokens[i + 1].text == "·"):
            return _Part(rf"\text{{{text}}}", i + 1, certain=False)
        if text == "√":
            under = self._term(i + 1, words=True)
            return under and _Part(rf"\sqrt{{{under.inner or under.latex}}}", under.end, certain=True)
        return self._bracket(i, words) if text in BRACKETS else None

    def _bracket(self, i: int, words: bool) -> _Part | None:
        opening = self.tokens[i].text
        closed_by, left, right = BRACKETS[opening]
        certain = opening in NEVER_PROSE
        content = self.terms(i + 1, closed_by, words or certain)
        if content is None:
            return None
        end = content.end + (self.tokens[content.end].kind == "space")
        closing = self.tokens[end].text
        if not closing or closing not in closed_by:
            return None
        latex = _join(_join(left, content.latex), closing if opening == "[" else right)
        certain = certain or content.certain or content.latex.startswith(r"\ldots")  # the shape [..., 1]
        return _Part(latex, end + 1, certain, inner=content.latex)

    def _with_scripts(self, part: _Part) -> _Part:
        index, exponent, i = "", "", part.end
        while True:
            kind, text = self.tokens[i]
            if kind == "index":
                index = "".join(INDICES[char] for char in text)
            elif kind == "exponent":
                exponent = "".join(EXPONENTS[char] for char in text)
            elif text in ("_", "^") and (script := self._script(i + 1)):
                index, exponent = (script.latex, exponent) if text == "_" else (index, script.latex)
                i = script.end - 1
            else:
                break
            i += 1
        scripts = [(sign, script) for sign, script in (("_", index), ("^", exponent)) if script]
        latex = part.latex + "".join(sign + (text if len(text) == 1 else f"{{{text}}}") for sign, text in scripts)
        return _Part(latex, i, certain=True) if scripts else part

    def _script(self, i: int) -> _Part | None:
        """What stands after _ or ^: one letter, number or name, or what a bracket holds."""
        kind, text = self.tokens[i]
        if text in ("{", "("):
            bracket = self._bracket(i, words=True)
            return bracket and _Part(bracket.inner, bracket.end, certain=True)
        return self._base(i, words=True) if kind in ("letter", "number", "word") else None


def _operator(text: str, end: int, in_brackets: bool) -> _Part | None:
    if text in RELATIONS:
        return _Part(RELATIONS[text], end, text in NEVER_PROSE, role="relation")
    if text in SIGNS:
        return _Part(SIGNS[text], end, certain=False, role="sign")
    if text in OPERATORS:
        return _Part(OPERATORS[text], end, certain=False, role="operator")
    if in_brackets and text in IN_BRACKETS:
        return _Part(IN_BRACKETS[text], end, certain=False, role="sign" if text in "-*" else "relation")
    return None


def _takes_words(before: list[_Part], text: str) -> bool:
    """Words are part of the mathematics after an inequality, and in brackets after any operator."""
    if not before or before[0].role == "term":
        return False
    return text in BRACKETS or before[0].latex in INEQUALITIES.values()


def _power_of_ten(digits: str, power: str) -> str:
    return ("" if digits == "1" else rf"{digits} \cdot ") + f"10^{{{int(power)}}}"


def _with_bars(parts: list[_Part]) -> list[_Part]:
    """a/b as a fraction, of the one term before the slash and the one after it."""
    done: list[_Part] = []
    for part in parts:
        if len(done) >= 2 and done[-1].latex == "/" and done[-2].role == part.role == "term":
            done.pop()
            over = done.pop()
            latex = rf"\frac{{{over.inner or over.latex}}}{{{part.inner or part.latex}}}"
            part = _Part(latex, part.end, certain=True, gap=over.gap)
        done.append(part)
    return done


def _typeset(parts: list[_Part]) -> str:
    latex, last = "", "sign"
    for part in parts:
        if part.role == "term":
            if last == "term" and part.gap:
                latex += r"\;" if part.latex[0] == "[" else r"\,"
            latex = _join(latex, part.latex)
        elif part.latex in ("/", "{*}"):
            latex += part.latex
        elif part.latex in (",", r"\%"):
            latex += {",": ", ", r"\%": r"\,\%"}[part.latex]
        elif part.role == "sign" and last != "term":
            latex = _join(latex, part.latex)
        else:
            latex += f" {part.latex} "
        last = part.role
    return latex.strip()


def _join(left: str, right: str) -> str:
    """LaTeX side by side, apart where a command would run into a letter."""
    return left + " " * bool(re.search(r"\\[A-Za-z]+$", left) and right[:1].isalpha()) + right
