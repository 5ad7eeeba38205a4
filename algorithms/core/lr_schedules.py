"""Step size schedules, as factors of the configured step size."""

from math import cos, pi


def constant(t: int, rounds: int) -> float:
    """α_t = α."""
    return 1.0


def step_decay(t: int, rounds: int) -> float:
    """α_t = α, 0.1α, 0.01α: a tenth from 50 % and again from 75 % of the rounds on (CD-Adam paper, section 7.2)."""
    return 1.0 if t <= rounds // 2 else 0.1 if t <= 3 * rounds // 4 else 0.01


def inverse_sqrt(t: int, rounds: int) -> float:
    """α_t = α/√t."""
    return t**-0.5


def horizon(t: int, rounds: int) -> float:
    """α_t = α/√T for all T rounds, as in Theorem 6.4 of the CD-Adam paper."""
    return rounds**-0.5


def cosine(t: int, rounds: int) -> float:
    """α_t = α(1 + cos(π(t−1)/T))/2, half a period from α down to 0 after T rounds (Loshchilov and Hutter 2017)."""
    return (1 + cos(pi * (t - 1) / rounds)) / 2


def wsd(t: int, rounds: int) -> float:
    """α_t = α, then linear decay over the last fifth of the rounds, to 0 after T rounds.

    Warm-up, stable, decay: Hu et al. 2024 (MiniCPM). The linear decay over 20 % is from Hägele et al. 2024.
    """
    return min(1.0, (rounds - t + 1) / (0.2 * rounds))


SCHEDULES = {
    "constant": constant,
    "step_decay": step_decay,
    "inverse_sqrt": inverse_sqrt,
    "horizon": horizon,
    "cosine": cosine,
    "wsd": wsd,
}
"""Schedules by their configured names. Each takes the round t (from 1) and the number of rounds T."""


def factor(schedule: str, t: int, rounds: int, *, warmup: int = 0, final: float = 0.0) -> float:
    """Return α_t/α in round t of T, with W = `warmup` rounds before the schedule's own T − W:

        t ≤ W   t/(W+1) of the schedule's first factor
        t > W   the schedule's factor s of round t − W of T − W;  final + (1 − final)·s for cosine and wsd

    With W = 100, the cosine and `final` = 0.1 these are nanoGPT's step sizes (karpathy/nanoGPT, train.py, `get_lr`).
    """
    share = SCHEDULES[schedule](max(t - warmup, 1), rounds - warmup)
    if schedule in ("cosine", "wsd"):
        share = final + (1 - final) * share
    return share * t / (warmup + 1) if t <= warmup else share
