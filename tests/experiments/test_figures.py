"""Every figure under conf/figure: its runs, its claims and its colours are what the code understands."""

import re
from collections.abc import Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any

import pytest
import yaml

from algorithms.compressors import TopK
from common.errors import UsageError
from experiments.config.compose import CONF, compose, resolve
from experiments.config.identity import run_id as identity
from experiments.config.schema import Reproduction, RunConfig
from experiments.figures import configuration as figure_configuration
from experiments.figures.runs import runs_of
from plots.figure.spec import Figure, Panel

FIGURES = sorted(path.stem for path in (CONF / "figure").glob("[a-z]*.yaml"))
CIFAR10 = [f"figure_{number}{network}" for number in (1, 3) for network in ("", "_vgg16", "_wrn16_4")]
"""Those that have budgets."""

BEYOND = {("figure_1_wrn16_4", "medium", "amsgrad")}
"""Methods with one step size more than the others, since the last of four was the best."""


def node(name: str) -> dict[str, Any]:
    """A figure's file."""
    return resolve(compose([f"figure={name}"], "reproduction"))["figure"]


def read(figure: object, budget: str = "auto", seeds: object = None) -> Figure:
    return figure_configuration.read_figure(Reproduction(figure=figure, budget=budget, seeds=seeds), itemgetter(-1))


def figure_named(name: str, budget: str = "auto", seeds: Sequence[int] | None = None) -> Figure:
    return read(node(name), budget, seeds)


def runs(name: str, budget: str = "auto") -> list[RunConfig]:
    return runs_of(figure_named(name, budget), [])


def but_first(names: Sequence[str]) -> list[Any]:
    """The first, and as slow tests the others."""
    return [names[0], *(pytest.param(name, marks=pytest.mark.slow) for name in names[1:])]


@pytest.mark.parametrize("name", but_first([*CIFAR10, *(name for name in FIGURES if name not in CIFAR10)]))
def test_claims_derivations_and_cells_fit(name):
    figure = figure_named(name)
    assert figure.name == name
    found = runs_of(figure, [])
    least = {"language_reference": 2} | dict.fromkeys([*CIFAR10, "bandwidth", "digits"], 3)
    assert len({identity(run) for run in found}) == len(found) >= least.get(name, 8)


@pytest.mark.parametrize("name", but_first([*CIFAR10, "bandwidth"]))
def test_the_full_budget_is_the_papers(name):
    by_name = {run.algorithm.name: run for run in runs(name, "full")}
    for method, run in by_name.items():
        task = run.task.options
        assert run.lr == ((0.1,) if method == "ef21_both_ways" else (1e-4,))
        assert (run.cluster.workers, task["batch_size"], task["rows"]) == (8, 128, 50000)
        assert (run.rounds, run.eval_every, run.lr_schedule) == (4800, 120, "step_decay")
        assert (task["padding"], task["flip"], task["evaluation_rows"]) == (4, True, None)
        part = (run.update if run.update.target else run.algorithm).options
        assert part["weight_decay"] == 5e-4
        assert [part[key] for key in ("beta1", "beta2") if key in part] in ([0.9, 0.99], [])
    assert by_name["onebit_adam"].algorithm.options["warmup"] == 0.13
    if "ef21_both_ways" in by_name:
        assert TopK(**by_name["ef21_both_ways"].compressor.options).count(1000) == 16
        assert not by_name["ef21_both_ways"].algorithm.options["uplink_only"]


@pytest.mark.parametrize("name", but_first([*CIFAR10, "bandwidth"]))
def test_the_quick_budget_is_marked_and_gives_every_method_the_same_effort(name):
    figure, found = figure_named(name, "quick"), runs(name, "quick")
    assert figure.note.startswith("quick budget, a check of the pipeline: ")
    assert f"width {found[0].task.options['model']['width']} of" in figure.note
    assert len({(run.rounds, run.eval_every) for run in found}) == 1
    assert all(run.task == found[0].task for run in found)
    assert found[0].task.options["rows"] == 50000
    for run in found:  # neighbouring step sizes about half a decade apart, for every method
        assert len(run.lr) == 3
        assert all(2.9 < larger / smaller < 3.4 for smaller, larger in pairwise(run.lr))


def test_the_figure_that_the_documentation_writes_is_one():
    [text] = re.findall(r"```yaml\n(name: .*?)```", (CONF.parent / "docs" / "claims.md").read_text(), re.DOTALL)
    assert len(runs_of(read(yaml.safe_load(text)), [])) == 2


def test_null_of_a_budget_takes_a_key_of_the_figure_away():
    figure = node("figure_3")
    figure |= {"note": "Of the figure.", "held_out": 9}
    figure["budgets"]["quick"] |= {"note": None, "overrides": None, "held_out": None}
    read_so = read(figure, "quick")
    assert (read_so.note, read_so.held_out, read_so.overrides) == ("", None, tuple(figure["overrides"]))


def test_overrides_reach_every_cell_and_win():
    found = runs_of(figure_named("demo"), ["rounds=7", "lr=0.5"])
    assert {(run.rounds, run.lr, run.cluster.workers) for run in found} == {(7, (0.5,), 20)}
    tasks, methods = ("logreg/breast_cancer", "logreg/digits"), ("amsgrad", "naive", "error_feedback", "cd_adam")
    wanted = [(task, method) for task in tasks for method in methods]
    assert [(run.task.name, run.algorithm.name) for run in found] == wanted


