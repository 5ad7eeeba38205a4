"""Every figure under conf/figure: its runs and its claims are what the code understands."""

from __future__ import annotations

import inspect

import pytest

from experiments.config import CONF, load
from experiments.errors import UsageError
from experiments.identity import identity
from experiments.reproduce import cells
from plots.claims import CHECKS, DESCRIPTION
from plots.derive import DERIVATIONS

FIGURES = sorted(path.stem for path in (CONF / "figure").glob("*.yaml"))


def figure_named(name: str) -> dict:
    return load([f"figure={name}"], "reproduce")["figure"]


@pytest.mark.parametrize("name", FIGURES)
def test_claims_and_derivations_fit_their_functions(name):
    figure = figure_named(name)
    assert figure["name"] == name
    methods = {
        word.partition("=")[2] for entries in figure["grid"] for entry in entries for word in entry.split()
        if word.startswith("algorithm=")
    }  # fmt: skip
    for claim in figure.get("claims", []):
        options = {key: value for key, value in claim.items() if key not in DESCRIPTION}
        inspect.signature(CHECKS[claim["check"]]).bind({}, **options)
        for option in ("subject", "reference", "subjects", "others"):
            named = options.get(option, [])
            assert set([named] if isinstance(named, str) else named) <= methods
    for derivation in figure.get("derive", []):
        inspect.signature(DERIVATIONS[derivation["name"]]).bind(None, **derivation.get("options", {}))


@pytest.mark.parametrize("name", FIGURES)
def test_cells_check_and_are_different_runs(name):
    configs = cells(figure_named(name), [])
    assert len({identity(config) for config in configs}) == len(configs) >= 8


def test_figures_share_their_runs():
    shared = {identity(config) for config in cells(figure_named("figure_2"), [])}
    assert {identity(config) for config in cells(figure_named("why"), [])} == shared
    assert len({identity(config) for config in cells(figure_named("figure_2_top_k"), [])} & shared) == 4  # AMSGrad's


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"grid": [["task=logreg/digits"], ["algorithm=amsgrad"]]}, "is about cd_adam"),
        ({"grid": [["task=logreg/digits"], ["algorithm=naive", "algorithm=naive compressor=top_k"]], "claims": []},
         "naive on logreg/digits stands twice"),
        ({"rows": []}, "must not be empty"),
        ({"grid": []}, "must not be empty"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_or_judged_is_refused_before_anything_runs(change, message):
    with pytest.raises(UsageError, match=message):
        cells(figure_named("demo") | change, [])


def test_an_override_of_what_the_figure_sets_is_refused():
    with pytest.raises(UsageError, match="algorithm=sgd: the figure itself sets this key"):
        cells(figure_named("demo"), ["algorithm=sgd"])
