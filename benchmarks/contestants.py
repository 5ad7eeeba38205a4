"""The contestants of `benchmarks.network`: DistributedDataParallel as users write it, and this harness.

All train the same network on batches of the same size, with one worker per rank.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powersgd
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from algorithms import CompressedOptimizer, compressed
from algorithms.comm.sharded_server import describe_exchange
from algorithms.core.bit_counter import BitCounter
from data.embedded import digit_images
from experiments.config.run import load_run
from experiments.training.build import build_trainer

if TYPE_CHECKING:
    from experiments.cluster.ranks import Ranks

WIDTH, BATCH = 1024, 32


@dataclass(frozen=True)
class Training:
    """A contestant's round, its bit counter, and the exchanges of a round with a sharded server."""

    run_round: Callable[[], object]
    meter: BitCounter
    exchanges: int = 2


def mlp(width: int = WIDTH, classes: int = 10) -> nn.Module:
    """Images [N, 1, 8, 8] → logits [N, classes] through three hidden layers."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
        nn.Linear(width, width), nn.ReLU(), nn.Linear(width, classes),
    )  # fmt: skip


D = sum(parameter.numel() for parameter in mlp().parameters())


def build_harness(ranks: Ranks, server: str, lr: float, *settings: str) -> Training:
    """Build rounds as in `experiments.training.runner`, without rows."""
    trainer = build_trainer(load_run([
        "packages=[benchmarks]", "task=digits", "task.model._target_=benchmarks.contestants.mlp",
        f"task.model.width={WIDTH}", f"task.batch_size={BATCH}", "task.padding=0", "weight_decay=0",
        "lr_schedule=constant", f"lr={lr}", "rounds=1000000", f"cluster.workers={ranks.size}", "threads=1",
        f"cluster.server={server}", *settings,
    ]), ranks)  # fmt: skip

    def run_round() -> None:
        trainer.step()
        ranks.any_before(False)

    exchanges = describe_exchange(trainer.cluster.algorithm, trainer.task.d, trainer.task.dtype).exchanges
    return Training(run_round, trainer.meter, exchanges)


def build_ddp(ranks: Ranks, bits: int, hook: str = "") -> Training:
    """Build a plain loop with Adam. bits: counted per coordinate and direction; 0 counts nothing."""
    torch.manual_seed(0)
    # The hook starts collectives when others end. With several buckets gloo gets them out of order.
    model = DistributedDataParallel(mlp(), bucket_cap_mb=100 if hook == "powersgd" else None)
    if hook == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif hook == "powersgd":
        # Error feedback begins with compression, in the third round.
        state: Any = powersgd.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
        model.register_comm_hook(state, powersgd.powerSGD_hook)
    elif hook:
        model.register_comm_hook(*compressed(model.parameters(), hook))
    meter, run_round = BitCounter(), build_round(model, torch.optim.Adam(model.parameters(), lr=1e-3), ranks)

    def run_and_count() -> None:
        run_round()
        meter.bits_up += bits * D
        meter.bits_down += bits * D

    return Training(run_and_count, meter)


def build_optimizer(ranks: Ranks, name: str, lr: float) -> Training:
    """Build a plain loop with an optimizer that communicates."""
    torch.manual_seed(0)
    model = mlp()
    compressed = CompressedOptimizer(model.parameters(), name, lr=lr)
    return Training(build_round(model, compressed, ranks), compressed.meter)


def build_round(model: nn.Module, optimizer: torch.optim.Optimizer, ranks: Ranks) -> Callable[[], None]:
    """Build a round of a usual training loop."""
    data = digit_images()
    images = (torch.from_numpy(data.train_images).permute(0, 3, 1, 2) / 255 - data.mean[0]) / data.std[0]
    labels = torch.from_numpy(data.train_labels).long()
    drawn = torch.Generator().manual_seed(ranks.rank)

    def run_round() -> None:
        batch = torch.randint(len(labels), (BATCH,), generator=drawn)
        optimizer.zero_grad()
        cross_entropy(model(images[batch]), labels[batch]).backward()
        optimizer.step()

    return run_round


CONTESTANTS: tuple[tuple[str, str | None, Callable[[Ranks], Training]], ...] = (
    ("DDP", "ring", partial(build_ddp, bits=32)),
    ("DDP, fp16 hook", "ring", partial(build_ddp, bits=16, hook="fp16")),
    ("DDP, PowerSGD rank 1", None, partial(build_ddp, bits=0, hook="powersgd")),
    *(
        (label, server, lambda ranks, server=server, settings=settings: build_harness(ranks, server, *settings))
        for label, settings in (
            ("AMSGrad", (1e-3, "algorithm=amsgrad")),
            ("CD-Adam", (3e-4, "algorithm=cd_adam")),
            ("EF21 top-1 %", (0.5, "algorithm=ef21_both_ways", "compressor=top_k", "compressor.ratio=0.01")),
        )
        for server in ("rank0", "sharded")
    ),
    ("CD-Adam, optimizer", None, partial(build_optimizer, name="cd_adam", lr=3e-4)),
    ("DDP, LoCo hook", None, partial(build_ddp, bits=0, hook="loco")),
)
"""Label, form of the exchange (of `plots.runs.network.FORMS`; None if none fits) and builder of the training, in the
order of the table. The first is the baseline."""
