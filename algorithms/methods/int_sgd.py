"""IntSGD: gradients as integers that an all-reduce can add."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from torch import Tensor

from ..compressors.integers import IntegerMean, Integers
from ..compressors.shard import whole_shard
from .bases import SGD, Algorithm, Direct, Lr, Moments, Payload, ReplicaState, Wanted, WorkerState, check_range


class ScaleMoments(NamedTuple):
    r: Tensor  # [*T, 1], the average of ‖ĝ‖²
    update: Moments


@dataclass(frozen=True, kw_only=True)
class IntSGD(Algorithm):
    """Rounds in which workers scale gradients by a. Every replica computes a from past mean gradients."""

    workers: int
    largest: int
    beta: float

    is_coordinatewise = False  # a depends on all coordinates
    signal_estimates_mean = False  # workers send a·g
    needs_all = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "beta")

    def start_replica(self, x: Tensor) -> ReplicaState:
        state = super().start_replica(x)
        return replace(state, moments=ScaleMoments(x.new_zeros(*x.shape[:-1], 1), state.moments))

    def worker_message(self, gradient: Tensor, state: WorkerState, replica: ReplicaState, lr: Lr, t: int) -> Wanted:
        if t == 1:
            return gradient, state.moments
        scaled = gradient * self._scale(replica).unsqueeze(-2)
        return scaled.clamp(-self.largest, self.largest), state.moments

    def receive(self, payload: Payload, state: ReplicaState, t: int) -> Tensor:
        message = super().receive(payload, state, t)
        return message if t == 1 else message / self._scale(state)

    def apply_signal(self, signal: Tensor, state: ReplicaState, lr: Lr, t: int, norm: Tensor | None) -> ReplicaState:
        r, own = state.moments
        stepped = super().apply_signal(signal, replace(state, moments=own), lr, t, norm)
        square = whole_shard(signal.shape[-1]).norm(signal) ** 2
        r = square if t == 1 else self.beta * r + (1 - self.beta) * square
        return replace(stepped, moments=ScaleMoments(r, stepped.moments))

    def _scale(self, state: ReplicaState) -> Tensor:
        """Return a [*T, 1], the factor of gradients."""
        return (state.x.shape[-1] / (2 * self.workers * (state.moments.r + 1e-16))) ** 0.5


def int_sgd(
    compressor: Integers,
    update: SGD,
    workers: int,
    beta: float = 0.9,  # β, weight of the old average of ‖ĝ‖²
) -> Algorithm:
    """Scale gradients by a common factor, round them to integers and add these up.

        round 1  ĝ = mean_i g_i,  r ← ‖ĝ‖²
        worker   a = √d/√(2n(r + 10⁻¹⁶)),  q_i = Int(a·g_i), at most ⌊(2^{b−1}−1)/n⌋ in absolute value
        server   Σ_i q_i
        replica  ĝ = Σ_i q_i/(n·a),  r ← βr + (1−β)‖ĝ‖²,  x ← x − αĝ

    State: r on every replica. n = `workers`, b = `compressor.width`. Int rounds up or down at random.
    Wire: 32d bits each way in round 1, then b·d up and b·d down. No scale is sent.
    Source: Mishchenko, Wang, Kovalev and Richtárik, IntSGD: Adaptive Floatless Compression of Stochastic Gradients,
    ICLR 2022 (arXiv 2102.08374), and the authors' code. For SGD ‖ĝ‖² is the paper's ‖x_t − x_{t−1}‖²/α².
    Differences: The authors' code sends momenta; here momentum is the replica's. Their code rounds to the nearest
    integer by default, and its bound of q_i may be a fraction. The paper's factors per layer are left out.
    Raises ValueError if b bits cannot hold a sum of n integers.
    """
    largest = compressor.top // workers
    if not largest:
        raise ValueError(
            f"workers={workers}: {compressor.width} bits cannot hold a sum of so many integers; raise width"
        )
    up, down = (Direct(one, dense_rounds=1) for one in (compressor, IntegerMean(workers, compressor.width)))
    return IntSGD(uplink=up, downlink=down, update=update, workers=workers, largest=largest, beta=beta)
