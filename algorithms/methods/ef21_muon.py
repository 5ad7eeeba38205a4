"""EF21-Muon: compressed differences of momenta up, steps of orthogonal matrices on the server, of models down."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from ..compressors.base import Compressor, Identity, Payload
from ..core.algorithm import Algorithm, Payloads, ReplicaState, ServerState, Stage, WorkerState
from ..core.channels import Markov
from ..core.update_rules import Adam, Moments, Momentum
from ..utils.layout import Layout
from ..utils.seeding import MessageKey
from .bases.muon import Muon, Scale
from .bases.server_weights import ServerModel, ServerWeights
from .ef21_p import FromStart


@dataclass
class SteppingServer(ServerWeights):
    """A server that holds the model, and what its update remembers."""

    moments: Moments


@dataclass(frozen=True, kw_only=True)
class EF21Muon(ServerModel):
    """Rounds whose server steps along its aggregate, with the step size of the round."""

    beta: float
    dense_start: bool
    lr: float | Tensor | None = None  # of the round at hand

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.beta <= 1:
            raise ValueError(f"beta={self.beta}: must lie in (0, 1]")

    def stages(self, t: int, lr: float | Tensor = 0.0) -> tuple[Stage, ...]:
        return (replace(self, lr=lr),)

    def start_workers(self, x: Tensor, ids: Tensor) -> WorkerState:
        zeros = x.new_zeros(*x.shape[:-1], len(ids), x.shape[-1])
        return replace(super().start_workers(x, ids), moments=Momentum(m=zeros))

    def start_server(self, x: Tensor) -> SteppingServer:
        state = super().start_server(x)
        return SteppingServer(state.aggregate, state.memory, state.x, moments=self.update.start(x))

    def start_replica(self, x: Tensor) -> ReplicaState:
        return replace(super().start_replica(x), moments=())

    def worker_message(
        self, gradient: Tensor, state: WorkerState, replica: ReplicaState, lr: float | Tensor, t: int
    ) -> tuple[Tensor, Moments]:
        (m,) = state.moments
        m = gradient if t == 1 and self.dense_start else (1 - self.beta) * m + self.beta * gradient
        return m, Momentum(m)

    def aggregate(self, payloads: Payloads, state: ServerState, t: int) -> Tensor:
        return Algorithm.aggregate(self, payloads, state, t)

    def server_message(
        self, aggregate: Tensor, state: ServerState, t: int, seed: int, norm: Tensor | None = None
    ) -> tuple[Payload, SteppingServer]:
        assert isinstance(state, SteppingServer)
        assert self.lr is not None  # `stages` gave it
        u = self.clipped_aggregate(aggregate, norm)
        x, moments = self.update.step(state.x, u, state.moments, self.lr, t)
        payload, memory = self.downlink.send(x, state.memory, MessageKey(seed, "down", t))
        return payload, SteppingServer(aggregate=aggregate, memory=memory, x=x, moments=moments)


def ef21_muon(
    compressor: Compressor,
    layout: Layout = (),
    beta: float = 0.3,  # β, how much of the new gradient enters M_i
    scale: Scale = "match_rms_adamw",  # s: 0.2√max(m, n); none: 1; original: √max(1, m/n); spectral: √(m/n)
    others_lr: float = 1.0,  # AdamW's step size for what is no matrix, in units of α
    beta1: float = 0.9,  # β₁ of AdamW
    beta2: float = 0.95,  # β₂ of AdamW
    eps: float = 1e-10,  # ε of AdamW, outside the root
    weight_decay: float = 0.0,  # λ, of x ← x − αλx on the server
    uplink_only: bool = False,  # true: differences of models come down uncompressed, 32d bits
    dense_start: bool = True,  # true: M_i and G_i begin as the first gradients, which cross uncompressed, 32d bits
) -> Algorithm:
    """Muon with EF21 on momenta up and on the model down.

        worker   M_i ← (1−β)M_i + βg_i at W,  R_i = C(M_i − G_i),  G_i ← G_i + R_i
        server   G ← G + mean_i R_i,  X ← X − α(λX + s·NS(G)) of every matrix,  AdamW along G of all else
                 S = C(X − W),  W ← W + S
        replica  W ← W + S

    Roles: matrices are the tensors that the task says are; embeddings, heads and vectors are all else.
    State: M_i and G_i [d] on every worker; G, X, W [d] and AdamW's moments on the server; W on every replica, X and W
    the start of the model. What is evaluated is what workers hold, W.
    Wire: one message of a contractive C up, after 32d bits in round 1 with `dense_start`, and one down.
    Source: Gruntkowska, Gaponov, Tovmasyan and Richtárik 2025 (arXiv 2510.00643), from a transcription: no code of
    theirs was found, and their start, embeddings, heads, β and radii (α·s here) are unsure. They begin with the step
    from the first G, here a round begins with gradients. NS is Muon's polynomial in place of an exact UVᵀ. Without
    compression, and from zero, matrices move as by `muon` with μ = 1−β, without `nesterov`.
    """
    others = Adam(beta1=beta1, beta2=beta2, nu=eps, form="torch")
    update = Muon(
        layout=layout, momentum=0.0, nesterov=False, scale=scale, others=others, others_lr=others_lr,
        weight_decay=weight_decay, decoupled=True,
    )  # fmt: skip
    return EF21Muon(
        Markov(compressor, dense_rounds=int(dense_start)),
        FromStart(Identity() if uplink_only else compressor),
        update,
        beta=beta,
        dense_start=dense_start,
    )
