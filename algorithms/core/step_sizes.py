"""Step sizes that theory allows."""

from typing import Literal


def markov_step_size(smoothness: float, worker_smoothness: float, pi: float) -> float:
    """γ = 1/(L + L̃√(β/θ)) for gradient descent on a Markov sequence, up to which EF21 is proven to converge.

    θ = 1 − √(1−π) and β = (1−π)/θ, so that √(β/θ) = √(1−π)/(1 − √(1−π)). `smoothness` is L of f,
    `worker_smoothness` L̃ = √(mean_i L_i²), `pi` the compressor's contraction (Assumption 4.1), k/d for top-k.
    Source: Richtárik, Sokolov and Fatkhullin 2021, Theorem 1, which is about a dense downlink.
    """
    root = (1 - pi) ** 0.5
    return 1 / (smoothness + worker_smoothness * root / (1 - root))


def marina_step_size(smoothness: float, worker_smoothness: float, omega: float, p: float, workers: int) -> float:
    """γ = 1/(L + L̃√((1−p)ω/(pn))) for MARINA on full gradients of n workers.

    ω is the compressor's variance, d/k − 1 for unbiased random-k. Source: Gorbunov, Burlachenko, Li and Richtárik
    2021, Theorem 2.1 has 1/(L̃(1 + √…)); L of f in the first term is DASHA's authors' code, with the true L.
    """
    return 1 / (smoothness + worker_smoothness * ((1 - p) * omega / (p * workers)) ** 0.5)


def dasha_step_size(
    smoothness: float, worker_smoothness: float, omega: float, workers: int, form: Literal["code", "paper"] = "code"
) -> float:
    """γ = 1/(L + L̃√(ω(4ω+1)/n)) for DASHA on full gradients of n workers; form `paper`: √(16ω(2ω+1)/n).

    Source: the code of Tyurin and Richtárik 2023, which takes mean_i L_i for L. The form of their paper, Theorem 6.1,
    is recalled, unverified.
    """
    variance = omega * (4 * omega + 1) if form == "code" else 16 * omega * (2 * omega + 1)
    return 1 / (smoothness + worker_smoothness * (variance / workers) ** 0.5)


def diana_step_size(smoothness: float, omega: float, workers: int) -> float:
    """γ = 1/(10L√(1 + ω/n)(2 + ω)) for DIANA on full gradients of n workers, nonconvex.

    Source: the code of MARINA's authors, which names Theorem 4 of arXiv 1904.05115, with m = 1.
    """
    return 1 / (10 * smoothness * (1 + omega / workers) ** 0.5 * (2 + omega))
