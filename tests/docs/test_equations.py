"""The mathematics of docstrings becomes LaTeX, and nothing of it is lost on the way."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import unicodedata
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest

import algorithms
from algorithms.methods.cd_adam import cd_adam
from algorithms.methods.onebit_adam import onebit_adam
from algorithms.methods.qadam import qadam
from docs.extensions.equations import Row, inline, restructured, rows
from docs.extensions.mathml import mathml
from docs.extensions.notation import UnknownSymbol, spans


def _docstrings() -> Iterator[tuple[str, str]]:
    for found in pkgutil.walk_packages(algorithms.__path__, "algorithms."):
        module = importlib.import_module(found.name)
        yield found.name, module.__doc__
        for name, value in vars(module).items():
            if getattr(value, "__module__", None) != found.name or name.startswith("_"):
                continue
            members = vars(value).items() if inspect.isclass(value) else ()
            parts = [(name, value), *((f"{name}.{k}", v) for k, v in members if inspect.isfunction(v))]
            yield from ((f"{found.name}.{label}", part.__doc__) for label, part in parts if part.__doc__)


DOCSTRINGS = dict(_docstrings())


def _block(function) -> list[Row]:
    lines = inspect.cleandoc(function.__doc__).splitlines()
    return rows([line for line in lines if line.startswith("    ")])


def _latex(text: str) -> str:
    [span] = spans(text, fractions=True)
    assert span.kind == "math"
    return span.content


def test_algorithm_1_of_cd_adam_line_by_line():
    found = [(row.labels, [_latex(formula) for formula in row.formulas], row.note) for row in _block(cd_adam)]
    assert found == [
        (
            ["worker"],
            [r"c_i = C(g_i - \hat{g}_i)", r"\hat{g}_i \leftarrow \hat{g}_i + c_i"],
            "Algorithm 1, lines 5 and 6",
        ),
        (["server"], [r"\hat{g} \leftarrow \hat{g} + \operatorname{mean}_i\,c_i"], "line 8"),
        (
            [""],
            [r"\tilde{c} = C(\hat{g} - \tilde{g})", r"\tilde{g} \leftarrow \tilde{g} + \tilde{c}"],
            "lines 9 and 10; dense where `uplink_only`",
        ),
        (["replica"], [r"\tilde{g} \leftarrow \tilde{g} + \tilde{c}"], "line 12"),
        (
            [""],
            [
                r"m \leftarrow \beta_1m + (1 - \beta_1)\tilde{g}",
                r"v \leftarrow \beta_2v + (1 - \beta_2)\tilde{g}^2",
                r"\hat{v} \leftarrow \operatorname{max}(\hat{v}, v)",
            ],
            "lines 13 to 15",
        ),
        ([""], [r"x \leftarrow x - \alpha \cdot \frac{m}{\sqrt{\hat{v} + \nu}}"], "line 16"),
    ]


def test_columns_of_phases_and_roles():
    found = _block(onebit_adam)
    assert [row.labels for row in found] == [
        ["t ≤ T_w", ""], ["t > T_w", "worker"], ["", "server"], ["", "replica"], ["always", ""],
    ]  # fmt: skip
    assert found[3].formulas == ["m ← z, zero where v = 0"]
    assert [row.note for row in found] == ["", "", "dense where `uplink_only`", "", ""]


def test_fractions_within_fractions_keep_their_slash():
    [formula] = _block(qadam)[-1].formulas
    assert _latex(formula) == (
        r"x \leftarrow x - \frac{\alpha}{1 - \beta_1^t} \cdot \frac{m}{\sqrt{v}/\sqrt{1 - \beta_2^t} + \varepsilon}"
    )


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("2⁻ᴷ‖x‖∞", r":math:`2^{-K}{\|x\|}_{\infty}`"),
        ("S = 255/(max − min + 10⁻⁷)", r":math:`S = 255/(\operatorname{max} - \operatorname{min} + 10^{-7})`"),
        ("E‖C(x) − x‖² ≤ ‖x‖²/8", r":math:`\mathbb{E}{\|C(x) - x\|}^2 \le {\|x\|}^2/8`"),
        ("⌈log₂(2s + 1)⌉·d", r":math:`{\lceil \operatorname{log}_2(2s + 1)\rceil} \cdot d`"),
        ("k = max(1, ⌊ratio·d⌋)", r":math:`k = \operatorname{max}(1, {\lfloor \text{ratio} \cdot d\rfloor})`"),
        (
            "T^(−1/2), λ − (see there), x ≤ most",
            r":math:`T^{-1/2}`\ , :math:`\lambda` − (see there), :math:`x \le \text{most}`",
        ),
        ("their sgn(0) is 0", r"their :math:`\operatorname{sgn}(0)` is 0"),
        ("one float: width·d + 32 bits", r"one float: :math:`\text{width} \cdot d + 32` bits"),
        ("ν = 1e-8 inside", r":math:`\nu = 10^{-8}` inside"),
        ("the mean of |x_j|", r"the mean of :math:`{|x_j|}`"),
        ("a map of R^d (Algorithm 1, lines 5 and 6)", r"a map of :math:`\mathbb{R}^d` (Algorithm 1, lines 5 and 6)"),
        ("s = `levels`, 1-bit", r":math:`s =` ``levels``\ , 1-bit"),
        ("final_<metric>, 50 % of 8×8 | python -m it", r"final\_<metric>, 50 % of 8×8 \| python -m it"),
    ],
)
def test_mathematics_is_told_from_prose(text, marked):
    assert inline(text) == marked


@pytest.mark.parametrize("name", DOCSTRINGS)
def test_nothing_is_lost(name):
    """What a browser shows of a docstring is the docstring, but for spaces, brackets and how it is set."""
    for line in inspect.cleandoc(DOCSTRINGS[name]).splitlines():
        if "=1e-3" in line:  # code
            continue
        shown = "".join(_shown(span.content) if span.kind == "math" else span.content for span in spans(line))
        assert _characters(shown) == _characters(line), line


def _shown(latex: str) -> str:
    """The characters of a formula's MathML, which must be well-formed."""
    return "".join(ElementTree.fromstring(mathml(latex)).itertext())


