"""The study of Figure 2 on the paper's own data, against a plain loop that shares nothing with the harness."""

from pathlib import Path

import numpy as np
import pytest
from real_data import link_sets
from reference.plain_loop import gradient_norms

from common.progress import Display
from data.libsvm import load
from experiments.config.run import load_run
from experiments.training.runner import bring_to_end

LRS = [0.001, 0.003, 0.005, 0.007, 0.009]
METHODS = ["amsgrad", "naive", "error_feedback", "cd_adam"]


CASES = [("mushrooms", "cd_adam", 30, LRS[::2])]
CASES += [
    pytest.param(name, method, 100, LRS, marks=pytest.mark.slow)
    for name in ("mushrooms", "a9a", "w8a")
    for method in METHODS
]


@pytest.mark.parametrize(("name", "method", "rounds", "lrs"), CASES)
def test_norms_and_bits_are_those_of_the_loop(name: str, method: str, rounds: int, lrs: list, tmp_path: Path) -> None:
    data_dir = link_sets(tmp_path / "data")
    dataset = load(name, data_dir)
    dense = np.ascontiguousarray(dataset.features.toarray())
    overrides = [f"task=logreg/{name}", f"algorithm={method}", f"lr={lrs}".replace(" ", ""), f"rounds={rounds}"]
    with Display(rounds) as display:
        places = [f"data_dir={data_dir}", f"results_dir={data_dir / 'results'}"]
        rows = list(bring_to_end(load_run([*overrides, "eval_every=1", *places]), display).rows())
    for trial, lr in enumerate(lrs):
        ours = [row["grad_norm"] for row in rows if row["trial"] == trial]
        expected = gradient_norms(dense, dataset.labels, 20, method, lr, rounds)
        np.testing.assert_allclose(ours, expected, rtol=1e-9)
        assert len(ours) == rounds + 1
    d = dense.shape[1]
    per_round = 64 * d if method == "amsgrad" else 2 * (d + 32)
    assert all(row["bits"] == row["round"] * per_round for row in rows)
