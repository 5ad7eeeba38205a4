"""Every algorithm under conf/algorithm learns nonconvex logistic regression with 20 workers."""

from __future__ import annotations

import pytest
from run_support import go, rows

from experiments.config.compose import CONF

ALGORITHMS = sorted(path.stem for path in (CONF / "algorithm").glob("*.yaml"))
STEPS = {"sgd": 0.3, "ef21": 0.1}


@pytest.mark.parametrize("uplink_only", [False, True])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_it_learns(name, uplink_only, tmp_path):
    plain = name in ("sgd", "adam", "amsgrad")
    if plain and uplink_only:
        return
    path = go(
        "task=logreg/breast_cancer", f"algorithm={name}", f"lr={STEPS.get(name, 0.003)}", "rounds=200",
        "eval_every=50", f"results_dir={tmp_path}", *(["algorithm.uplink_only=true"] if uplink_only else []),
    )  # fmt: skip
    first, *_, last = rows(path)
    assert first["train_loss"] == pytest.approx(0.6931, abs=1e-4)
    assert last["train_loss"] < 0.30
    assert last["train_accuracy"] > 0.95
    assert last["grad_norm"] < 0.2 * first["grad_norm"]


@pytest.mark.parametrize("compressor", sorted(path.stem for path in (CONF / "compressor").glob("*.yaml")))
def test_it_learns_with_every_compressor(compressor, tmp_path):
    """Without memory, so that unbiased compressors may take part; a ratio that suits 30 coordinates."""
    ratio = ["compressor.ratio=0.3"] if compressor in ("top_k", "random_k") else []
    path = go(
        "task=logreg/breast_cancer", "algorithm=naive", f"compressor={compressor}", *ratio, "lr=0.01", "rounds=200",
        "eval_every=50", f"results_dir={tmp_path}",
    )  # fmt: skip
    assert rows(path)[-1]["train_loss"] < 0.32


def test_one_parameter_tensor_has_one_layer(tmp_path):
    run = ["task=logreg/breast_cancer", "rounds=20", "eval_every=5", f"results_dir={tmp_path}"]
    whole, layer = (rows(go(*run, f"partition={kind}")) for kind in ("whole", "layer"))
    strip = [{key: value for key, value in row.items() if key != "seconds"} for row in whole]
    assert strip == [{key: value for key, value in row.items() if key != "seconds"} for row in layer]
