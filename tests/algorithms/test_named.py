"""Methods by name: what the harness makes of the same files, and what is said where that cannot be."""

from pathlib import Path

import pytest
import torch
from refusals import refusals

from algorithms import registry as module
from algorithms.compressors import Bf16, TopK
from algorithms.core.algorithm import Algorithm
from algorithms.core.channels import Direct
from algorithms.core.update_rules import SGD
from algorithms.methods.ef21 import ef21
from algorithms.methods.marina import Coin
from algorithms.methods.onebit_adam import onebit_adam
from algorithms.optim.optimizer import CompressedOptimizer
from algorithms.registry import load_method, names, parameters
from experiments.config.run import load_run
from experiments.training.build import build_algorithm

FAST = {"cd_adam", "comp_ams", "demo", "diloco", "ef21_bc", "muloco", "onebit_adam", "sparseloco", "marina"}


@pytest.mark.parametrize("name", [pytest.param(one, marks=[pytest.mark.slow] * (one not in FAST)) for one in names()])
def test_a_name_is_what_the_harness_makes_of_it(name: str) -> None:
    run = load_run([f"algorithm={name}", "rounds=150"])
    told = {"rounds": 150, "workers": run.cluster.workers}
    given = {option: value for option, value in told.items() if option in parameters(name)}
    assert repr(load_method(name, **given)) == repr(build_algorithm(run))


def test_options_stand_before_the_file() -> None:
    assert load_method("ef21", compressor=TopK(k=3), dense_start=False) == ef21(TopK(k=3), SGD(), dense_start=False)


def test_uncompressed_methods_send_short_floats() -> None:
    for name in ("adamw", "amsgrad", "sgd"):
        method = load_method(name, compressor=Bf16())
        assert (method.uplink, method.downlink) == (Direct(Bf16()), Direct(Bf16()))


def optimizer(name: str | Algorithm, **options: object) -> CompressedOptimizer:
    """Of three parameters."""
    return CompressedOptimizer([torch.nn.Parameter(torch.ones(3))], name, lr=0.1, **options)


def test_a_method_draws_with_the_seed_of_its_optimizer() -> None:
    assert optimizer("marina", p=0.5, seed=5).algorithm.coin == Coin(0.5, seed=5)


def test_an_optimizer_in_one_call() -> None:
    one = optimizer("onebit_adam", rounds=100, warmup=0.2, weight_decay=0.1, betas=(0.8, 0.9))
    assert one.algorithm == onebit_adam(one.algorithm.uplink.compressor, 100, warmup=0.2, weight_decay=0.1)
    assert one.param_groups[0]["weight_decay"] == 0.1
    assert one.param_groups[0]["betas"] == (0.8, 0.9)


test_what_cannot_be_made_is_said = refusals(
    (lambda: optimizer("cd-adam"), rf"no algorithm 'cd-adam'; did you mean cd_adam\? there are {', '.join(names())}"),
    (lambda: optimizer("zzzzz"), f"no algorithm 'zzzzz'; there are {', '.join(names())}; for a method of your own"),
    (lambda: optimizer("onebit_adam"), "onebit_adam needs rounds="),
    (lambda: load_method("distributed_lion"), "distributed_lion needs workers="),
    (
        lambda: optimizer("adamw", compressor="bf16"),
        r"takes Floats, and compressor='bf16' is not one; give an object of",
    ),
    (lambda: optimizer("qadam", warmup=100, rounds=100), "warmup=100: 100 of 100 rounds"),
    (lambda: optimizer("cd_adam", beta=(0.9, 0.99)), r"no option 'beta'; did you mean betas\? there are compressor,"),
    (lambda: optimizer("cd_adam", rounds=100), "no option 'rounds'; there are compressor, update, uplink_only, "),
    (lambda: optimizer("adamw", compressor=TopK(k=1)), r"adamw: takes Floats, and compressor=TopK\(ratio=None, k=1"),
    (lambda: optimizer("powersgd", residual="none"), "residual='none': must be 'global' or 'local'"),
    (lambda: optimizer("cd_adam", weight_decay=-1.0), "weight_decay=-1.0: must be finite and not negative"),
    (lambda: optimizer("quantized_adam", weight_decay=torch.nan), "weight_decay=nan: must be finite"),
    (lambda: optimizer("loco").add_param_group({"params": [], "reset": 3}), "reset=3: groups cannot set it"),
    (lambda: optimizer(load_method("cd_adam"), uplink_only=True), "no option 'uplink_only'; there are weight_decay"),
)


def test_a_file_for_hydra_alone_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONF", tmp_path)
    (tmp_path / "algorithm").mkdir()
    (tmp_path / "algorithm" / "mine.yaml").write_text("defaults:\n  - cd_adam\n")
    with pytest.raises(ValueError, match=r"conf/algorithm/mine.yaml: its default 'cd_adam' works only in Hydra"):
        load_method("mine")