def _characters(text: str) -> str:
    text = re.sub(r"\b1e-(\d+)", r"10-\1", text)
    text = unicodedata.normalize("NFKD", text)  # 𝔼 is E and ₁ is 1
    for mark, written in {"\u0302": "ˆ", "\u0303": "~", "\u0304": "ˉ", "·": "⋅", "−": "-"}.items():
        text = text.replace(mark, unicodedata.normalize("NFKD", written))
    return re.sub(r"[\s`_^(){}√\u2061]", "", text)


@pytest.mark.parametrize("name", DOCSTRINGS)
def test_no_mathematics_is_left_in_prose(name):
    for line in restructured(DOCSTRINGS[name]):
        prose = re.sub(r":math:`[^`]+`|``[^`]+``", "", line)
        assert not re.search(r"[α-ωΑ-Ω\u0300-\u036f√‖∇←≤≥⌊⌈⁰-₟]|\w_\w?\{", prose), line


def test_an_unknown_symbol_is_named():
    with pytest.raises(UnknownSymbol, match=r"'∮' in 'x ← ∮ f'.*symbols\.py"):
        inline("x ← ∮ f")


def test_an_index_stands_beside_an_accented_letter():
    [child] = ElementTree.fromstring(mathml(r"\hat{g}_i"))
    assert child.tag.endswith("msub")


def test_python_and_plain_blocks_stay_as_they_are():
    python = restructured("Text.\n\n    step(x)\n    go()\n\nMore.")
    assert python[2:6] == [".. code-block:: python", "", "    step(x)", "    go()"]
    plain = restructured("Text.\n\n    worker:  (state) → payload\n\nMore.")
    assert plain[2:5] == ["::", "", "    worker:  (state) → payload"]
