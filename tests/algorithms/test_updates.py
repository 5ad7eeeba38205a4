"""Updates against torch.optim, and schedules of their step size; test_methods.py has the forms of the papers."""

import pytest
import torch
from reference.transformer import step_size
from refusals import refusals

from algorithms.core.lr_schedules import SCHEDULES, factor
from algorithms.core.update_rules import SGD, Adam, AMSGrad

D, ROUNDS, LR = 11, 40, 0.05
ADAM = {"betas": (0.9, 0.99), "eps": 1e-8}


@pytest.mark.parametrize(
    ("update", "optimizer", "options"),
    [
        (SGD(), torch.optim.SGD, {}),
        (SGD(momentum=0.9), torch.optim.SGD, {"momentum": 0.9}),
        (SGD(momentum=0.9, dampening=0.3), torch.optim.SGD, {"momentum": 0.9, "dampening": 0.3}),
        (SGD(weight_decay=0.1), torch.optim.SGD, {"weight_decay": 0.1}),
        (Adam(form="torch"), torch.optim.Adam, ADAM),
        (Adam(form="torch", weight_decay=0.1), torch.optim.Adam, ADAM | {"weight_decay": 0.1}),
        (Adam(form="torch", weight_decay=0.1, decoupled=True), torch.optim.AdamW, ADAM | {"weight_decay": 0.1}),
        (AMSGrad(form="torch"), torch.optim.Adam, ADAM | {"amsgrad": True}),
        (AMSGrad(form="torch", beta1=0.5, beta2=0.9, nu=0.1), torch.optim.Adam,
         {"betas": (0.5, 0.9), "eps": 0.1, "amsgrad": True}),
        (AMSGrad(form="torch", weight_decay=0.1, decoupled=True), torch.optim.AdamW,
         ADAM | {"weight_decay": 0.1, "amsgrad": True}),
    ],
)  # fmt: skip
def test_the_torch_form_is_torch_optim(update, optimizer, options):
    torch.manual_seed(0)
    shares = torch.logspace(0, -2, ROUNDS, dtype=torch.float64)  # signals shrink, so that AMSGrad's maximum matters
    ours, theirs = torch.ones(D, dtype=torch.float64), torch.ones(D, dtype=torch.float64, requires_grad=True)
    moments, stepper = update.start(ours), optimizer([theirs], lr=LR, **options)
    for t, u in enumerate(torch.randn(ROUNDS, D, dtype=torch.float64) * shares[:, None], 1):
        ours, moments = update.step(ours, u, moments, LR, t)
        theirs.grad = u.clone()
        stepper.step()
    torch.testing.assert_close(ours, theirs.detach(), rtol=1e-12, atol=1e-13)


test_nonsense_is_refused = refusals(
    (lambda: AMSGrad(nu=0.0), "nu=0.0"),
    (lambda: AMSGrad(nu=torch.nan), "nu=nan"),
    (lambda: AMSGrad(form="keras"), "form='keras': must be 'paper'"),  # pyright: ignore[reportArgumentType]
    (lambda: Adam(beta1=1.0), "beta1=1.0"),
    (lambda: Adam(beta2=-0.1), "beta2=-0.1"),
    (lambda: SGD(momentum=1.0), "momentum=1.0"),
    (lambda: SGD(weight_decay=-1.0), "weight_decay=-1.0"),
)


def test_warm_up_and_cosine_are_the_published_ones():
    for it in range(2000):
        ours = 1e-3 * factor("cosine", it + 1, 2000, warmup=100, final=0.1)
        assert ours == pytest.approx(step_size(it, 2000, 1e-3, 100, 0.1), rel=1e-12)


def test_wsd_stays_and_comes_down_in_the_last_fifth():
    factors = [factor("wsd", t, 100, final=0.1) for t in range(1, 101)]
    assert factors[:81] == [1] * 81
    assert factors[81:] == pytest.approx([1 - 0.9 * k / 20 for k in range(1, 20)])


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_warm_up_leads_along_a_line_to_the_schedule_of_the_other_rounds(name):
    first = factor(name, 1, 40, final=0.1)
    rising = [factor(name, t, 50, warmup=10, final=0.1) for t in range(1, 11)]
    assert rising == pytest.approx([first * t / 11 for t in range(1, 11)])
    for t in range(1, 41):
        assert factor(name, t + 10, 50, warmup=10, final=0.1) == factor(name, t, 40, final=0.1)


def test_the_papers_schedules_and_a_run_of_one_round():
    assert factor("cosine", 1, 1) == factor("wsd", 1, 1) == factor("wsd", 2, 2, warmup=1) == 1
    rounds = 100
    assert [SCHEDULES["constant"](t, rounds) for t in (1, 100)] == [1.0, 1.0]
    assert [SCHEDULES["step_decay"](t, rounds) for t in (1, 50, 51, 75, 76, 100)] == [1, 1, 0.1, 0.1, 0.01, 0.01]
    assert [SCHEDULES["inverse_sqrt"](t, rounds) for t in (1, 4, 100)] == [1.0, 0.5, 0.1]
    assert [SCHEDULES["horizon"](t, rounds) for t in (1, 4, 100)] == [0.1, 0.1, 0.1]
