"""After which rounds rows are written."""

from __future__ import annotations

from experiments.config.compose import Config


def is_due(t: int, config: Config) -> bool:
    """Whether round t is evaluated: every `eval_every` rounds, the last, and with `eval_early` 1, 2, 4, … before."""
    every = config["eval_every"]
    early = config["eval_early"] and t < every and t & (t - 1) == 0
    return early or t % every == 0 or t == config["rounds"]


def evaluations(config: Config) -> int:
    """How many there are in a run, that of the start included."""
    return 1 + sum(is_due(t, config) for t in range(1, config["rounds"] + 1))
