"""Every algorithm under conf/algorithm learns nonconvex logistic regression with 20 workers."""

from __future__ import annotations

import pytest
from run_support import SMALL, go, rows, timeless

from experiments.config.compose import CONF

ALGORITHMS = sorted(path.stem for path in (CONF / "algorithm").glob("*.yaml"))
STEPS = {"sgd": 0.3, "ef21": 0.1}


BOTH_WAYS = [name for name in ALGORITHMS if "uplink_only" in (CONF / "algorithm" / f"{name}.yaml").read_text()]


@pytest.mark.parametrize("command", [*ALGORITHMS, *(f"{name} algorithm.uplink_only=true" for name in BOTH_WAYS)])
def test_it_learns(command, results):
    name, *uplink_only = command.split()
    run = (*SMALL[:1], "rounds=200", "eval_every=50", results)
    first, *_, last = rows(go(*run, f"algorithm={name}", f"lr={STEPS.get(name, 0.003)}", *uplink_only))
    assert first["train_loss"] == pytest.approx(0.6931, abs=1e-4)
    assert last["train_loss"] < 0.30
    assert last["train_accuracy"] > 0.95
    assert last["grad_norm"] < 0.2 * first["grad_norm"]


def test_one_parameter_tensor_has_one_layer(results):
    whole, layer = (timeless(go(*SMALL, results, f"partition={kind}")) for kind in ("whole", "layer"))
    assert whole == layer
