"""The harness against a plain loop on the largest set of Figure 2.

    DATA_DIR=path/to/files python -m benchmarks.study

Times rounds of CD-Adam on w8a with 20 workers: dense numpy, one run and one worker at a time
(`plain_rounds`), and the harness's trainer with the five step sizes in one batch, evaluation every ten
rounds included. Both are measured in this process, in turn; the ratio is per curve.
"""

import os
import statistics
import time

import numpy as np

from common.errors import exit_with_message
from data.libsvm import load
from experiments.cluster.ranks import Ranks
from experiments.config.run import load_run
from experiments.training.build import build_trainer
from experiments.training.trainer import Trainer

REPEATS, PLAIN_ROUNDS, ROUNDS = 3, 20, 200


def main() -> None:
    """Print both times per curve and 1,000 rounds, and their ratio."""
    rounds = f"rounds={ROUNDS * (REPEATS + 1)}"
    run = load_run(["algorithm=cd_adam", "task=logreg/w8a", "lr=[0.001,0.003,0.005,0.007,0.009]", rounds])
    trainer = build_trainer(run, Ranks())
    _harness_seconds(trainer)  # warm-up
    dataset = load("w8a", run.data_dir)
    features, labels = np.ascontiguousarray(dataset.features.toarray()), dataset.labels
    plain, ours = [], []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        plain_rounds(features, labels, 20, 0.001, PLAIN_ROUNDS)
        plain.append((time.perf_counter() - begin) / PLAIN_ROUNDS)
        ours.append(_harness_seconds(trainer) / ROUNDS / len(run.lr))
    one, other = statistics.median(plain), statistics.median(ours)
    print(f"{os.cpu_count()} cores; w8a, CD-Adam, 20 workers; seconds per curve of 1,000 rounds, median of {REPEATS}")
    print(f"  plain loop  {1000 * one:8.2f}   (from {PLAIN_ROUNDS} rounds)")
    print(f"  harness     {1000 * other:8.2f}   (from {ROUNDS} rounds of 5 step sizes each)")
    print(f"  ratio       {one / other:8.0f}")


def plain_rounds(features: np.ndarray, labels: np.ndarray, workers: int, lr: float, rounds: int) -> np.ndarray:
    """x after so many rounds of CD-Adam on eq. (7.1), as one would first write it."""
    m, d = len(labels) // workers, features.shape[1]
    known, aggregate, sent = np.zeros((workers, d)), np.zeros(d), np.zeros(d)
    x, moment, v, v_hat = np.zeros(d), np.zeros(d), np.zeros(d), np.zeros(d)
    for _ in range(rounds):
        total = np.zeros(d)
        for i in range(workers):
            a, y = features[i * m : (i + 1) * m], labels[i * m : (i + 1) * m]
            weights = 1 / (1 + np.exp(y * (a @ x)))
            gradient = -(a.T @ (y * weights)) / m + 0.1 * 2 * x / (1 + x**2) ** 2
            message = _scaled_sign(gradient - known[i])
            known[i] += message
            total += message
        aggregate += total / workers
        sent += _scaled_sign(aggregate - sent)
        moment = 0.9 * moment + 0.1 * sent
        v = 0.99 * v + 0.01 * sent**2
        v_hat = np.maximum(v_hat, v)
        x = x - lr * moment / np.sqrt(v_hat + 1e-8)
    return x


def _scaled_sign(x: np.ndarray) -> np.ndarray:
    return np.abs(x).sum() / len(x) * np.where(x >= 0, 1.0, -1.0)


def _harness_seconds(trainer: Trainer) -> float:
    begin = time.perf_counter()
    for t in range(1, ROUNDS + 1):
        trainer.step(diagnose=t % 10 == 0)
        if t % 10 == 0:
            trainer.evaluate()
    return time.perf_counter() - begin


if __name__ == "__main__":
    with exit_with_message():
        main()
