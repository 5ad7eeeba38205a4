"""Convert the equations of docstrings, plain symbols such as c_i = C(g_i − ĝ_i), to LaTeX."""

import re
import unicodedata

FUNCTIONS = "Bernoulli|DCT|NS|clip|exp|log|max|mean|min|orth|rint|sgn|step"
WORD = re.compile(r"[a-z]{2}|[A-Z]{3}|[A-Z]{2}\d|\d-\w")
"""Matches words such as `with`, `LAMB`, `EF21` and `1-bit`, but no symbols."""

ACCENTS = {"\u0302": "hat", "\u0303": "tilde", "\u0304": "bar"}
SUBSCRIPTS = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))
SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻ᴷᵇᵉᵀ", [*"0123456789-Kbe", r"\top "], strict=True))
SYMBOLS = dict(
    re.findall(
        r"(\S) (\S+)",
        """α alpha β beta γ gamma δ delta ε varepsilon ζ zeta η eta θ theta κ kappa λ lambda μ mu ν nu ξ xi π pi ρ rho
        σ sigma τ tau φ varphi ω omega ℓ ell Δ Delta Σ Sigma ∇ nabla ∞ infty ← leftarrow → to ≤ le ≥ ge ≈ approx
        ∈ in ± pm · cdot × times ‖ Vert ⌊ lfloor ⌋ rfloor ⌈ lceil ⌉ rceil … ldots % % # # & &""",
    )
)
LABEL = re.compile(r"(worker|server|replica|all|always|else|stage \d|t [≤>] \S+|t = \S+, \S+, …):?\s{2,}")
"""The actor or condition before the equations of a line."""


def paragraph(text: str) -> str:
    """Convert prose of a docstring: mark `code` and equations, escape other markup."""
    pieces = text.split("`")
    pieces[::2] = [_prose(piece) for piece in pieces[::2]]
    pieces[1::2] = [rf"\ ``{code}``\ " for code in pieces[1::2]]
    return "".join(pieces)


def block(text: str) -> list[str]:
    """Convert an indented block of equations to a table with its labels, or to lines if it has none."""
    lines = [line for line in text.splitlines() if line.strip()]
    least = min(len(line) - len(line.lstrip()) for line in lines)
    rows: list[tuple[list[str], list[str]]] = []
    for line in lines:
        rest = line.strip()
        labels = [""] * (line[least] == " ")
        while match := LABEL.match(rest):
            labels, rest = [*labels, match[1]], rest[match.end() :]
        if any(labels) or not rows:
            rows.append((labels if any(labels) else [], []))
        rows[-1][1].append(" \u2003".join(map(paragraph, re.split(r" {2,}", rest))))
    width = max(len(labels) for labels, _ in rows)
    if not width:
        return [*(f"| {line}" for _, rest in rows for line in rest), ""]
    table = [".. list-table::", "   :class: equations", ""]
    for labels, rest in rows:
        cells = [*map(paragraph, labels), *[""] * (width - len(labels)), f"| {rest[0]}"]
        table += [f"   {' ' if place else '*'} - {cell}" for place, cell in enumerate(cells)]
        table += [f"       | {line}" for line in rest[1:]]
    return [*table, ""]


def latex(text: str) -> str:
    text = re.sub(r"(?<![_^])\{((?:[^{}]|\{[^{}]*\})*)\}", r"\\{\1\\}", text)  # a set
    text = re.sub(r"\b(\d+)e([-−]?\d+)", r"\1·10^{\2}", text).replace("1·10^", "10^").replace("‖∞", "‖_∞")
    text = _roots(unicodedata.normalize("NFD", text.replace("≠", r"\ne ")))
    text = re.sub(f"(.)([{''.join(ACCENTS)}])", lambda found: rf"\{ACCENTS[found[2]]}{{{found[1]}}}", text)
    for digits, sign in ((SUPERSCRIPTS, "^"), (SUBSCRIPTS, "_")):
        text = re.sub(f"[{''.join(digits)}]+", lambda m: f"{sign}{{{''.join(map(digits.get, m[0]))}}}", text)  # noqa: B023
    text = re.sub(r"_([^\W_]+|∞)", r"_{\1}", text)
    text = re.sub(rf"(?<![A-Za-z\\])({FUNCTIONS})(?![A-Za-z])(±?)", r"\\operatorname{\1}\2", text)
    text = text.replace("}±", r"}_\pm ").replace("−", "-")
    return "".join(rf"\{SYMBOLS[symbol]} " if symbol in SYMBOLS else symbol for symbol in text).strip()


def _prose(text: str) -> str:
    """Convert a part of a sentence without code. Successive symbols, up to a comma, are an equation."""
    done: list[str] = []
    run: list[str] = []
    tokens = re.findall(r"\s+|\S+", text)
    for place, token in enumerate(tokens):
        if not token.isspace() and _is_word(token, "".join(tokens[place + 1 : place + 3]).strip()):
            done += [_equation("".join(run)), _escape(token)]
            run = []
        else:
            run.append(token)
            whole = "".join(run)
            if token[-1] in ",;:." and all(
                whole.count(one) <= whole.count(other) for one, other in ("()", "[]", "{}")
            ):
                done.append(_equation(whole))
                run = []
    return "".join([*done, _equation("".join(run))])


def _is_word(token: str, after: str) -> bool:
    if token in ("a", "A", "I"):
        return not re.match(r"[=←+−·/^≤≥<>]", after)
    if re.search("[a-z]{2}_[a-z]{2}", token):
        return True
    symbols = re.sub(
        rf"(?<![A-Za-z])({FUNCTIONS})(?=[±_({{⁻₀-₉²])|_\{{[^}}]*\}}|_\w+|(?<![\w])\d+e[-−]?\d+", "", token
    )
    return bool(WORD.search(symbols))


def _equation(text: str) -> str:
    """Mark symbols as an equation, unless they are only numbers or punctuation."""
    body = re.sub(r"('s)?[\s(,;.:]*$", "", text).strip()
    while body.endswith(")") and body.count(")") > body.count("("):
        body = body[:-1].rstrip(",;.: ")
    while body.startswith("(") and body.count("(") > body.count(")"):
        body = body[1:]
    symbols = r"[=←→≤≥<>+−·×/^√‖]|_\w|[A-Za-z]\(|[^\x00-\x7f–—’“”]"
    if not body or not (
        re.search(symbols, body) or re.fullmatch(r"(\d+[A-Za-z]|[B-HJ-Zb-z])'?( \[.*\])?|\d+e[-−]?\d+", body)
    ):
        return _escape(text)
    before, after = text.split(body, 1)
    return rf"{_escape(before)}\ :math:`{latex(body)}`\ {_escape(after)}"


def _escape(prose: str) -> str:
    return re.sub(r"([\\*|_])", r"\\\1", prose)


def _roots(text: str) -> str:
    """Convert every √ with its argument: a bracket, a function of one, or a symbol with its index."""
    while match := re.search(r"√(?:(max)?\(|(\d+(?:\^\{\S+?\})?|.[\u0302-\u0304]?(?:_\w)?))", text):
        end = match.end()
        if not match[2]:
            while end < len(text) and text[match.end() - 1 : end].count("(") > text[match.end() - 1 : end].count(")"):
                end += 1
        inside = match[2] or text[match.end() : end - 1]
        inside = f"{match[1]}({inside})" if match[1] else inside
        text = rf"{text[: match.start()]}\sqrt{{{inside}}}{text[end:]}"
    return text
