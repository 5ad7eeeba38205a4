"""From the command line to a checked run, and what is said where a command line is wrong."""

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from run_support import SMALL, small

from algorithms.utils.layout import of_vectors
from common.errors import UsageError
from experiments.config.compose import CONF
from experiments.config.run import load_run
from experiments.training.build import build_algorithm, build_task, check


def choices(group: str) -> list[str]:
    """Every choice of a configuration group, new ones included."""
    files = [path for path in (CONF / group).rglob("*.yaml") if not path.name.startswith("_")]
    return sorted(str(path.relative_to(CONF / group).with_suffix("")) for path in files)


def refusal(*overrides: str) -> str:
    """With what words a command line is refused."""
    with pytest.raises(UsageError) as refused:
        check(load_run(overrides))
    return str(refused.value)


def test_every_algorithm_looks_different() -> None:
    files = [CONF / "algorithm" / f"{name}.yaml" for name in choices("algorithm")]
    displays = [yaml.safe_load(file.read_text())["algorithm"]["display"] for file in files]
    for look in (["label"], ["color", "marker"]):
        assert len({tuple(display[key] for key in look) for display in displays}) == len(displays)


# `own` is for the methods that bring their update, which are all checked above.
PARTS = [f"{group}={name}" for group in ("compressor", "update") for name in choices(group) if name != "own"]


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_every_compressor_and_update(part: str) -> None:
    check(small("algorithm=naive", part))


@pytest.mark.slow
@pytest.mark.parametrize("name", choices("task"))
def test_every_task(name: str, file: Path) -> None:
    needed = [f"task.dataset.file={file}"] if name.endswith("/file") else []
    run = load_run([f"task={name}", *needed])
    check(run)
    assert run.task.name == (f"logreg/{file.name}" if needed else name)


# What the command line says


@pytest.mark.parametrize(
    "overrides", [("algorithm=cd_adam", "compressor=top_k"), ("compressor=top_k", "algorithm=cd_adam")]
)
def test_the_command_line_wins_over_an_algorithms_compressor(overrides: tuple[str, str]) -> None:
    run = small(*overrides)
    assert run.compressor.target == "algorithms.compressors.TopK"
    algorithm: Any = build_algorithm(run)
    assert algorithm.uplink.compressor.bits(1000) == 64 * 16


@pytest.mark.parametrize(("partition", "blocks"), [("layer", (3, 2**23, 5)), ("bucket", (3, 2**23 + 5))])
def test_a_vector_is_compressed_in_blocks(partition: str, blocks: tuple[int, ...]) -> None:
    algorithm: Any = build_algorithm(small("algorithm=naive", f"partition={partition}"), of_vectors([3, 2**23, 5]))
    assert algorithm.uplink.compressor.sizes == blocks


def test_options_reach_the_objects() -> None:
    run = small("algorithm=naive", "update=sgd", "update.momentum=0.5", "algorithm.uplink_only=true")
    algorithm: Any = build_algorithm(run)
    assert algorithm.update.momentum == 0.5
    assert (algorithm.uplink.bits(100, 1), algorithm.downlink.bits(100, 1)) == (132, 3200)
    task: Any = build_task(small("cluster.workers=7", "task.batch_size=3", "task.regularization=0.25"))
    assert (task.workers, task.rows, task.batch_size, task.regularization) == (7, 81, 3, 0.25)


QUOTES = "quotes, one pair for the shell and one for Hydra: "

