"""Synthetic entries with known answers."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

D = 1000


def entry(
    name: str,
    rate: float = 1.0,
    up: float = 32.0,
    down: float = 32.0,
    *,
    seeds: Sequence[int] = range(10),
    task: str = "toy",
    rounds: int = 400,
    every: int = 4,
    ends_at: int | None = None,
    noise: Callable[[int], float] = lambda seed: 1 + 0.01 * seed,
    **columns: object,
) -> pd.DataFrame:
    """The judged rows of a method with loss exp(-rate·noise(seed)·round/100), and `up` and `down` bits per number."""
    done = np.arange(0, (ends_at or rounds) + 1, every)
    parts = []
    for seed in seeds:
        loss = np.exp(-rate * noise(seed) * done / 100)
        sent = {"bits_up": up * D * done, "bits_down": down * D * done, "bits": (up + down) * D * done}
        about = {"task": task, "algorithm": name, "seed": seed, "lr": 0.1, "planned_rounds": rounds}
        parts.append(pd.DataFrame({**about, "round": done, "train_loss": loss, **sent}))
    looks = {
        "label": name.title(),
        "family": "made up",
        "memory": 2.0,
        "part.memory": "Direct()",
        "part.update": "SGD(momentum=0.0)",
        "note": "",
        "task_label": task,
        "color": "#D55E00",
        "marker": "o",
    }
    cluster = {"d": D, "workers": 8, "servers": 8, "exchanges": 2, "ranks": 1, "trials": 1, "seconds": 1.0}
    return pd.concat(parts, ignore_index=True).assign(**looks, **cluster, **columns)
