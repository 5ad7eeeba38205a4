"""Figure 2's study as one would first write it: dense numpy, one run, one worker at a time.

It shares nothing with the harness.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np

LAMBDA, BETA1, BETA2, NU = 0.1, 0.9, 0.99, 1e-8


def scaled_sign(x: np.ndarray) -> np.ndarray:
    """(‖x‖₁/d)·sgn±(x)."""
    return np.abs(x).sum() / len(x) * np.where(x >= 0, 1.0, -1.0)


def local_gradient(features: np.ndarray, labels: np.ndarray, x: np.ndarray) -> np.ndarray:
    """∇f_i(x) of eq. (7.1) for one worker's rows [m, d] and labels ±1 [m]."""
    weights = 1 / (1 + np.exp(labels * (features @ x)))
    return -(features.T @ (labels * weights)) / len(labels) + LAMBDA * 2 * x / (1 + x**2) ** 2


def parts(features: np.ndarray, labels: np.ndarray, workers: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """`features` [N, d] and `labels` [N], shared in file order, ⌊N/n⌋ rows each."""
    m = len(labels) // workers
    return [(features[i * m : (i + 1) * m], labels[i * m : (i + 1) * m].astype(float)) for i in range(workers)]


class Round(NamedTuple):
    """The mean of the gradients, ĝ, g̃ and v̂, [d] each."""

    mean: np.ndarray
    aggregate: np.ndarray
    signal: np.ndarray
    v_hat: np.ndarray


def rounds(shares: list[tuple[np.ndarray, np.ndarray]], method: str, lr: float) -> Iterator[Round]:
    """The rounds, without end, of a method of Figure 2 with AMSGrad and the scaled sign."""
    workers, d = len(shares), shares[0][0].shape[1]
    exchange = _METHODS[method](workers, d)
    x, moment, v, v_hat = np.zeros(d), np.zeros(d), np.zeros(d), np.zeros(d)
    while True:
        gradients = [local_gradient(rows, signs, x) for rows, signs in shares]
        aggregate, signal = exchange(gradients)
        moment = BETA1 * moment + (1 - BETA1) * signal
        v = BETA2 * v + (1 - BETA2) * signal**2
        v_hat = np.maximum(v_hat, v)
        x = x - lr * moment / np.sqrt(v_hat + NU)
        yield Round(np.mean(gradients, 0), aggregate, signal, v_hat)


def gradient_norms(
    features: np.ndarray, labels: np.ndarray, workers: int, method: str, lr: float, count: int
) -> list[float]:
    """‖∇f‖₂ at the start and after every one of `count` rounds."""
    done = islice(rounds(parts(features, labels, workers), method, lr), count + 1)
    return [float(np.linalg.norm(each.mean)) for each in done]


Exchange = Callable[[list[np.ndarray]], tuple[np.ndarray, np.ndarray]]
"""What the gradients of a round lead to: ĝ and g̃."""


def _dense(workers: int, d: int) -> Exchange:
    return lambda gradients: (np.mean(gradients, 0), np.mean(gradients, 0))


def _naive(workers: int, d: int) -> Exchange:
    def exchange(gradients: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        aggregate = np.mean([scaled_sign(g) for g in gradients], 0)
        return aggregate, scaled_sign(aggregate)

    return exchange


def _error_feedback(workers: int, d: int) -> Exchange:
    errors, server = np.zeros((workers, d)), np.zeros(d)

    def exchange(gradients: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        total = np.zeros(d)
        for i, g in enumerate(gradients):
            c = scaled_sign(g + errors[i])
            errors[i] = g + errors[i] - c
            total += c
        wanted = total / workers + server
        server[:] = wanted - scaled_sign(wanted)
        return total / workers, scaled_sign(wanted)

    return exchange


def _cd_adam(workers: int, d: int) -> Exchange:
    known, aggregate, sent = np.zeros((workers, d)), np.zeros(d), np.zeros(d)

    def exchange(gradients: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        total = np.zeros(d)
        for i, g in enumerate(gradients):
            c = scaled_sign(g - known[i])
            known[i] += c
            total += c
        aggregate[:] += total / workers
        sent[:] += scaled_sign(aggregate - sent)
        return aggregate.copy(), sent.copy()

    return exchange


_METHODS = {"amsgrad": _dense, "naive": _naive, "error_feedback": _error_feedback, "cd_adam": _cd_adam}