REFUSED = {
    # choices
    "algorithm=cdadam": "algorithm=cdadam: no such choice; did you mean cd_adam? Valid: adam, adamw, amsgrad, ",
    "task=logreg": "task=logreg: no such choice; it is a group; choose logreg/a9a, ",
    "lr_schedule=step": "did you mean step_decay? Valid: constant, step_decay, inverse_sqrt",
    # keys
    "algoritm=cd_adam": "algoritm: no such key; did you mean algorithm? Valid here: algorithm, compressor, ",
    "beta1=0.5": "did you mean update.beta1?",
    "compressor.nrom=l2": "did you mean compressor.norm? Valid here: compressor.norm",
    "~lr": "configuration: has no lr",
    # writing
    "study=é": f"{QUOTES}'study=\"é\"'",
    "lr=[1,2": "leave out spaces within brackets",
    "seed=${nope}": "seed: Interpolation key 'nope' not found",
    # numbers, their ranges and units
    "lr=[]": "give at least one step size",
    "lr=fast": "lr=fast: must be a valid number",
    "cluster.timeout=10min": "cluster.timeout=10min: must be a valid number; it counts seconds",
    "warmup_rounds=20 rounds=20": "warmup_rounds=20: of 20 rounds; leave some for the schedule",
    "rounds=1e3": "must be a valid integer",
    "epochs=3": "epochs=3: task=logreg/breast_cancer counts in rounds; set rounds",
    "seed=[0,1]": "seed=[0, 1]: must be a valid integer",
    "cluster.workers=0": "cluster.workers=0: must be greater than 0; it counts workers",
    "cluster.workers=8 cluster.groups=3": "cluster.groups=3: must divide cluster.workers=8",
    "cluster.groups=4 cluster.server=sharded": "cluster.server=sharded: does not support cluster.groups",
    "threads=100000": "threads=100000: must be less than or equal to 1024; it counts threads",
    # options of classes
    "task=logreg/a9a task.dataset.url='https://me:secret@a.net/'": "the url of a.net has a password",
    "task.regularization=-1": "task.regularization=-1: must be greater than or equal to 0",
    "task.batch_size=0": "task.batch_size=0: must be greater than 0",
    "task=logreg/synthetic task.dataset.density=0": "task.dataset.density=0: must be greater than 0",
    "task=logreg/synthetic task.dataset.features=3e9": "task.dataset.features=3000000000.0: must be",
    "task=text/markov warmup_rounds=0 task.dataset.length=999": "length=999: must be greater than or equal to 1000",
    "task=text/markov warmup_rounds=0 task.model.dropout=1": "task.model.dropout=1: must be less than 1",
    "task.partition=random": "task.partition=random: no such choice; Valid: contiguous, shuffled, dirichlet",
    "update.beta1=1": "beta1=1: must lie in [0, 1)",
    # classes and paths
    "algorithm._target_=os.system": "algorithm._target_=os.system: must be a class or function of algorithms, data",
    "algorithm._target_=algorithms.nowhere.f": "ModuleNotFoundError: No module named 'algorithms.nowhere'",
    "algorithm.name=../../../escaped": "may have letters, digits",
    "task=logreg/file task.dataset.file=/nowhere/at.all": "/nowhere/at.all: No such file",
    # what does not fit together
    "algorithm=cd_adam update=sgd": "algorithm=cd_adam takes AMSGrad; leave update out",
    "compressor=random_k compressor.unbiased=true": "needs a contractive compressor",
    "algorithm=adamw compressor=fp8 partition=layer": "takes Floats of the vector as a whole; leave partition out",
    "algorithm=demo partition=layer": "takes DctTopK of the vector as a whole; leave partition out",
    # sweeps
    "seed=0,1": "To sweep over it, add --multirun to your command line",
}


@pytest.mark.parametrize("wrong", REFUSED)
def test_refusals(wrong: str) -> None:
    assert REFUSED[wrong] in refusal(*SMALL, *wrong.split())


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


@pytest.mark.parametrize("algorithm", ["onebit_adam", "quantized_adam"])
def test_weight_decay_reaches_methods_that_bring_their_own_update(algorithm):
    for task, decay in (("digits", 5e-4), ("logreg/digits", 0)):
        assert load_run([f"task={task}", f"algorithm={algorithm}"]).algorithm.options["weight_decay"] == decay


OF_IMAGES = {
    "epochs=0": "epochs=0: must be greater than 0",
    "epochs=null": "epochs: set epochs or rounds",
    "task.batch_size=193": "each worker has 192 images",
    "cluster.workers=100": "cluster.workers=100: each worker has 15 images",
    "device=cuda": "device=cuda: torch sees no CUDA GPU here",
    "task.evaluation_rows=0": "task.evaluation_rows=0: must be greater than 0",
    "task.padding=-1": "task.padding=-1: must be greater than or equal to 0",
    "task.precision=half": "task.precision=half: no such choice; Valid: float32, tf32, bf16",
}


@pytest.mark.parametrize("wrong", OF_IMAGES)
def test_refusals_of_image_tasks(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert OF_IMAGES[wrong] in refusal("task=digits", wrong)