@pytest.mark.parametrize("name", but_first(CIFAR10))
@pytest.mark.parametrize(("budget", "epochs"), [pytest.param("large", 25, marks=pytest.mark.slow), ("medium", 12.5)])
def test_smaller_networks_have_the_papers_rounds_and_step_sizes_and_one_effort(name, budget, epochs):
    full, medium = figure_named(name, "full"), figure_named(name, budget)
    papers, found = runs_of(full, []), runs_of(medium, [])
    assert medium.published == full.published
    assert {run.lr for run in papers} <= {(lr,) for lr in medium.published.values()}
    for paper, run in zip(papers, found, strict=True):
        for part in ("algorithm", "compressor", "lr_schedule"):
            assert getattr(run, part) == getattr(paper, part)
        assert abs(run.rounds / paper.rounds - 1) < 0.02
        assert len(run.lr) == 4 + ((name, budget, run.algorithm.name) in BEYOND)
        options = {**run.task.options, "evaluation_rows": None, "precision": "", "batch_size": 0}
        assert options | {"model": {}} == paper.task.options | {"precision": "", "batch_size": 0, "model": {}}
    assert f"width {found[0].task.options['model']['width']} of" in medium.note
    assert f"{budget} budget" in medium.note
    assert f"the paper's rounds are {epochs} epochs" in medium.note
    assert {run.rounds for run in found} == {4875}


PANEL = {"x": "bits", "y": "grad_norm"}
CLAIM = {"number": 1, "statement": "So it is", "check": "reaches_level", "subject": "cd_adam", "reference": "amsgrad"}
WRONG = [
    ({"titel": "x"}, "figure=demo: titel: no such key; did you mean title?"),
    ({"rows": None}, "figure=demo: a figure has either rows of panels or times"),
    ({"name": None}, "has no name; it needs name"),
    ({"rows": [{**PANEL, "x": "rounds"}]}, "figure=demo: rows[0]: x=rounds: Input should be 'bits', 'round'"),
    ({"claims": [{**CLAIM, "check": "reach_level"}]}, "claims[0]: check: Input tag 'reach_level'"),
    ({"derive": [{"name": "ratoi"}]}, "derive[0]: Input tag 'ratoi'"),
    ({"network": {"bandwidth": 0}}, "figure=demo: network: bandwidth=0: Input should be greater than 0"),
    ({"held_out": 9, "trial_overrides": ["eval_every=5 seed=3"]}, "seeds=[0, 5]: figure=demo sets seed"),
    ({"budgets": {"quick": {"gird": []}, "full": {}}}, "budgets.quick: gird: no such key; did you mean grid?"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), WRONG, ids=[message for _, message in WRONG])
def test_what_a_figure_may_not_say(change, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        read(node("demo") | change, seeds=[0, 5])


def test_seeds_of_the_grid_are_not_replaced():
    with pytest.raises(UsageError, match=r"seeds=\[0, 5\]: figure=rate sets seed"):
        figure_named("rate", seeds=[0, 5])


@pytest.mark.parametrize(
    ("name", "change", "overrides", "message"),
    [
        ("demo", {"grid": (("task=logreg/digits",), ("algorithm=amsgrad",))}, [], "is about cd_adam"),
        ("demo", {"grid": (("algorithm=naive", "algorithm=naive compressor=top_k"),), "claims": ()}, [],
         "naive on logreg/digits appears twice"),
        ("demo", {"grid": (("rounds=100 eval_every=10", "rounds=200 eval_every=10"),), "claims": ()}, [],
         "cd_adam on logreg/digits appears twice"),
        ("demo", {"grid": (("algorithm=ef21", "algorithm=ef21 algorithm.name=ef21_two"),), "claims": ()}, [],
         "figure=demo: ef21, ef21_two are all called EF21"),
        ("demo", {}, ["algorithm=sgd"], "algorithm=sgd: the figure itself sets this key"),
        ("demo", {"families": (("cd_adam", "ef12"),)}, [], "families=ef12: no such choice"),
        ("demo", {"rows": (Panel(x="bits", y="grad_norm", task="logreg/phishing"),)}, [],
         "rows: task=logreg/phishing: no such choice"),
    ],
    ids=["claim", "twice", "rounds", "label", "override", "family", "another task"],
)  # fmt: skip
def test_what_cannot_be_drawn_or_judged_is_refused_before_anything_runs(name, change, overrides, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        runs_of(figure_named(name).replace(**change), overrides)


OF_METHODS = {
    yaml.safe_load(path.read_text())["algorithm"]["display"]["color"].upper(): path.stem
    for path in sorted((CONF / "algorithm").glob("[a-z]*.yaml"))
}

THE_SAME = {"dcgd": "naive", "gd": "sgd"}
"""What a figure calls otherwise, and which method it is: compression without memory, and SGD of exact gradients."""

VARIANT = re.compile(r"(?s)algorithm\.name=(\w+)(?:(?!algorithm=).)*?algorithm\.display=\{[^}]*?color:'(#\w+)'")


@pytest.mark.parametrize("figure", FIGURES)
def test_a_variant_of_a_figure_takes_no_other_methods_colour(figure: str) -> None:
    for name, color in VARIANT.findall((CONF / "figure" / f"{figure}.yaml").read_text()):
        assert OF_METHODS.get(color.upper()) in (None, THE_SAME.get(name)), f"{name}: {color}"
