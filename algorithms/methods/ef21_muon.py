"""EF21-Muon: compressed differences of momenta up and of models down, Muon's steps on the server."""

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from ..core.algorithm import ReplicaState, Stage, Wanted, WorkerState
from ..utils.layout import Layout
from .bases import Adam, Algorithm, Compressor, Identity, Lr, Markov, Moments, Momentum, check_range
from .bases.muon import Muon, Scale
from .bases.server_weights import ServerModel, ServerWeights
from .ef21_p import FromStart


@dataclass
class SteppingServer(ServerWeights):
    moments: Moments


@dataclass(frozen=True, kw_only=True)
class EF21Muon(ServerModel):
    """Rounds in which the server steps along its aggregate, with the round's step size."""

    beta: float
    dense_start: bool
    lr: Any = None  # of the current round

    signal_estimates_mean = False  # the signal is a step of the model
    needs_all = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "beta", span="(0, 1]")

    def stages(self, t: int, lr: Lr = 0.0) -> tuple[Stage, ...]:
        return (replace(self, lr=lr),)

    def start_moments(self, like: Tensor) -> Momentum:
        return Momentum(m=like.new_zeros(like.shape))

    def start_server(self, x: Tensor) -> SteppingServer:
        return SteppingServer(**vars(super().start_server(x)), moments=self.update.start(x))

    def start_replica(self, x: Tensor) -> ReplicaState:
        return replace(super().start_replica(x), moments=())

    def worker_message(self, gradient: Tensor, state: WorkerState, replica: ReplicaState, lr: Lr, t: int) -> Wanted:
        (m,) = state.moments
        m = gradient if t == 1 and self.dense_start else (1 - self.beta) * m + self.beta * gradient
        return m, Momentum(m)

    def step_server(self, state: Any, u: Tensor, t: int) -> SteppingServer:
        x, moments = self.update.step(state.x, u, state.moments, self.lr, t)
        return replace(state, x=x, moments=moments)


def ef21_muon(
    compressor: Compressor,
    layout: Layout = (),
    beta: float = 0.3,  # β, how much of the new gradient enters M_i
    scale: Scale = "match_rms_adamw",  # s: 0.2√max(m, n); none: 1; original: √max(1, m/n); spectral: √(m/n)
    others_lr: float = 1.0,  # AdamW's step size for all else, in units of α
    beta1: float = 0.9,  # β₁ of AdamW
    beta2: float = 0.95,  # β₂ of AdamW
    eps: float = 1e-10,  # ε of AdamW, outside the root
    weight_decay: float = 0.0,  # λ, of x ← x − αλx on the server
    uplink_only: bool = False,  # true: differences of models come down uncompressed, 32d bits
    dense_start: bool = True,  # true: M_i and G_i start as the first gradients, sent uncompressed, 32d bits
) -> Algorithm:
    """Muon with EF21 on momenta up and on the model down.

        worker   M_i ← (1−β)M_i + βg_i at W,  R_i = C(M_i − G_i),  G_i ← G_i + R_i
        server   G ← G + mean_i R_i,  X ← X − α(λX + s·NS(G)) of every matrix,  AdamW along G of all else
                 S = C(X − W),  W ← W + S
        replica  W ← W + S

    State: M_i and G_i [d] on every worker; G, X, W [d] and AdamW's moments on the server; W on every replica. X and W
    start as the model. Evaluations measure W, the workers' model.
    Wire: one message of a contractive C up, after 32d bits in round 1 with `dense_start`, and one down.
    Source: Gruntkowska, Gaponov, Tovmasyan and Richtárik 2025 (arXiv 2510.00643), from a transcription: no code of
    theirs was found, and their start, embeddings, heads, β and radii (α·s here) are uncertain. Uncompressed, and from
    zero, matrices move as with `muon`, μ = 1−β, without `nesterov`.
    Differences: They begin with the step from the first G. NS is Muon's polynomial instead of an exact UVᵀ.
    """
    others = Adam(beta1=beta1, beta2=beta2, nu=eps, form="torch")
    update = Muon(
        layout=layout, momentum=0.0, scale=scale, others=others, others_lr=others_lr, weight_decay=weight_decay
    )
    up, down = Markov(compressor, dense_rounds=int(dense_start)), FromStart(Identity() if uplink_only else compressor)
    return EF21Muon(up, down, update, beta=beta, dense_start=dense_start)
