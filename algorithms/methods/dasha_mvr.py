"""DASHA-MVR: DASHA for small batches, on variance-reduced gradients."""

from dataclasses import dataclass

from torch import Tensor

from .bases import SGD, Algorithm, Compressor, WorkerState, check_range, dense
from .dasha import Dasha, Start, make_uplink


@dataclass(frozen=True, kw_only=True)
class DashaMVR(Dasha):
    """DASHA on h_i, which follow the workers' gradients with less noise."""

    b: float

    is_coordinatewise = True
    looks_back = True
    needs_all = "an estimate h_i that is older than the previous x is not corrected by the gradient there"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "b", span="[0, 1]")

    def variance_reduced_gradient(self, gradient: Tensor, earlier: Tensor, state: WorkerState, t: int) -> Tensor:
        return gradient if t == 1 else gradient + (1 - self.b) * (state.moments.h - earlier)


def dasha_mvr(
    compressor: Compressor,
    update: SGD,
    b: float = 0.1,  # b, share of the old estimate's correction dropped each round
    rate: float | None = None,  # a, share of the error ĝ_i − h_i corrected each round; null: 1/(2ω+1)
    start: Start = "dense",  # the first message. dense: g_i uncompressed; zero: C(g_i); share: C(a·g_i)
) -> Algorithm:
    """DASHA for batches: momentum variance reduction (MVR) of g_i before it is compressed.

        worker   h_i' = g_i + (1−b)(h_i − p_i),  p_i: gradient at the previous x on the batch of g_i
                 c_i = C(h_i' − h_i − a(ĝ_i − h_i)),  ĝ_i ← ĝ_i + c_i,  h_i ← h_i'
        server   ĝ ← ĝ + mean_i c_i,  sends ĝ
        replica  x ← x − αĝ

    In round 1 h_i' = g_i, and ĝ_i is as in DASHA with the same `start`.
    State: h_i and ĝ_i [d] on every worker; ĝ [d] on the server; the previous x [d] on replicas.
    Wire: as `dasha`.
    Source: as `dasha`. Its authors' code tries b from 0.01 to 0.5. b = 1 is DASHA on batches. On full gradients every
    b is DASHA.
    Differences: h_i begins with the first round's batch; the authors' code can take a larger one. The column
    `gradient_calls` counts both gradients of a round, `epoch` counts one.
    """
    uplink, learnt_start = make_uplink(compressor, start), start == "share"
    return DashaMVR(uplink, dense(), update, rate=rate, form="code", learnt_start=learnt_start, b=b)
