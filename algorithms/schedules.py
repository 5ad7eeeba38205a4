"""Step sizes over a run, as factors of the configured one."""


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
    """α_t = α/√T for all T rounds: how the step size of Theorem 6.4 of the CD-Adam paper scales with T."""
    return rounds**-0.5


SCHEDULES = {"constant": constant, "step_decay": step_decay, "inverse_sqrt": inverse_sqrt, "horizon": horizon}
"""By configured name; each takes the round t (from 1) and the number of rounds."""
