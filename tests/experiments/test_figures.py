"""Every figure under conf/figure: its runs and its claims are what the code understands."""

from __future__ import annotations

import inspect
import re
from itertools import pairwise

import pytest
import torch

from common.errors import UsageError
from experiments.config.compose import CONF, load
from experiments.config.identity import of as identity
from experiments.reproduce import cells, planned
from plots.claims.claims import CHECKS, DESCRIPTION, ROLES
from plots.figure.derive import DERIVATIONS

FIGURES = sorted(path.stem for path in (CONF / "figure").glob("*.yaml"))
CIFAR10 = ["figure_1", "figure_3", "figure_3_vgg16", "figure_3_wrn16_4"]
"""Those that have budgets."""


def figure_named(name: str, budget: str = "auto", seeds: list[int] | None = None) -> dict:
    composed = load([f"figure={name}", f"budget={budget}"], "reproduce")
    return planned({**composed, "seeds": seeds})


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
        for option in ROLES:
            named = options.get(option, [])
            assert set([named] if isinstance(named, str) else named) <= methods
    for derivation in figure.get("derive", []):
        inspect.signature(DERIVATIONS[derivation["name"]]).bind(None, **derivation.get("options", {}))


@pytest.mark.parametrize("name", FIGURES)
def test_cells_check_and_are_different_runs(name):
    configs = cells(figure_named(name), [])
    assert len({identity(config) for config in configs}) == len(configs) >= (3 if name in [*CIFAR10, "digits"] else 8)


@pytest.mark.parametrize("name", CIFAR10)
def test_the_full_budget_is_the_papers(name):
    configs = cells(figure_named(name, "full"), [])
    step_sizes = {"ef21": [0.1], "onebit_adam": [1e-4], "cd_adam": [1e-4], "amsgrad": [1e-4]}
    for config in configs:
        method, task = config["algorithm"], config["task"]
        assert config["lr"] == step_sizes[method["name"]]
        assert (config["cluster"]["workers"], task["batch_size"], task["rows"]) == (8, 128, 50000)
        assert (config["rounds"], config["eval_every"], config["lr_schedule"]) == (4800, 48, "step_decay")
        assert (task["padding"], task["flip"], task["evaluation_rows"]) == (4, True, None)
        part = config["update"] if config["update"]["_target_"] else method
        assert part["weight_decay"] == 5e-4
        assert [part[key] for key in ("beta1", "beta2") if key in part] in ([0.9, 0.99], [])
    by_name = {config["algorithm"]["name"]: config for config in configs}
    assert by_name["onebit_adam"]["algorithm"]["warmup"] == 0.13
    if "ef21" in by_name:
        assert by_name["ef21"]["compressor"]["ratio"] == 0.016
        assert not by_name["ef21"]["algorithm"]["uplink_only"]


@pytest.mark.parametrize("name", CIFAR10)
def test_the_quick_budget_is_marked_and_gives_every_method_the_same_effort(name):
    figure = figure_named(name, "quick")
    configs = cells(figure, [])
    assert figure["note"].startswith("quick budget: ")
    assert f"width {configs[0]['task']['model']['width']} of" in figure["note"]
    assert {len(config["lr"]) for config in configs} == {3}
    for key in ("rounds", "eval_every", "task"):
        assert all(config[key] == configs[0][key] for config in configs)
    assert configs[0]["task"]["rows"] == 50000
    for config in configs:  # neighbouring step sizes about half a decade apart, for every method
        assert all(2.9 < larger / smaller < 3.4 for smaller, larger in pairwise(config["lr"]))


@pytest.mark.parametrize("budget", ["full", "quick"])
def test_figures_1_and_3_share_their_runs(budget):
    first, third = ({identity(config) for config in cells(figure_named(name, budget), [])} for name in CIFAR10[:2])
    assert len(first & third) == 2  # 1-bit Adam's and CD-Adam's


@pytest.mark.parametrize("name", ["figure_3_vgg16", "figure_3_wrn16_4"])
def test_the_supplements_claims_are_cases_of_claim_13(name):
    numbers = [claim["number"] for claim in figure_named(name)["claims"]]
    assert numbers == [f"13 ({claim['number']})" for claim in figure_named("figure_3")["claims"]]


def test_seeds_are_an_axis_of_the_grid():
    configs = cells(figure_named("figure_3", "quick", [0, 4]), [])
    assert sorted({config["seed"] for config in configs}) == [0, 4]
    assert len({identity(config) for config in configs}) == 6


