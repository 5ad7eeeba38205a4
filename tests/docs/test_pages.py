"""The pages of algorithms and compressors say what the code does."""

from __future__ import annotations

import inspect
import re
import shlex
from functools import cache

import pytest
from hydra.utils import get_object

from docs.extensions.pages import pages
from docs.extensions.settings import files
from experiments.run import main

written = cache(pages)


def _page(name: str) -> str:
    return "\n".join(written()[name])


@pytest.mark.parametrize("file", files("algorithm"), ids=lambda file: file.name)
def test_an_algorithm_s_options_are_those_of_its_function(file):
    keys = re.findall(r"\* - ``algorithm\.(\w+)``", _page(f"algorithms/{file.name}.rst"))
    parameters = inspect.signature(get_object(file.values["algorithm"]["_target_"])).parameters
    assert set(keys) == set(parameters) - {"compressor", "update", "rounds"}


@pytest.mark.parametrize("file", files("algorithm"), ids=lambda file: file.name)
def test_an_algorithm_s_command_is_valid(file, capsys):
    [command] = re.findall(r"^   (python -m .*)$", _page(f"algorithms/{file.name}.rst"), re.MULTILINE)
    words = shlex.split(command)
    assert words[:3] == ["python", "-m", "experiments.run"]
    main([*words[3:], "--cfg", "job"])
    assert f"name: {file.name}" in capsys.readouterr().out


@pytest.mark.parametrize("file", files("algorithm"), ids=lambda file: file.name)
def test_an_algorithm_s_page_has_equations_bits_and_source(file):
    page = _page(f"algorithms/{file.name}.rst")
    assert page.count(":math:") >= 4
    assert "\n:State: " in page
    assert "\n:Wire: " in page
    module = file.values["algorithm"]["_target_"].rpartition(".")[0]
    assert f".. py:currentmodule:: {module}" in page


def test_compressors_are_compared_by_their_bits():
    rows = re.findall(r"\* - :ref:`(\w+) <.*\n     - ([\d,]+)\n     - ([\d.]+)\n", _page("compressors.rst"))
    assert [name for name, _, _ in rows] == [file.name for file in files("compressor")]
    measured = {name: (bits, times) for name, bits, times in rows}
    assert measured["scaled_sign"] == ("1,000,032", "32.0")  # 32 + d
    assert measured["top_k"] == ("1,024,000", "31.2")  # 64k, k = 0.016d
    assert measured["identity"] == ("32,000,000", "1.0")
