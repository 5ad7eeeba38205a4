"""Step sizes that theory allows."""


def markov_step_size(smoothness: float, worker_smoothness: float, pi: float) -> float:
    """γ = 1/(L + L̃√(β/θ)) for gradient descent on a Markov sequence, up to which EF21 is proven to converge.

    θ = 1 − √(1−π) and β = (1−π)/θ, so that √(β/θ) = √(1−π)/(1 − √(1−π)). `smoothness` is L of f,
    `worker_smoothness` L̃ = √(mean_i L_i²), `pi` the compressor's contraction (Assumption 4.1), k/d for top-k.
    Source: Richtárik, Sokolov and Fatkhullin 2021, Theorem 1, which is about a dense downlink.
    """
    root = (1 - pi) ** 0.5
    return 1 / (smoothness + worker_smoothness * root / (1 - root))
