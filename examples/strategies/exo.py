"""EXO Gym's DiLoCo, if its source is installed. `exogym` 0.0.0a0 on PyPI has no usable code."""

import torch
import torch.distributed as dist

from experiments.external.strategy import Carrier, Strategy, set_step_size


class Exo(Strategy):
    """A strategy of EXO Gym, called as in its nodes. Its inner optimizer has the run's step sizes."""

    def __init__(self, carrier: Carrier, strategy) -> None:
        self._carrier, self._strategy = carrier, strategy
        strategy._init_node(carrier, dist.get_rank(), dist.get_world_size())

    def step(self, gradient: torch.Tensor, lr: float) -> None:
        self._strategy.zero_grad()
        self._carrier(gradient).backward()
        set_step_size(self._strategy.optim, lr)
        self._strategy.step()


def exo_diloco(
    carrier: Carrier,
    period: int = 100,  # H
    outer_lr: float = 0.7,  # η of the outer step
    outer_momentum: float = 0.9,  # μ of the outer step
    weight_decay: float = 0.0,  # λ of AdamW
) -> Exo:
    """Local AdamW, then a Nesterov step on rank 0. `optim_spec` is the inner optimizer. EXO Gym silently ignores
    `inner_optim`."""
    from exogym.strategy import DiLoCoStrategy, OptimSpec

    outer = OptimSpec(torch.optim.SGD, lr=outer_lr, momentum=outer_momentum, nesterov=outer_momentum > 0)
    inner = OptimSpec(torch.optim.AdamW, weight_decay=weight_decay)
    return Exo(carrier, DiLoCoStrategy(optim_spec=inner, outer_optim_spec=outer, H=period))
