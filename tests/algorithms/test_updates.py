"""Updates against torch.optim; test_methods.py has the forms of the papers."""

import pytest
import torch

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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AMSGrad(nu=0.0), "nu=0.0"),
        (lambda: AMSGrad(form="keras"), "form='keras': must be 'paper'"),  # pyright: ignore[reportArgumentType]
        (lambda: Adam(beta1=1.0), "beta1=1.0"),
        (lambda: Adam(beta2=-0.1), "beta2=-0.1"),
        (lambda: SGD(momentum=1.0), "momentum=1.0"),
        (lambda: SGD(weight_decay=-1.0), "weight_decay=-1.0"),
    ],
)
def test_nonsense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
