"""MARINA: compressed differences of gradients, and sometimes full gradients."""

from dataclasses import dataclass

from torch import Tensor

from ..core.algorithm import Payloads, ServerState
from ..core.channels import Memory
from ..utils.seeding import shows_heads
from .bases import SGD, Algorithm, Channel, Compressor, Identity, MessageKey, Payload, check_range, dense


@dataclass(frozen=True)
class Coin:
    """A coin that shows heads in round 1, and later with probability p. It depends only on (seed, "coin", round)."""

    p: float | None  # None: unknown
    seed: int

    def __post_init__(self) -> None:
        check_range(self, "p", span="(0, 1]")

    @property
    def chance(self) -> float:
        """p. Raises ValueError if it is unknown."""
        if self.p is None:
            raise ValueError("needs p=, how often the coin shows heads, or d=, the number of coordinates")
        return self.p

    def shows_heads(self, t: int) -> bool:
        """Toss the coin of round t (from 1)."""
        return t == 1 or shows_heads(self.chance, self.seed, "coin", t)


@dataclass(frozen=True, kw_only=True)
class Differences(Channel):
    """Sends w if the coin shows heads, else C(w − w') with the previous round's vector w'."""

    coin: Coin

    is_coordinatewise = True

    def __post_init__(self) -> None:
        self._check_unbiased("MARINA")

    def codec(self, t: int) -> Compressor:
        return Identity() if self.coin.shows_heads(t) else self.compressor

    def send(self, w: Tensor, memory: Memory, key: MessageKey) -> tuple[Payload, Memory]:
        news = w if self.coin.shows_heads(key.round) else w - memory
        return self.codec(key.round).encode(news, key), w

    def receive(self, message: Tensor, last: Tensor) -> Tensor:
        return last + message


@dataclass(frozen=True, kw_only=True)
class Marina(Algorithm):
    """Rounds in which the server resets its aggregate if the coin shows heads."""

    coin: Coin

    is_coordinatewise = True
    needs_all = "where the coin shows heads, ĝ is the mean of all gradients, to which later differences are added"

    def aggregate(self, payloads: Payloads, state: ServerState, t: int) -> Tensor:
        mean = self.mean(payloads, state.aggregate.shape[-1], t)
        return mean if self.coin.shows_heads(t) else self.uplink.receive(mean, state.aggregate)

    def step_size(self, smoothness: float, worker_smoothness: float, workers: int, d: int) -> float:
        omega = self.uplink.compressor.omega(d)
        return marina_step_size(smoothness, worker_smoothness, omega, self.coin.chance, workers)

    def check(self, d: int) -> None:
        super().check(d)
        _ = self.coin.chance  # raises ValueError if unknown


def marina(
    compressor: Compressor,
    update: SGD,
    seed: int = 0,
    d: int | None = None,
    p: float | None = None,  # how often gradients cross uncompressed; null: 1/(1+ω)
) -> Algorithm:
    """Send compressed differences of successive gradients; with probability p full gradients, which end all errors.

        all      θ_t = 1 in round 1, then with probability p, else 0; alike everywhere
        worker   θ_t = 1:  g_i          θ_t = 0:  c_i = C(g_i − g_i'),  g_i': gradient of the previous round
        server   θ_t = 1:  ĝ = mean_i g_i          θ_t = 0:  ĝ ← ĝ + mean_i c_i;  sends ĝ
        replica  x ← x − αĝ

    State: g_i' [d] on every worker; ĝ [d] on the server.
    Wire: up 32d bits where θ_t = 1, else one message of an unbiased C, so bits depend on the seed; 32d bits down.
    `seed` and `d` are the run's; `p` can replace `d`.
    Source: Gorbunov, Burlachenko, Li and Richtárik, MARINA: Faster Non-Convex Distributed Learning with Compression,
    2021 (arXiv 2102.07845), Algorithm 1; p = 1/(1+ω) is its authors' code's. With `task.batch_size` differences are
    between batches, unlike VR-MARINA. The step size of theory is `marina_step_size`.
    Differences: Every process draws the coin from the seed, for no bits; the paper's server would send it.
    """
    if p is None and d is not None:
        p = 1 / (1 + compressor.omega(d))
    coin = Coin(p, seed)
    return Marina(uplink=Differences(compressor, coin=coin), downlink=dense(), update=update, coin=coin)


def marina_step_size(smoothness: float, worker_smoothness: float, omega: float, p: float, workers: int) -> float:
    """γ = 1/(L + L̃√((1−p)ω/(pn))) for MARINA on full gradients of n workers, by DASHA's authors' code. Theorem 2.1 of
    MARINA's paper has L̃ instead of L."""
    return 1 / (smoothness + worker_smoothness * ((1 - p) * omega / (p * workers)) ** 0.5)
