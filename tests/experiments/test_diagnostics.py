"""The compression errors and the second moment that rows hold, against plain loops over the same run."""

from __future__ import annotations

import numpy as np
import pytest
from dense_logreg import gradient, parts
from run_support import SMALL, go, rows

WORKERS, ROUNDS, LR = 4, 12, 0.01


def sign(x: np.ndarray) -> np.ndarray:
    return np.abs(x).mean() * np.where(x >= 0, 1.0, -1.0)


def plain(method: str) -> list[tuple[float, float, float]]:
    """(‖ĝ − mean g‖, ‖g̃ − mean g‖, Σ v̂) of every round."""
    x, m, v, v_hat = np.zeros(30), np.zeros(30), np.zeros(30), np.zeros(30)
    memory, server, aggregate = np.zeros((WORKERS, 30)), np.zeros(30), np.zeros(30)
    shares, found = parts(WORKERS), []
    for _ in range(ROUNDS):
        g = [gradient(a, y, x) for a, y in shares]
        if method == "naive":
            aggregate = np.mean([sign(each) for each in g], 0)
            signal = sign(aggregate)
        elif method == "error_feedback":
            sent = [sign(each + memory[i]) for i, each in enumerate(g)]
            memory = np.array([each + memory[i] - sent[i] for i, each in enumerate(g)])
            aggregate = np.mean(sent, 0)
            signal = sign(aggregate + server)
            server = aggregate + server - signal
        else:
            sent = [sign(each - memory[i]) for i, each in enumerate(g)]
            memory = memory + np.array(sent)
            aggregate = aggregate + np.mean(sent, 0)
            server = server + sign(aggregate - server)
            signal = server
        mean = np.mean(g, 0)
        m, v = 0.9 * m + 0.1 * signal, 0.99 * v + 0.01 * signal**2
        v_hat = np.maximum(v_hat, v)
        x = x - LR * m / np.sqrt(v_hat + 1e-8)
        found.append((np.linalg.norm(aggregate - mean), np.linalg.norm(signal - mean), v_hat.sum()))
    return found


@pytest.mark.parametrize("method", ["naive", "error_feedback", "cd_adam"])
def test_errors_are_those_of_the_round_just_done(method, tmp_path):
    path = go("task=logreg/breast_cancer", f"algorithm={method}", f"cluster.workers={WORKERS}", f"lr={LR}",
              f"rounds={ROUNDS}", "eval_every=1", f"results_dir={tmp_path}")  # fmt: skip
    start, *later = rows(path)
    assert not {"aggregate_error", "signal_error", "second_moment"} & start.keys()
    measured = [(row["aggregate_error"], row["signal_error"], row["second_moment"]) for row in later]
    np.testing.assert_allclose(measured, plain(method), rtol=1e-9)


def test_without_compression_there_is_no_error(results):
    for row in rows(go(*SMALL, results, "algorithm=amsgrad"))[1:]:
        assert row["aggregate_error"] == row["signal_error"] == 0.0


@pytest.mark.parametrize("method", ["onebit_adam", "quantized_adam"])
def test_what_is_compared_is_what_workers_wanted_to_send(method, tmp_path):
    """Compressing next to nothing, errors of momentum and of steps are next to nothing too."""
    fine = ["compressor=uniform_quantize", "compressor.bits=16"]
    if method == "quantized_adam":
        fine.append("algorithm.weight_bits=16")
    run = ["task=logreg/breast_cancer", f"algorithm={method}", *fine, "lr=0.01", "rounds=20", "eval_every=10"]
    path = go(*run, f"results_dir={tmp_path}")
    last = rows(path)[-1]
    assert 0 < last["aggregate_error"] < 1e-4
    assert 0 < last["signal_error"] < 1e-3
