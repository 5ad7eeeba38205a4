"""VR-MARINA: MARINA on batches, with full gradients in its uncompressed rounds."""

from dataclasses import dataclass

from torch import Tensor

from ..core.channels import Memory
from .bases import SGD, Algorithm, Compressor, MessageKey, Payload, WorkerState, dense
from .marina import Coin, Differences, Marina


@dataclass(frozen=True, kw_only=True)
class GradientDifferences(Differences):
    """MARINA's channel for gradients that already are differences."""

    is_coordinatewise = True

    def start(self, like: Tensor) -> Memory:
        return None

    def send(self, w: Tensor, memory: Memory, key: MessageKey) -> tuple[Payload, Memory]:
        return self.codec(key.round).encode(w, key), None


@dataclass(frozen=True, kw_only=True)
class VRMarina(Marina):
    """MARINA on differences between gradients of one batch at two models."""

    is_coordinatewise = True
    looks_back = True

    def takes_full_gradient(self, t: int) -> bool:
        return self.coin.shows_heads(t)

    def variance_reduced_gradient(self, gradient: Tensor, earlier: Tensor, state: WorkerState, t: int) -> Tensor:
        return gradient - earlier

    def step_size(self, smoothness: float, worker_smoothness: float, workers: int, d: int) -> float:
        raise ValueError("theory's step size of VR-MARINA needs the smoothness of batches; set task.step_unit=one")


def vr_marina(
    compressor: Compressor,
    update: SGD,
    seed: int = 0,
    d: int | None = None,
    p: float | None = None,  # how often full gradients cross uncompressed; null: 1/(1+ω)
) -> Algorithm:
    """MARINA on batches: send compressed differences of a batch's gradients at two models, and rare full gradients.

        all      θ_t = 1 in round 1, then with probability p, else 0; alike everywhere
        worker   θ_t = 1:  ∇f_i(x_t), of all rows          θ_t = 0:  c_i = C(g_i − p_i) on a batch, p_i at x_{t−1}
        server   θ_t = 1:  ĝ = mean_i ∇f_i(x_t)            θ_t = 0:  ĝ ← ĝ + mean_i c_i;  sends ĝ
        replica  x ← x − αĝ

    State: ĝ [d] on the server; the previous x [d] on replicas.
    Wire: as `marina`.
    Source: as `marina`, Algorithm 2 for finite sums. With full gradients in every round it is MARINA.
    Differences: The authors' code sets p to the smaller of 1/(1+ω) and b/(b+m), for batches of b of a worker's m
    rows; set `p` to it. `gradient_calls` counts two gradients and `epoch` one batch in every round, also if θ_t = 1.
    """
    if p is None and d is not None:
        p = 1 / (1 + compressor.omega(d))
    coin = Coin(p, seed)
    return VRMarina(uplink=GradientDifferences(compressor, coin=coin), downlink=dense(), update=update, coin=coin)
