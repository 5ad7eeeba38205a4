"""SPARTA: workers train alone, and average a few random coordinates in every round."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..compressors.blocks import Blocks
from ..compressors.random_k import RandomK
from ..core.algorithm import ReplicaState, WorkerState
from .bases import Algorithm, Compressor, Direct, ErrorFeedback, MessageKey, Payload, Update
from .bases.local_steps import LocalSteps, Nesterov


@dataclass(frozen=True)
class SharedUp(ErrorFeedback):
    """Sends coordinates that depend only on seed and round, so all workers send the same ones."""

    is_coordinatewise = True

    def send(self, w: Tensor, memory: Tensor, key: MessageKey) -> tuple[Payload, Tensor]:
        return super().send(w, memory, MessageKey(key.seed, "shared", key.round))


@dataclass(frozen=True)
class SharedDown(Direct):
    """Sends the mean back, which has only the coordinates of the uplink."""

    is_coordinatewise = True

    def send(self, w: Tensor, memory: None, key: MessageKey) -> tuple[Payload, None]:
        return super().send(w, memory, MessageKey(key.seed, "shared", key.round))


@dataclass(frozen=True, kw_only=True)
class Sparta(LocalSteps):
    """Local steps in which workers keep the unsent coordinates of their models."""

    is_coordinatewise = True
    has_common_model = False
    needs_all = "a worker knows the averaged coordinates from its own message"

    def sync_workers(self, state: WorkerState, replica: ReplicaState, t: int) -> WorkerState:
        # The memory is x − x_i at unsent coordinates, and zero at sent ones.
        return replace(state, x=torch.where(state.memory == 0, replica.x.unsqueeze(-2), state.x))


def sparta(compressor: Compressor, update: Update) -> Algorithm:
    """Every worker steps its own model. Every round averages a random part of the models, never the whole.

        worker   x_i ← x_i − α·step(g_i), with the gradient g_i at x_i
                 S: k of d coordinates, equal everywhere;  sends x − x_i on S
        server   mean_i (x − x_i) on S
        replica  on S: x ← x − mean_i (x − x_i) = mean_i x_i,  x_i ← x

    x has every coordinate's last mean. Evaluations measure mean_i x_i; bits do not include that average.
    State: x_i, the inner update's moments and the unsent part of x − x_i [d] on every worker; x and an unused
    b [d].
    Wire: 32k + 64 bits up and down in every round, with the k of `compressor`, random_k.
    Source: SPARTA of EXO Labs, 2025, by the code of EXO Gym (exo-explore/gym) with its share 0.005. k = d is local
    SGD.
    Differences: S has k coordinates of the whole vector and crosses as a seed. There every coordinate is in S with
    probability 0.005, and S is broadcast uncounted.
    """
    if not isinstance(compressor.compressor if isinstance(compressor, Blocks) else compressor, RandomK):
        raise ValueError(f"{compressor}: sparta needs coordinates that every worker draws alike; take random_k")
    up, down = SharedUp(compressor, decay=0.0), SharedDown(compressor)
    return Sparta(uplink=up, downlink=down, update=Nesterov(), inner=update, period=1)
