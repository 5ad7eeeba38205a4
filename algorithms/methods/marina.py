"""MARINA: compressed differences of gradients, and now and then the gradients themselves."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ..compressors import Compressor, Identity, Payload
from ..core.algorithm import Algorithm, Payloads, ServerState
from ..core.channels import Channel, dense
from ..core.step_sizes import marina_step_size
from ..core.update_rules import SGD
from ..utils.seeding import MessageKey
from .bases.shared_coin import Coin


@dataclass(frozen=True, kw_only=True)
class Differences(Channel):
    """Sends w where the coin shows heads, and else C(w − w'), w' being the vector of the round before."""

    coin: Coin

    is_coordinatewise = True

    def __post_init__(self) -> None:
        if not self.compressor.unbiased:
            raise ValueError(
                f"{self.compressor}: MARINA needs an unbiased compressor (random_k with `unbiased`, natural, qsgd, "
                "terngrad)"
            )

    def codec(self, t: int) -> Compressor:
        return Identity() if self.coin.at(t) else self.compressor

    def send(self, w: Tensor, memory: Tensor, key: MessageKey) -> tuple[Payload, Tensor]:
        news = w if self.coin.at(key.round) else w - memory
        return self.codec(key.round).encode(news, key), w

    def receive(self, message: Tensor, last: Tensor) -> Tensor:
        return last + message


@dataclass(frozen=True, kw_only=True)
class Marina(Algorithm):
    """Rounds whose server forgets its aggregate where the coin shows heads."""

    coin: Coin

    is_coordinatewise = True

    def aggregate(self, payloads: Payloads, state: ServerState, t: int) -> Tensor:
        mean = self.mean(payloads, state.aggregate.shape[-1], t)
        return mean if self.coin.at(t) else self.uplink.receive(mean, state.aggregate)

    def step_size(self, smoothness: float, worker_smoothness: float, workers: int, d: int) -> float:
        omega = self.uplink.compressor.omega(d)
        return marina_step_size(smoothness, worker_smoothness, omega, self.coin.chance, workers)

    def check(self, d: int) -> None:
        super().check(d)
        _ = self.coin.chance  # which raises where nobody knows it


def marina(
    compressor: Compressor,
    update: SGD,
    seed: int = 0,
    d: int | None = None,
    p: float | None = None,  # how often gradients cross uncompressed; null: 1/(1+ω)
) -> Algorithm:
    """Sends compressed differences of successive gradients; with probability p the gradients, which ends all errors.

        all      θ_t = 1 in round 1, then with probability p, else 0; alike everywhere
        worker   θ_t = 1:  g_i          θ_t = 0:  c_i = C(g_i − g_i'),  g_i' being the gradient of the round before
        server   θ_t = 1:  ĝ = mean_i g_i          θ_t = 0:  ĝ ← ĝ + mean_i c_i;  sends ĝ
        replica  x ← x − αĝ

    State: g_i' [d] on every worker; ĝ [d] on the server.
    Wire: up 32d bits where θ_t = 1 and else one message of an unbiased C, so that bits depend on the seed; 32d bits
    down. `seed` and `d` are the run's; `p` may stand for `d`.
    Source: Gorbunov, Burlachenko, Li and Richtárik, MARINA: Faster Non-Convex Distributed Learning with Compression,
    2021 (arXiv 2102.07845), Algorithm 1, whose p is ζ/d for ζ expected non-zeros; its authors' code has 1/(1+ω), the
    same for random-k. It is about full gradients: with `task.batch_size` the differences are between batches, which
    is not VR-MARINA. With θ_t = 0 throughout it is DASHA with a = 0. On logistic regression `task.step_unit=theory`
    counts in `algorithms.core.step_sizes.marina_step_size`.
    Differences: Every process draws the coin from the seed, at no bits; the paper's server would send one bit per
    round. The authors count the uplink alone; here the dense downlink counts too.
    """
    if p is None and d is not None:
        p = 1 / (1 + compressor.omega(d))
    coin = Coin(p, seed)
    return Marina(uplink=Differences(compressor, coin=coin), downlink=dense(), update=update, coin=coin)
