"""EF21-PP, CD-Adam and FedAvg in plain numpy, with workers that miss rounds and workers that are late.

EF21-PP (Fatkhullin, Sokolov, Gorbunov, Li and Richtárik 2021, arXiv 2110.03294): a worker that takes part sends
c_i = C(g_i − ĝ_i) and keeps ĝ_i ← ĝ_i + c_i, the others send nothing, and ĝ ← ĝ + (1/n)Σc_i of what arrives.
FedAvg (McMahan et al. 2016): x becomes the mean of the models of those clients that take part.

A message of round t by a worker that is late by k arrives in round t + k. Nothing depends on the code under test.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable

import numpy as np

Present = Callable[[int, int], bool]
"""Whether worker i takes part in round t."""
NOBODY: dict[int, int] = {}


def coin(seed: int, p: float) -> Present:
    """A coin for every worker and round, heads in round 1."""

    def shows(i: int, t: int) -> bool:
        digest = hashlib.blake2b(f"{seed}/coin/{t}/{i}".encode(), digest_size=8).digest()
        return t == 1 or (int.from_bytes(digest, "little") >> 1) < p * 2**63

    return shows


def markov(gradient, x, n, compress, down, step, rounds, present: Present, late=NOBODY) -> list[np.ndarray]:
    """x after every round: EF21-PP with a dense downlink and SGD, CD-Adam with C and AMSGrad."""
    x, known, g = np.array(x), np.zeros((n, len(x))), np.zeros(len(x))
    path, arriving = [], defaultdict(list)
    for t in range(1, rounds + 1):
        for i in range(n):
            if present(i, t):
                c = np.array(compress(list(gradient(i, list(x)) - known[i])))
                known[i] += c
                arriving[t + late.get(i, 0)].append(c)
        g = g + sum(arriving.pop(t, [])) / n
        x = np.array(step(list(x), down(list(g), t)))
        path.append(x)
    return path


def fedavg(gradient, x, n, lr, period, rounds, present: Present, late=NOBODY) -> list[np.ndarray]:
    """The common x after every round."""
    x, own = np.array(x), np.tile(x, (n, 1))
    path, arriving = [], defaultdict(list)
    for t in range(1, rounds + 1):
        for i in range(n):
            own[i] -= lr * np.array(gradient(i, list(own[i])))
            if t % period == 0 and present(i, t):
                arriving[t + late.get(i, 0)].append(x - own[i])
        if t in arriving:
            x = x - np.mean(arriving.pop(t), 0)
            own[:] = x
        path.append(x)
    return path
