"""Rounds counted in epochs, devices, and what image tasks say about shared keys."""

import pytest
import torch

from common.errors import UsageError
from experiments.config.run import load_run
from experiments.training.build import check

DIGITS = ("task=digits", "algorithm=cd_adam")


def test_an_image_task_brings_its_own_defaults_and_the_command_line_wins():
    run = load_run(["task=cifar10/resnet18"])
    assert (run.rounds, run.epochs, run.eval_every) == (4800, 100, 48)
    assert (run.cluster.workers, run.lr_schedule) == (8, "step_decay")
    assert run.update.options["weight_decay"] == 5e-4
    run = load_run(
        ["task=cifar10/resnet18", "cluster.workers=4", "epochs=2.5", "weight_decay=0", "lr_schedule=constant"]
    )
    assert (run.rounds, run.eval_every) == (round(2.5 * 97), 97)
    assert (run.update.options["weight_decay"], run.lr_schedule) == (0, "constant")
    assert load_run(["task=cifar10/resnet18", "rounds=7", "eval_every=3"]).rounds == 7


@pytest.mark.parametrize("algorithm", ["onebit_adam", "qadam", "apmsqueeze", "quantized_adam"])
def test_weight_decay_reaches_methods_that_bring_their_own_update(algorithm):
    for task, decay in (("digits", 5e-4), ("logreg/digits", 0)):
        assert load_run([f"task={task}", f"algorithm={algorithm}"]).algorithm.options["weight_decay"] == decay


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["epochs=3"], r"epochs=3: task=logreg/digits counts in rounds; set rounds"),
        ([*DIGITS, "epochs=0"], r"epochs=0: must be greater than 0"),
        ([*DIGITS, "epochs=many"], "epochs=many: must be a valid number"),
        ([*DIGITS, "epochs=null"], "epochs: set epochs or rounds"),
        ([*DIGITS, "task.batch_size=193"], "task.batch_size=193, .* each worker has 192 images"),
        ([*DIGITS, "task.batch_size=0"], "task.batch_size=0: must be a whole number of at least 1"),
        ([*DIGITS, "cluster.workers=100"], "cluster.workers=100: each worker has 15 images"),
    ],
)
def test_refusals(overrides, message):
    with pytest.raises(UsageError, match=message):
        load_run(overrides)


@pytest.mark.parametrize(
    ("overrides", "gpu", "message"),
    [
        ([*DIGITS, "device=cuda"], False, "device=cuda: torch sees no CUDA GPU here"),
        (["device=cuda"], True, "device=cuda: task=logreg/digits runs on cpu only"),
        (
            [*DIGITS, "task.precision=half"],
            False,
            r"task\.precision=half: must be .float32., .tf32.",
        ),
    ],
    ids=["absent", "not of use", "precision"],
)
def test_devices_and_precision(overrides, gpu, message, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    with pytest.raises(UsageError, match=message):
        check(load_run(overrides))
