"""Every algorithm and every compressor has its place in the documentation."""

import inspect
import re
from pathlib import Path

import pytest
from hydra.utils import get_object

from docs.extensions.pages import algorithm
from docs.extensions.reference import composed, names

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("name", names("algorithm"))
def test_an_algorithm_s_page_shows_its_module(name):
    target = composed(f"algorithm={name}")["algorithm"]["_target_"]
    page = "\n".join(algorithm(name))
    assert f".. automodule:: {target.rpartition('.')[0]}\n   :members:" in page
    said = inspect.getdoc(get_object(target)) or ""
    assert all(f"\n{part}: " in said for part in ("State", "Wire"))


def test_every_compressor_is_on_their_page():
    text = (DOCS / "compressors.rst").read_text()
    [shown] = re.findall(r"automodule:: algorithms\.compressors\n   :members: (.*)", text)
    targets = {composed(f"compressor={name}")["compressor"]["_target_"] for name in names("compressor")}
    classes = {target.rpartition(".")[2] for target in targets}
    assert classes <= set(shown.split(", "))


def test_what_one_round_quotes_exists():
    text = (DOCS / "one_round.md").read_text()
    quoted = re.findall(r"```\{literalinclude\} \.\./(\S+)\.py\n:pyobject: (\S+)", text)
    assert len(quoted) > 8
    for path, name in quoted:
        assert callable(get_object(f"{path.replace('/', '.')}.{name}")), name


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
