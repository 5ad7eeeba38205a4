"""The compression errors and the second moment that rows hold, against plain loops over the same run."""

from itertools import islice

import numpy as np
import pytest
from reference import plain_loop
from run_support import SMALL, go, rows

from data.embedded import breast_cancer

WORKERS, ROUNDS, LR = 4, 12, 0.01


@pytest.mark.parametrize("method", ["naive", "error_feedback", "cd_adam"])
def test_errors_are_those_of_the_round_just_done(method, tmp_path):
    path = go("task=logreg/breast_cancer", f"algorithm={method}", f"cluster.workers={WORKERS}", f"lr={LR}",
              f"rounds={ROUNDS}", "eval_every=1", f"results_dir={tmp_path}")  # fmt: skip
    start, *later = rows(path)
    names = ("mean_norm", "aggregate_error", "signal_error", "second_moment")
    assert not {*names} & start.keys()
    measured = [[row[name] for name in names] for row in later]
    data = breast_cancer()
    shares = plain_loop.parts(data.features.toarray(), data.labels, WORKERS)
    expected = [
        [*map(np.linalg.norm, (each.mean, each.aggregate - each.mean, each.signal - each.mean)), each.v_hat.sum()]
        for each in islice(plain_loop.rounds(shares, method, LR), ROUNDS)
    ]
    np.testing.assert_allclose(measured, expected, rtol=1e-9)


def test_without_compression_there_is_no_error(results):
    for row in rows(go(*SMALL, results, "algorithm=amsgrad"))[1:]:
        assert row["aggregate_error"] == row["signal_error"] == 0.0 < row["mean_norm"]


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
