"""EF21-P: the server sends compressed differences of models."""

from dataclasses import dataclass

from torch import Tensor

from .bases import Algorithm, Compressor, Lr, Markov, ReplicaState, Wanted, WorkerState, dense
from .bases.server_weights import ServerModel, worker_lr
from .bases.worker_momentum import DecaySent


@dataclass(frozen=True)
class FromStart(Markov):
    """A Markov sequence that starts at the model, which both ends have."""

    is_coordinatewise = True
    is_mirrored = False  # a replica's signal is its step

    def start(self, like: Tensor) -> Tensor:
        return like


@dataclass(frozen=True)
class PrimalFeedback(ServerModel):
    is_coordinatewise = True
    needs_all = ""

    def worker_message(self, gradient: Tensor, state: WorkerState, replica: ReplicaState, lr: Lr, t: int) -> Wanted:
        return worker_lr(lr) * self.update.worker_message(gradient, replica.x, replica.moments, t), state.moments


def ef21_p(
    compressor: Compressor,
    weight_decay: float = 0.0,  # λ, added to g_i
) -> Algorithm:
    """Error feedback on the model: gradients at the received model w go up uncompressed.

        worker   g_i at w,  sends αg_i
        server   x ← x − mean_i αg_i,  p = C(x − w),  w ← w + p
        replica  w ← w + p

    State: x and w [d] on the server, w [d] on every replica, both the model at the start. Evaluations measure w.
    Wire: 32d bits up, one message of a contractive C down, 64k bits with top-k.
    Source: Gruntkowska, Tyurin and Richtárik 2022 (arXiv 2209.15218), recalled; no reference code was found. For an
    odd, positively homogeneous C and a constant α it has the w of error feedback on the downlink.
    """
    return PrimalFeedback(dense(), FromStart(compressor), DecaySent(weight_decay=weight_decay))