@pytest.mark.parametrize(("gpu", "budget"), [(True, "full"), (False, "quick")])
def test_auto_goes_by_the_hardware(gpu, budget, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    assert figure_named("figure_3")["budget"] == budget
    assert figure_named("figure_2")["budget"] is None


@pytest.mark.parametrize(
    ("name", "keys", "message"),
    [
        ("figure_3", {"budget": "ful"}, "budget=ful: figure=figure_3 has full and quick"),
        ("figure_2", {"budget": "quick"}, "budget=quick: figure=figure_2 has one setting only"),
        ("figure_3", {"submit": "slurm"}, "budget=auto: what it will run on is not known here; say full or quick"),
        ("demo", {"seeds": 3}, r"seeds=3: must be a list"),
        ("demo", {"seeds": [1, 1]}, r"seeds=\[1, 1\]: must be a list of different"),
    ],
)
def test_budgets_and_seeds_that_are_not(name, keys, message):
    with pytest.raises(UsageError, match=message):
        planned({**load([f"figure={name}"], "reproduce"), **keys})


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
        ({"select": {"metric": "test_accuracy"}}, "select by one of which less is better"),
        ({"grid": []}, "must not be empty"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_or_judged_is_refused_before_anything_runs(change, message):
    with pytest.raises(UsageError, match=message):
        cells(figure_named("demo") | change, [])


def test_an_override_of_what_the_figure_sets_is_refused():
    with pytest.raises(UsageError, match="algorithm=sgd: the figure itself sets this key"):
        cells(figure_named("demo"), ["algorithm=sgd"])


PANEL = {"x": "bits", "y": "grad_norm"}
CLAIM = {"number": 1, "statement": "So it is", "check": "reaches_level", "subject": "cd_adam", "reference": "amsgrad"}
WRONG = [
    ({"titel": "x"}, "figure=demo: titel: no such key; did you mean title?"),
    *[({key: None}, f"figure=demo: has no {key}; it needs name, title") for key in ("title", "grid", "rows")],
    ({"name": None}, "figure: has no name; it needs name"),
    ({"name": "../up"}, "figure.name=../up: must be words"),
    ({"grid": [["seed=0"], []]}, "figure=demo: figure.grid="),
    ({"overrides": [3]}, "figure=demo: figure.overrides="),
    ({"rows": [{**PANEL, "x": "rounds"}]}, "figure=demo: rows[0]: x=rounds: no such choice; did you mean round?"),
    ({"rows": [PANEL, {**PANEL, "y": "trainloss"}]}, "rows[1]: y=trainloss: nothing is called that; did"),
    ({"rows": [{**PANEL, "xscale": "log"}]}, "rows[0]: xscale: no such key; did you mean x_scale?"),
    ({"rows": [{**PANEL, "x_scale": "lgo"}]}, "x_scale=lgo: no such choice; did you mean log?"),
    ({"rows": [{**PANEL, "y_min": "low"}]}, "y_min=low: must be a number"),
    ({"rows": [{"x": "bits"}]}, "rows[0]: has no y; it needs x, y"),
    ({"rows": [3]}, "rows=[3]: must be a list, each with keys of its own"),
    ({"claims": [{**CLAIM, "check": "reach_level"}]}, "check=reach_level: no such choice; did you mean reaches"),
    ({"claims": [{**CLAIM, "witin": 2.0}]}, "figure=demo: claim 1: witin: no such key; did you mean within?"),
    ({"claims": [CLAIM]}, "claim 1: has no within; it needs subject, reference, within"),
    ({"claims": [{**CLAIM, "within": "abc"}]}, "claim 1: within=abc: must be a number"),
    ({"claims": [{**CLAIM, "within": True}]}, "claim 1: within=True: must be a number"),
    ({"claims": [{"number": 1, "statement": "", "check": "one_bit_a_coordinate", "subjects": "cd_adam"}]},
     "claim 1: subjects=cd_adam: must be a list, each text"),
    ({"claims": [{"number": 1, "check": "reaches_level"}]}, "claim 1: has no statement"),
    ({"derive": [{"name": "second_moment"}]}, "derive.name=second_moment: no such choice; did you mean second"),
    ({"derive": [{"name": "second_moment_ratio"}]}, "derive.options: has no over"),
    ({"targets": {"metric": "grad_norm", "levels": 0.1}}, "targets: levels=0.1: must be a list, each a number"),
    ({"targets": [{"metric": "gradnorm", "levels": [0.1]}]}, "targets: metric=gradnorm: nothing is called that"),
    ({"select": {"metrik": "train_loss"}}, "select: metrik: no such key; did you mean metric?"),
    ({"step_size": "large"}, "step_size=large: must be a number"),
    ({"budgets": {"quick": {}}}, "budgets: has no full"),
    ({"budgets": {"quick": {"gird": []}, "full": {}}}, "budgets.quick: gird: no such key; did you mean grid?"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_what_a_figure_may_not_say(change, message):
    composed = load(["figure=demo"], "reproduce")
    with pytest.raises(UsageError, match=re.escape(message)):
        planned({**composed, "figure": composed["figure"] | change})


def test_what_is_not_drawn_by_default_must_be_run():
    with pytest.raises(UsageError, match=r"step_size=0\.5: none of its runs has this one"):
        cells(figure_named("why") | {"step_size": 0.5}, ["rounds=5"])


def test_a_task_may_measure_what_it_likes():
    composed = load(["figure=demo"], "reproduce")
    for y in ("valid_accuracy", "perplexity", "bits_up", "train_loss_ema"):
        planned({**composed, "figure": composed["figure"] | {"rows": [{**PANEL, "y": y}]}})
