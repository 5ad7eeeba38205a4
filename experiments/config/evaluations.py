"""After which rounds rows are written."""

from experiments.config.schema import RunConfig


def is_due(t: int, run: RunConfig) -> bool:
    """Whether round t is evaluated: every `eval_every` rounds, the last, and with `eval_early` 1, 2, 4, … before."""
    every = run.eval_every
    early = run.eval_early and t < every and t & (t - 1) == 0
    return early or t % every == 0 or t == run.rounds


def evaluations(run: RunConfig) -> int:
    """How many there are in a run, that of the start included."""
    return 1 + sum(is_due(t, run) for t in range(1, run.rounds + 1))
