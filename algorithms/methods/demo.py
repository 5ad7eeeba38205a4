"""DeMo: the fast components of momentum cross, the slow ones stay."""

from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor

from ..compressors.dct import Chunks, DctTopK
from ..compressors.sign import vote
from ..core.algorithm import ReplicaState, Wanted, WorkerState
from ..utils.layout import Layout, check_layout
from .bases import SGD, Algorithm, Direct, ErrorFeedback, Lr, MessageKey, Payload, SendersMean
from .bases.server_weights import worker_lr


@dataclass(frozen=True, kw_only=True)
class OfCoefficients(ErrorFeedback):
    """Error feedback with messages of coefficients. The receiver transforms them to coordinates."""

    chunks: Chunks

    mean_over = "present"

    def send(self, w: Tensor, memory: Tensor, key: MessageKey) -> tuple[Payload, Tensor]:
        compensated = w + self.decay * memory
        payload = self.codec(key.round).encode(self.chunks.forward(compensated), key)
        sent = self.decode(payload, w.shape[-1], key.round)
        return payload, compensated - self.chunks.inverse(sent)

    def receive(self, message: Tensor, last: Tensor) -> Tensor:
        return self.chunks.inverse(message)

    def check(self, d: int) -> None:
        check_layout(self.chunks.layout, d)


@dataclass(frozen=True)
class DeMo(Algorithm):
    """Rounds in which workers send steps αg_i."""

    needs_all = ""

    def worker_message(self, gradient: Tensor, state: WorkerState, replica: ReplicaState, lr: Lr, t: int) -> Wanted:
        return worker_lr(lr) * gradient, state.moments


def demo(
    compressor: DctTopK,
    layout: Layout = (),
    beta: float = 0.999,  # β, how much of δ_i is kept each round
    tie: Literal["zero", "plus"] = "zero",  # the step of a coordinate that nobody sent; plus: +α, for d bits down
    weight_decay: float = 0.0,  # λ, of x ← x − αλx
) -> Algorithm:
    """Local momentum; workers send only the largest coefficients of its cosine transform.

        worker   δ_i ← βδ_i + αg_i,  c_i = the k largest coefficients of every chunk of DCT(δ_i)
                 δ_i ← δ_i − DCT⁻¹(c_i)
        server   z = mean of every coefficient over the workers that sent it, zeros included,  s = sgn(DCT⁻¹(z))
        replica  x ← x − α(s + λx)

    All tensors are treated alike, independent of their roles.
    State: δ_i [d] on every worker, zero at the start.
    Wire: k(32 + ⌈log₂ hw⌉) bits a chunk up; 2d bits down, or d with `tie: plus`.
    Source: Peng, Quesnelle and Kingma, DeMo: Decoupled Momentum Optimization, 2024 (arXiv 2411.19870), by its
    authors' code with its defaults k = 32, chunks of 64 × 64 and β = 0.999. The sign of zero is 0 there too.
    Differences: a server sends signs; there all workers gather all messages, (n−1) times the uplink, with indices of
    64 bits. Papers count only the uplink.
    """
    compressor = replace(compressor, layout=layout or compressor.layout)
    uplink = OfCoefficients(compressor.coefficient_compressor, decay=beta, chunks=compressor.chunks)
    update = SGD(weight_decay=weight_decay, decoupled=True)
    return DeMo(uplink, Direct(vote(tie)), update, combine=SendersMean())
