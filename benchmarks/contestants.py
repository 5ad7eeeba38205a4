"""Who takes part in `benchmarks.network`: DistributedDataParallel as a user would write it, and this harness.

All train the same network on batches of the same size, a worker a rank.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import nn

if TYPE_CHECKING:
    from experiments.cluster.ranks import Ranks

WIDTH, BATCH = 1024, 32


@dataclass(frozen=True)
class Contestant:
    """One of them.

    form: how its messages travel, of `plots.runs.network.FORMS`. settings: the harness's, or none where it is
    DistributedDataParallel with the hook `hook`. bits: of a coordinate and direction, where no meter counts them.
    """

    label: str
    form: str | None = None
    settings: tuple[str, ...] = ()
    hook: str | None = None
    bits: float | None = None


CONTESTANTS = (
    Contestant("DDP", "ring", bits=32),
    Contestant("DDP, fp16 hook", "ring", hook="fp16", bits=16),
    Contestant("DDP, PowerSGD rank 1", hook="powersgd"),
    *(
        Contestant(f"{label}, {server}", server, (*settings, f"cluster.server={server}"))
        for label, settings in (
            ("AMSGrad", ("algorithm=amsgrad",)),
            ("CD-Adam", ("algorithm=cd_adam",)),
            ("EF21 top-1 %", ("algorithm=ef21", "compressor=top_k", "compressor.ratio=0.01")),
        )
        for server in ("rank0", "sharded")
    ),
)
"""In the order of the table; the first is what the others are compared with."""

Round = Callable[[], object]
Bits = Callable[[], tuple[int, int]]


def mlp(width: int = WIDTH, classes: int = 10) -> nn.Module:
    """Images [N, 1, 8, 8] → logits [N, classes] through three hidden layers: 2.2 million parameters at width 1,024."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
        nn.Linear(width, width), nn.ReLU(), nn.Linear(width, classes),
    )  # fmt: skip


def rounds_of(contestant: Contestant, ranks: Ranks) -> tuple[Round, Bits]:
    """What does one round, and what says the bits up and down that all rounds so far cost a worker."""
    if contestant.settings:
        return _harness(contestant, ranks)
    return _ddp(contestant.hook, ranks), lambda: (0, 0)


def _harness(contestant: Contestant, ranks: Ranks) -> tuple[Round, Bits]:
    """Rounds as `experiments.training.runner` takes them where no row is due."""
    from experiments.config.run import load_run
    from experiments.training.build import build_trainer

    task = [
        "packages=[benchmarks]", "task=digits", "task.model._target_=benchmarks.contestants.mlp",
        f"task.model.width={WIDTH}", f"task.batch_size={BATCH}", "task.padding=0", "weight_decay=0", "lr_schedule=constant", "lr=0.0001",
        "rounds=1000000", f"cluster.workers={ranks.size}", "threads=1",
    ]  # fmt: skip
    trainer = build_trainer(load_run([*task, *contestant.settings]), ranks)

    def round() -> None:
        trainer.step()
        ranks.any(False)

    return round, lambda: (trainer.meter.bits_up, trainer.meter.bits_down)


def _ddp(hook: str | None, ranks: Ranks) -> Round:
    """A plain loop with Adam."""
    import torch
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powersgd
    from torch.nn.functional import cross_entropy
    from torch.nn.parallel import DistributedDataParallel

    from data.embedded import digit_images

    torch.manual_seed(0)
    data = digit_images()
    images = (torch.from_numpy(data.train_images).permute(0, 3, 1, 2) / 255 - data.mean[0]) / data.std[0]
    labels = torch.from_numpy(data.train_labels).long()
    # The hook starts collectives when others end, which gloo, where there are several buckets, gets out of order.
    model = DistributedDataParallel(mlp(), bucket_cap_mb=100 if hook == "powersgd" else None)
    if hook == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif hook == "powersgd":
        # Error feedback begins with the compression, in the third round.
        state: Any = powersgd.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
        model.register_comm_hook(state, powersgd.powerSGD_hook)
    adam = torch.optim.Adam(model.parameters(), lr=1e-4)
    drawn = torch.Generator().manual_seed(ranks.rank)

    def round() -> None:
        batch = torch.randint(len(labels), (BATCH,), generator=drawn)
        adam.zero_grad()
        cross_entropy(model(images[batch]), labels[batch]).backward()
        adam.step()

    return round
