"""A colour means one method in all figures."""

import re
from pathlib import Path

import pytest
import yaml

from experiments.config.compose import CONF

FIGURES = sorted((CONF / "figure").glob("[a-z]*.yaml"))
OF_METHODS = {
    yaml.safe_load(path.read_text())["algorithm"]["display"]["color"].upper(): path.stem
    for path in sorted((CONF / "algorithm").glob("[a-z]*.yaml"))
}

THE_SAME = {"dcgd": "naive", "gd": "sgd"}
"""What a figure calls otherwise, and which method it is: compression without memory, and SGD of exact gradients."""


VARIANT = re.compile(
    r"algorithm\.name=(\w+)(?:(?!algorithm=).)*?algorithm\.display=\{[^}]*?color:'(#\w+)'", flags=re.DOTALL
)


@pytest.mark.parametrize("figure", FIGURES, ids=lambda path: path.stem)
def test_a_variant_of_a_figure_takes_no_other_methods_colour(figure: Path) -> None:
    for name, color in VARIANT.findall(figure.read_text()):
        assert OF_METHODS.get(color.upper()) in (None, THE_SAME.get(name)), f"{name}: {color}"


def test_there_are_variants_with_colours() -> None:
    assert ("cd_adam_layer", "#7A3300") in VARIANT.findall((CONF / "figure" / "why_stochastic.yaml").read_text())
