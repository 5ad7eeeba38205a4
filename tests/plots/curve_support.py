"""Handmade curves for the tests of figures and claims."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from plots.claims.check import Finding
from plots.claims.claims import CHECKS, Claim


def curve(
    grad_norm: Sequence[float] | Callable[[np.ndarray], np.ndarray],
    rounds: Sequence[int] = tuple(range(0, 101, 10)),
    bits: int = 10,
    **columns: object,
) -> pd.DataFrame:
    """One trial: gradient norms, as values or as a function of the round, and `bits` per round."""
    rounds = np.array(rounds)
    values = grad_norm(rounds) if callable(grad_norm) else np.array(grad_norm, dtype=float)
    return pd.DataFrame({"round": rounds, "bits": bits * rounds, "grad_norm": values, **columns})


def label_curve(
    algorithm: str, task: str, frame: pd.DataFrame, lr: float = 0.1, color: str = "k", seed: int = 0
) -> pd.DataFrame:
    """Add the columns that `plots.runs.read.table` adds for drawing."""
    return frame.assign(
        task=task,
        algorithm=algorithm,
        lr=lr,
        seed=seed,
        task_label=task.upper(),
        label=algorithm.title(),
        color=color,
        marker={"k": "o", "red": "s"}.get(color, "^"),
    )


def flat(value: float, **options: object) -> pd.DataFrame:
    return curve(lambda r: 0 * r + value, **options)


def check(name: str) -> Callable[..., Finding]:
    """A check as a function of curves and its options, in the order of its fields."""

    def judged(curves: dict[str, pd.DataFrame], *values: object, **options: object) -> Finding:
        names = [field for field in CHECKS[name].model_fields if field != "name"]
        return CHECKS[name](**dict(zip(names, values, strict=False)), **options).judge(curves)

    return judged


def claim(number: str, statement: str, name: str, negated: bool = False, **options: object) -> Claim:
    return Claim(number=number, statement=statement, check=CHECKS[name](**options), negated=negated)
