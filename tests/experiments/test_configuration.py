"""From the command line to a checked run, and what is said where a command line is wrong."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from run_support import SMALL, configuration, small, stopped

from algorithms.utils.layout import of_vectors
from common.errors import UsageError
from experiments.config.compose import CONF
from experiments.config.run import load_run, read
from experiments.run import main
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


# Every file of conf/


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
    assert run.task.name == name


# What the command line says


def test_defaults() -> None:
    run = load_run([])
    assert run.algorithm.name == "cd_adam"
    assert run.task.name == "logreg/digits"  # offline
    assert (run.cluster.workers, run.cluster.timeout, run.lr) == (20, 600, (0.001,))
    assert run.task.options["regularization"] == 0.1
    assert (run.update.options["beta1"], run.update.options["beta2"]) == (0.9, 0.99)


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


@pytest.mark.parametrize("algorithm", ["demo"])
def test_blocks_of_what_has_none_are_refused_before_there_are_data(algorithm: str) -> None:
    words = f"partition=layer: algorithm={algorithm} takes .* of the vector as a whole; leave partition out"
    with pytest.raises(UsageError, match=words):
        check(small(f"algorithm={algorithm}", "partition=layer"))


def test_options_reach_the_objects() -> None:
    run = small("algorithm=naive", "update=sgd", "update.momentum=0.5", "algorithm.uplink_only=true")
    algorithm: Any = build_algorithm(run)
    assert algorithm.update.momentum == 0.5
    assert (algorithm.uplink.bits(100, 1), algorithm.downlink.bits(100, 1)) == (132, 3200)
    task: Any = build_task(small("cluster.workers=7", "task.batch_size=3", "task.regularization=0.25"))
    assert (task.workers, task.rows, task.batch_size, task.regularization) == (7, 81, 3, 0.25)


def test_cfg_prints_the_resolved_configuration_and_runs_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    command = [*SMALL, "seed=4", f"results_dir={tmp_path / 'results'}"]
    main([*command, "--cfg", "job", "--resolve"])
    assert read(yaml.safe_load(capsys.readouterr().out), []) == configuration(*command)
    assert list(tmp_path.iterdir()) == []


# Refusals


SLIPS = {
    # what is known once there are data
    "task.batch_size=29": "batch_size=29: a worker has 28 rows",
}


@pytest.mark.parametrize("wrong", SLIPS)
def test_what_is_wrong_ends_with_status_2_and_one_line(
    wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert stopped([*SMALL, f"results_dir={tmp_path / 'results'}", *wrong.split()]) == 2
    out, err = capsys.readouterr()
    error = err.splitlines()[-1]
    assert error.startswith("error: ")
    assert SLIPS[wrong] in error
    assert out == ""
    assert not list(tmp_path.rglob("config.yaml"))


KEYS = "Valid here: algorithm, compressor, update, task, logger, cluster, partition, lr, lr_schedule, "
ONE_SEED = "a run has one seed; -m seed=0,1 starts one run each"
QUOTES = "the value has characters that need quotes, one pair for the shell and one for Hydra: "

REFUSED = {
    # choices
    "algorithm=cdadam": "algorithm=cdadam: no such choice; did you mean cd_adam? Valid: adam, adamw, amsgrad, ",
    "task=logreg": "task=logreg: no such choice; it is a group; choose logreg/a9a, ",
    "lr_schedule=step": "did you mean step_decay? Valid: constant, step_decay, inverse_sqrt",
    # keys
    "algoritm=cd_adam": f"algoritm: no such key; did you mean algorithm? {KEYS}",
    "n=3": "n: no such key; did you mean cluster.workers?",
    "beta1=0.5": "did you mean update.beta1?",
    "compressor.nrom=l2": "did you mean compressor.norm? Valid here: compressor.norm",
    "+extra=1": "extra: no such key; Valid: algorithm, ",
    "~lr": "configuration: has no lr",
    # writing
    "study=é": f"{QUOTES}'study=\"é\"'",
    "results_dir=~/x": f"{QUOTES}'results_dir=\"~/x\"'",
    "lr=[1,2": "its brackets do not match",
    "seed=${nope}": "seed: Interpolation key 'nope' not found",
    # numbers, their ranges and units
    "lr=[]": "give at least one step size",
    "lr=[1,1.0]": "a step size is given twice",
    "lr=fast": "lr=fast: must be a valid number",
    "cluster.timeout=10min": "cluster.timeout=10min: must be a valid number; it counts seconds",
    "warmup_rounds=20 rounds=20": "warmup_rounds=20: of 20 rounds; leave some for the schedule",
    "rounds=1e3": "must be a valid integer; write 1000",
    "seed=[0,1]": ONE_SEED,
    "cluster.workers=0": "cluster.workers=0: must be greater than or equal to 1; it counts workers",
    "results_dir=null": "results_dir=None: must be a valid string",
    # options of classes
    "task.regularization=-1": "must not be negative",
    "task.partition=random": "task.partition=random: must be 'contiguous', 'shuffled' or 'dirichlet'",
    "update.beta1=1": "beta1=1: must lie in [0, 1)",
    # classes and paths
    "algorithm._target_=os.system": "algorithm._target_=os.system: must be a class or function of algorithms, data",
    "task.dataset._target_=builtins.open": "must be a class or function of algorithms, data, experiments",
    "task.dataset._target_=data.cache.os.getcwd": "'data.cache' is not a package",
    "algorithm._target_=algorithms.nowhere.f": "ModuleNotFoundError: No module named 'algorithms.nowhere'",
    "algorithm.name=../../../escaped": "may have letters, digits",
    "task=logreg/file task.dataset.file=/nowhere/at.all": "/nowhere/at.all: No such file",
    # what does not fit together
    "algorithm=cd_adam update=sgd": "algorithm=cd_adam takes AMSGrad; leave update out",
    "compressor=random_k compressor.unbiased=true": "needs a contractive compressor",
    "compressor=top_k compressor.k=0": "k=0: top_k sends between 1 and d",
    # sweeps
    "seed=0,1": "To sweep over it, add --multirun to your command line",
}


@pytest.mark.parametrize("wrong", REFUSED)
def test_refusals(wrong: str) -> None:
    assert REFUSED[wrong] in refusal(*SMALL, *wrong.split())
