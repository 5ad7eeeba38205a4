"""Pages say everything that the code and the configuration hold, and docstrings reach them as they are written."""

import html
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from docutils.core import publish_doctree
from docutils.nodes import literal
from hydra.utils import get_object

import algorithms
from algorithms.core.algorithm import leaves
from docs.extensions.docstrings import to_rst
from docs.extensions.equations import latex, paragraph
from docs.extensions.pages import algorithm_page, compressors_page, pages
from docs.extensions.reference import BUILT, KEYS, choice_settings, compose_config, names, schema_settings

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("name", names("algorithm"))
def test_an_algorithm_s_page_shows_its_function(name):
    target = compose_config(f"algorithm={name}")["algorithm"]["_target_"]
    page = "\n".join(algorithm_page(name))
    assert f".. autofunction:: {target}\n" in page
    said = inspect.getdoc(get_object(target)) or ""
    assert all(f"\n{part}: " in said for part in ("State", "Wire"))


def test_every_compressor_is_on_their_page():
    text = "\n".join(compressors_page())
    for name in names("compressor"):
        kind = compose_config(f"compressor={name}")["compressor"]["_target_"].rpartition(".")[2]
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


@cache
def _shown() -> set[str]:
    """The keys that the reference has an entry for."""
    lines = [line for name in ("keys", *BUILT) for line in written()[f"configuration/{name}.rst"]]
    return {key for line in lines for key in re.findall(r"^``([\w.]+)`` = ", line)}


@pytest.mark.parametrize(("group", "name"), [(group, name) for group in BUILT for name in names(group)])
def test_every_key_and_option_of_a_choice_is_in_the_reference_and_says_what_it_is(group, name):
    options = [option for option, _ in leaves(compose_config(f"{group}={name}"))]
    labels = re.compile(r".*\._target_|(algorithm|task)\.(name|(display|entry)\..*)|logger\.targets\..*|sweep")
    assert {option for option in options if not labels.fullmatch(option)} <= _shown()
    assert f"``{name}``" in written()[f"configuration/{group}.rst"]
    assert [setting.key for setting in choice_settings(group, name) if not setting.meaning] == []


def test_every_key_says_what_it_is():
    assert [setting.key for kind in KEYS.values() for setting in schema_settings(kind) if not setting.meaning] == []


def test_a_key_that_a_choice_sets_stands_with_it():
    settings = {setting.key: setting.value for setting in choice_settings("task", "digits")}
    assert settings["epochs"] == 10
    assert settings["task.batch_size"] == 32
    assert settings["task.model.width"] == 16


NAMED = re.compile(r"`(?!`)((?:tests|experiments)/[\w/]+\.py)?(?:::(\w+))?`")


def test_every_test_that_is_named_exists() -> None:
    file, named = "", 0
    for match in NAMED.finditer((DOCS / "reliability.md").read_text()):
        file, name = match[1] or file, match[2] or ""
        assert (DOCS.parent / file).is_file(), match[0]
        assert not name or f"def {name}(" in (DOCS.parent / file).read_text(), match[0]
        named += 1
    assert named > 10


def test_every_fault_names_one() -> None:
    rows = [line for line in (DOCS / "reliability.md").read_text().splitlines() if line.startswith("| ")]
    faults = [row.split(" | ") for row in rows if row.count(" | ") == 3 and not row.startswith("| fault")]
    assert faults
    assert all(NAMED.search(test) for _, _, test, _ in faults)


def _docstrings() -> Iterator[tuple[str, str]]:
    """The docstrings of every module, class, function and method of `algorithms`."""
    for found in pkgutil.walk_packages(algorithms.__path__, "algorithms."):
        module = importlib.import_module(found.name)
        yield found.name, module.__doc__ or ""
        for name, value in vars(module).items():
            if not callable(value) or getattr(value, "__module__", None) != found.name or name.startswith("_"):
                continue
            members = vars(value).items() if inspect.isclass(value) else ()
            parts = [(name, value), *((f"{name}.{k}", v) for k, v in members if inspect.isfunction(v))]
            yield from ((f"{found.name}.{label}", part.__doc__) for label, part in parts if part.__doc__)


DOCSTRINGS = dict(_docstrings())


@pytest.mark.parametrize("name", DOCSTRINGS)
def test_a_page_has_the_words_of_the_docstring(name):
    tree = publish_doctree("\n".join(to_rst(DOCSTRINGS[name])), settings_overrides={"halt_level": 2})
    shown = tree.astext()  # a warning failed
    missing = [word for word in re.findall(r"(?<![\w\\])[A-Za-z]{4,}", DOCSTRINGS[name]) if word not in shown]
    assert not missing


def test_code_is_marked_and_markup_is_text():
    text = "text [*T, many] of `levels`' trailing_ and \\ (`norm: l1`)"
    tree = publish_doctree(paragraph(text), settings_overrides={"halt_level": 2})
    assert [node.astext() for node in tree.findall(literal)] == ["levels", "norm: l1"]
    assert html.unescape(tree.astext()) == text.replace("`", "")


def test_state_wire_and_source_are_fields():
    lines = to_rst("It does.\n\nState: one on\nevery worker.\nWire: bits.")
    assert lines[2::2] == [":State: one on every worker.", ":Wire: bits."]
