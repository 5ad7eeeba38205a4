"""Who takes part in `benchmarks.network`: DistributedDataParallel as a user would write it, and this harness.

All train the same network on batches of the same size, a worker a rank.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powersgd
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from algorithms.comm.sharded_server import exchange
from algorithms.core.bit_counter import BitCounter
from algorithms.optim.optimizer import CompressedOptimizer
from data.embedded import digit_images
from experiments.config.run import load_run
from experiments.training.build import build_trainer

if TYPE_CHECKING:
    from experiments.cluster.ranks import Ranks

WIDTH, BATCH = 1024, 32


@dataclass(frozen=True)
class Contestant:
    """One of them.

    form: how its messages travel, of `plots.runs.network.FORMS`; None where none of these describes it. settings: the
    harness's. Without any it is DistributedDataParallel with the hook `hook` and Adam, which `bits` a coordinate then
    says, or a `CompressedOptimizer` of the name `optimizer`.
    """

    label: str
    form: str | None
    lr: float
    settings: tuple[str, ...] = ()
    hook: str | None = None
    bits: float = 0
    optimizer: str | None = None

    @property
    def name(self) -> str:
        """In a table."""
        return f"{self.label}, {self.form}" if self.settings else self.label


CONTESTANTS = (
    Contestant("DDP", "ring", 1e-3, bits=32),
    Contestant("DDP, fp16 hook", "ring", 1e-3, hook="fp16", bits=16),
    Contestant("DDP, PowerSGD rank 1", None, 1e-3, hook="powersgd"),
    *(
        Contestant(label, server, lr, (*settings, f"cluster.server={server}"))
        for label, lr, settings in (
            ("AMSGrad", 1e-3, ("algorithm=amsgrad",)),
            ("CD-Adam", 3e-4, ("algorithm=cd_adam",)),
            ("EF21 top-1 %", 0.5, ("algorithm=ef21_both_ways", "compressor=top_k", "compressor.ratio=0.01")),
        )
        for server in ("rank0", "sharded")
    ),
    Contestant("CD-Adam, optimizer", None, 3e-4, optimizer="cd_adam"),
)
"""In the order of the table; the first is what the others are compared with."""


@dataclass(frozen=True)
class Training:
    """How a contestant takes a round, and the bits up and down that all rounds so far cost a worker.

    exchanges: of a round with a server in parts.
    """

    take: Callable[[], object]
    bits: Callable[[], tuple[float, float]]
    exchanges: int = 2


def mlp(width: int = WIDTH, classes: int = 10) -> nn.Module:
    """Images [N, 1, 8, 8] → logits [N, classes] through three hidden layers."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
        nn.Linear(width, width), nn.ReLU(), nn.Linear(width, classes),
    )  # fmt: skip


def training(contestant: Contestant, ranks: Ranks) -> Training:
    """That of a contestant, from its start."""
    if contestant.settings:
        return _of_the_harness(contestant, ranks)
    return _optimizer(contestant, ranks) if contestant.optimizer else _ddp(contestant, ranks)


def _of_the_harness(contestant: Contestant, ranks: Ranks) -> Training:
    """Rounds as `experiments.training.runner` takes them where no row is due."""
    trainer = build_trainer(load_run([
        "packages=[benchmarks]", "task=digits", "task.model._target_=benchmarks.contestants.mlp",
        f"task.model.width={WIDTH}", f"task.batch_size={BATCH}", "task.padding=0", "weight_decay=0",
        "lr_schedule=constant", f"lr={contestant.lr}", "rounds=1000000", f"cluster.workers={ranks.size}", "threads=1",
        *contestant.settings,
    ]), ranks)  # fmt: skip

    def take() -> None:
        trainer.step()
        ranks.soon(False)

    return Training(
        take,
        lambda: (trainer.meter.bits_up, trainer.meter.bits_down),
        exchange(trainer.cluster.algorithm, trainer.task.d, trainer.task.dtype).exchanges,
    )


def _ddp(contestant: Contestant, ranks: Ranks) -> Training:
    """A plain loop with Adam."""
    torch.manual_seed(0)
    # The hook starts collectives when others end, which gloo, where there are several buckets, gets out of order.
    model = DistributedDataParallel(mlp(), bucket_cap_mb=100 if contestant.hook == "powersgd" else None)
    if contestant.hook == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif contestant.hook == "powersgd":
        # Error feedback begins with the compression, in the third round.
        state: Any = powersgd.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
        model.register_comm_hook(state, powersgd.powerSGD_hook)
    return _loop(model, torch.optim.Adam(model.parameters(), lr=contestant.lr), contestant.bits, ranks)


def _optimizer(contestant: Contestant, ranks: Ranks) -> Training:
    """A plain loop with an optimizer that communicates."""
    torch.manual_seed(0)
    model, name = mlp(), contestant.optimizer
    assert name
    optimizer = CompressedOptimizer(model.parameters(), name, lr=contestant.lr)
    return _loop(model, optimizer, optimizer.meter, ranks)


def _loop(model: nn.Module, optimizer: torch.optim.Optimizer, counted: BitCounter | float, ranks: Ranks) -> Training:
    """A training loop as anyone writes it; counted: by a meter, or as bits a coordinate."""
    data = digit_images()
    images = (torch.from_numpy(data.train_images).permute(0, 3, 1, 2) / 255 - data.mean[0]) / data.std[0]
    labels = torch.from_numpy(data.train_labels).long()
    drawn = torch.Generator().manual_seed(ranks.rank)
    done = 0

    def take() -> None:
        nonlocal done
        batch = torch.randint(len(labels), (BATCH,), generator=drawn)
        optimizer.zero_grad()
        cross_entropy(model(images[batch]), labels[batch]).backward()
        optimizer.step()
        done += 1

    def bits() -> tuple[float, float]:
        if isinstance(counted, BitCounter):
            return counted.bits_up, counted.bits_down
        each = counted * sum(p.numel() for p in model.parameters()) * done
        return each, each

    return Training(take, bits)
