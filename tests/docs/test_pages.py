"""The written pages say everything that the code and the configuration hold."""

import inspect
import re
from functools import cache
from pathlib import Path

import pytest
from hydra.utils import get_object

from docs.extensions.equations import latex, paragraph
from docs.extensions.pages import algorithm, compressors, pages
from docs.extensions.reference import BUILT, KEYS, composed, names, of_choice, of_schema

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("name", names("algorithm"))
def test_an_algorithm_s_page_shows_its_function(name):
    target = composed(f"algorithm={name}")["algorithm"]["_target_"]
    page = "\n".join(algorithm(name))
    assert f".. autofunction:: {target}\n" in page
    said = inspect.getdoc(get_object(target)) or ""
    assert all(f"\n{part}: " in said for part in ("State", "Wire"))


def test_every_compressor_is_on_their_page():
    text = "\n".join(compressors())
    for name in names("compressor"):
        kind = composed(f"compressor={name}")["compressor"]["_target_"].rpartition(".")[2]
        assert re.search(rf"\b{name}\b", text)
        assert f".{kind}\n" in text


@pytest.mark.parametrize(
    ("plain", "rendered"),
    [
        ("ĝ ← ĝ + mean_i c_i", r"\hat{g} \leftarrow  \hat{g} + \operatorname{mean}_{i} c_{i}"),
        ("x − α·m/√(v̂ + ν)", r"x - \alpha \cdot m/\sqrt{\hat{v} + \nu }"),
        ("‖C(x)‖₁²/√d_j", r"\Vert C(x)\Vert _{1}^{2}/\sqrt{d_{j}}"),
        ("m/√max(v, 1e-16)", r"m/\sqrt{\operatorname{max}(v, 10^{-16})}"),
        ("P = orth(M_iᵀ Q)", r"P = \operatorname{orth}(M_{i}^{\top } Q)"),
    ],
)
def test_plain_symbols_become_latex(plain, rendered):
    assert latex(plain) == rendered
    assert paragraph(f"with {plain}, as `{plain}`") == rf"with \ :math:`{rendered}`\ , as \ ``{plain}``\ "


def test_every_file_that_asks_for_the_device_is_on_its_page():
    text = (DOCS / "gpu_differences.md").read_text()
    asking = [
        file.relative_to(DOCS.parent).as_posix()
        for package in ("algorithms", "benchmarks", "common", "data", "experiments", "plots")
        for file in (DOCS.parent / package).rglob("*.py")
        if re.search(r"device\.type|\.is_cuda|torch\.cuda\.", file.read_text())
    ]
    assert len(asking) > 8
    assert not [file for file in asking if f"../{file}" not in text]


written = cache(pages)


def _leaves(node: object, prefix: str = "") -> list[str]:
    if isinstance(node, dict) and node:
        return [leaf for key, value in node.items() for leaf in _leaves(value, f"{prefix}{key}.")]
    return [prefix.removesuffix(".")]


@cache
def _shown() -> set[str]:
    """The keys that the reference has an entry for."""
    lines = [line for name in ("keys", *BUILT) for line in written()[f"configuration/{name}.rst"]]
    return {key for line in lines for key in re.findall(r"^``([\w.]+)`` = ", line)}


@pytest.mark.parametrize(("group", "name"), [(group, name) for group in BUILT for name in names(group)])
def test_every_key_and_option_of_a_choice_is_in_the_reference_and_says_what_it_is(group, name):
    leaves = _leaves(composed(f"{group}={name}"))
    labels = re.compile(r".*\._target_|(algorithm|task)\.(name|(display|entry)\..*)|logger\.targets\..*|sweep")
    assert {leaf for leaf in leaves if not labels.fullmatch(leaf)} <= _shown()
    assert f"``{name}``" in written()[f"configuration/{group}.rst"]
    assert [setting.key for setting in of_choice(group, name) if not setting.meaning] == []


def test_every_key_says_what_it_is():
    assert [setting.key for kind in KEYS.values() for setting in of_schema(kind) if not setting.meaning] == []


def test_a_key_that_a_choice_sets_stands_with_it():
    settings = {setting.key: setting.value for setting in of_choice("task", "digits")}
    assert settings["epochs"] == 10
    assert settings["task.batch_size"] == 32
    assert settings["task.model.width"] == 16
