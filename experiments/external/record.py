"""A run of an external strategy: the harness's rounds and folder, but the strategy moves x."""

from dataclasses import replace

import torch
import torch.distributed as dist
from torch import Tensor

from algorithms.comm.gather_broadcast import convert_collective_errors
from algorithms.compressors import Compressor, Identity
from algorithms.core.algorithm import Algorithm, Stage
from algorithms.core.bit_counter import BitCounter
from algorithms.core.channels import dense
from algorithms.core.update_rules import SGD, Lr
from common.errors import UsageError
from experiments.cluster.base import ClusterState, Simulated
from experiments.cluster.ranks import Group, Ranks
from experiments.config.classes import Classes, as_node
from experiments.config.schema import ClusterConfig, RunConfig
from experiments.external.collectives import Collectives
from experiments.external.strategy import Carrier, Strategy
from experiments.tasks.task import layout_of
from experiments.training.build import build_task, configure_torch, trainer_of
from experiments.training.trainer import Trainer


class External(Algorithm):
    """A placeholder for the strategy. It exchanges nothing, and its step size by theory is dense SGD's."""

    is_coordinatewise = True

    def stages(self, t: int, lr: Lr = 0.0) -> tuple[Stage, ...]:
        return ()


class StrategyCluster(Simulated):
    """One worker per rank, moved by its strategy. Worker 0's model is measured; the others' may differ."""

    def __init__(self, ranks: Ranks, strategy: Strategy, carrier: Carrier, seed: int) -> None:
        super().__init__(External(dense(), dense(), SGD()), 1, seed)
        self.ids, self.is_first = [ranks.rank], ranks.is_first
        self._strategy, self._carrier, self.collectives = strategy, carrier, Collectives()

    def round(self, gradients: Tensor, state: ClusterState, lr: float | Tensor, t: int) -> ClusterState:
        with self.collectives.count_bytes():
            self._strategy.step(gradients[0, 0], float(lr))
        return replace(state, replica=replace(state.replica, x=self._carrier.vector().unsqueeze(0)))


class ExternalTrainer(Trainer):
    """Trains one worker. The strategy's state is not saved, so a stopped run begins anew."""

    is_resumable = False
    cluster: StrategyCluster

    def evaluate(self) -> list[dict[str, float | int | None]]:
        """Return a trainer's rows. Bits up are the most that a worker sent, bits down the most that one received."""
        counted = self.cluster.collectives
        most = torch.tensor([counted.inputs.total(), counted.outputs.total()], device=self.task.device)
        with convert_collective_errors():
            dist.all_reduce(most, dist.ReduceOp.MAX)
        up, down = most.tolist()
        self.meter = BitCounter(8 * up, 8 * down, up + down)
        return super().evaluate()

    def fingerprints(self) -> dict[str, int]:
        return {}


def check(run: RunConfig) -> None:
    """Raise UsageError for settings that external strategies do not support."""
    classes = Classes(run.packages)
    classes.find(as_node(run.algorithm), "algorithm", Strategy)
    if classes.find(as_node(run.compressor), "compressor", Compressor) is not Identity or run.update.target:
        raise UsageError("compressor, update: an external strategy brings its own; leave them out")
    plain = ClusterConfig(workers=run.cluster.workers, timeout=run.cluster.timeout)
    usual = {"partition": "whole", "clip_aggregate": None}
    other = [key for key, value in usual.items() if getattr(run, key) != value]
    other += [f"cluster.{key}" for key, value in vars(plain).items() if getattr(run.cluster, key) != value]
    if other:
        raise UsageError(f"{', '.join(other)}: external strategies support only cluster.workers and cluster.timeout")
    if len(run.lr) > 1:
        raise UsageError(f"lr={list(run.lr)}: an external strategy takes one step size per run")


def build_trainer(run: RunConfig, ranks: Ranks) -> ExternalTrainer:
    """Build the task and the strategy of this rank's worker. Raises UsageError, DataError and LostContact."""
    if not isinstance(ranks, Group) or ranks.size != run.cluster.workers:
        raise UsageError(
            f"cluster.workers={run.cluster.workers}: an external strategy needs one rank per worker, and there are "
            f"{ranks.size}; start it by torchrun --nproc-per-node={run.cluster.workers}"
        )
    configure_torch(run)
    task = build_task(run, ranks)
    carrier = Carrier(task.start(), layout_of(task))
    strategy = Classes(run.packages).build(as_node(run.algorithm), "algorithm", Strategy, carrier=carrier)
    cluster = StrategyCluster(ranks, strategy, carrier, run.seed)
    return trainer_of(run, ExternalTrainer, task, cluster, cluster.algorithm)
