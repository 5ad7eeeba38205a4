"""SPARTA: workers train apart, and average a few random coordinates in every round."""

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
    """Sends coordinates that depend on seed and round alone, so that those of all workers are the same."""

    is_coordinatewise = True

    def send(self, w: Tensor, memory: Tensor, key: MessageKey) -> tuple[Payload, Tensor]:
        return super().send(w, memory, MessageKey(key.seed, "shared", key.round))


@dataclass(frozen=True)
class SharedDown(Direct):
    """Sends back the coordinates that came up, which are all that their mean has."""

    is_coordinatewise = True

    def send(self, w: Tensor, memory: None, key: MessageKey) -> tuple[Payload, None]:
        return super().send(w, memory, MessageKey(key.seed, "shared", key.round))


@dataclass(frozen=True, kw_only=True)
class Sparta(LocalSteps):
    """Local steps whose workers keep of their own models what they did not send."""

    is_coordinatewise = True
    has_common_model = False
    needs_all = "a worker finds the averaged coordinates by what it sent itself"

    def sync_workers(self, state: WorkerState, replica: ReplicaState, t: int) -> WorkerState:
        # The memory is x − x_i where it was not sent, zero where it was.
        return replace(state, x=torch.where(state.memory == 0, replica.x.unsqueeze(-2), state.x))


def sparta(compressor: Compressor, update: Update) -> Algorithm:
    """Every worker steps on a model of its own, of which a random share is averaged in every round; all of it never.

        worker   x_i ← x_i − α·step(g_i), g_i being the gradient at x_i
                 S: k of d coordinates, alike everywhere;  sends x − x_i on S
        server   mean_i (x − x_i) on S
        replica  on S: x ← x − mean_i (x − x_i) = mean_i x_i,  x_i ← x

    x holds of every coordinate its last mean. What is measured is mean_i x_i, an average that is not counted.
    State: x_i, the inner update's moments and what was not sent of x − x_i [d] on every worker; x [d].
    Wire: 32k + 64 bits up and down in every round, where k is that of `compressor`, random_k.
    Source: SPARTA of EXO Labs, 2025, by the code of EXO Gym (exo-explore/gym), whose share is 0.005. k = d is local
    SGD.
    Differences: S has k coordinates of the whole vector and crosses as a seed; there every coordinate is in S with
    that chance, and S is broadcast uncounted.
    """
    if not isinstance(compressor.compressor if isinstance(compressor, Blocks) else compressor, RandomK):
        raise ValueError(f"{compressor}: sparta needs coordinates that every worker draws alike; take random_k")
    up, down = SharedUp(compressor, decay=0.0), SharedDown(compressor)
    return Sparta(uplink=up, downlink=down, update=Nesterov(), inner=update, period=1)
