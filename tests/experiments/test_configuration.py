"""From the command line to a checked run, what is said where it is wrong, and what Hydra says of an application."""

import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from hydra import compose as of_hydra
from omegaconf import DictConfig, OmegaConf
from run_support import SMALL, exit_code, small

from algorithms.utils.layout import vector_layout
from common.errors import UsageError
from experiments import run
from experiments.config import schema
from experiments.config.compose import CONF, compose, initialize_hydra
from experiments.config.run import load_run
from experiments.training.build import build_algorithm, build_task, check


def choices(group: str) -> list[str]:
    """Every choice of a configuration group, new ones included."""
    files = [path for path in (CONF / group).rglob("*.yaml") if not path.name.startswith("_")]
    return sorted(str(path.relative_to(CONF / group).with_suffix("")) for path in files)


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


@pytest.mark.parametrize("order", [1, -1])
def test_the_command_line_wins_over_an_algorithms_compressor(order: int) -> None:
    run = small(*("algorithm=cd_adam", "compressor=top_k")[::order])
    assert run.compressor.target == "algorithms.compressors.TopK"
    algorithm: Any = build_algorithm(run)
    assert algorithm.uplink.compressor.bits(1000) == 64 * 16


@pytest.mark.parametrize(("partition", "blocks"), [("layer", (3, 2**23, 5)), ("bucket", (3, 2**23 + 5))])
def test_a_vector_is_compressed_in_blocks(partition: str, blocks: tuple[int, ...]) -> None:
    algorithm: Any = build_algorithm(small("algorithm=naive", f"partition={partition}"), vector_layout([3, 2**23, 5]))
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
    "+compressor.new=1 cluster.workrs=2": "cluster.workrs: no such key; did you mean cluster.workers?",
    # numbers, their ranges and units
    "lr=[]": "give at least one step size",
    "lr=fast": "lr=fast: must be a valid number",
    "cluster.timeout=10min": "cluster.timeout=10min: must be a valid number; it counts seconds",
    "cluster.timeout=1e12": "must be less than or equal to 1000000000; it counts seconds",
    "warmup_rounds=20 rounds=20": "warmup_rounds=20: must be less than rounds=20",
    "rounds=1e3": "must be a valid integer",
    "rounds=null epochs=3": "epochs=3: task=logreg/breast_cancer counts in rounds; set rounds",
    "task=digits rounds=100 epochs=5": "epochs=5: rounds=100 is set too and wins; add rounds=null",
    "results_dir='~/results'": "results_dir=~/results: ~ is not expanded; give the full path",
    "seed=[0,1]": "seed=[0, 1]: must be a valid integer",
    "cluster.absent=[[3,2]]": "[[3, 2]]: must have more items; it counts triples of a worker, its first",
    "cluster.late=[[3,2,1]]": "[[3, 2, 1]]: must have at most 2 items, not 3; it counts",
    "cluster.workers=0": "cluster.workers=0: must be greater than 0; it counts workers",
    "cluster.workers=8 cluster.groups=3": "cluster.groups=3: must divide cluster.workers=8",
    "cluster.groups=4 cluster.server=sharded": "cluster.server=sharded: does not support cluster.groups",
    "data_dir=": "data_dir=: is empty, perhaps by an unset variable; give a folder, or unset DATA_DIR",
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
    "algorithm.display.color='#E69F0'": "algorithm.display.color=#E69F0: not known to matplotlib",
    "algorithm.display.marker=squre": "algorithm.display.marker=squre: not known to matplotlib",
    "task=logreg/file task.dataset.file=/nowhere/at.all": "/nowhere/at.all: No such file",
    # what does not fit together
    "algorithm=cd_adam update=sgd": "algorithm=cd_adam takes AMSGrad; leave update out",
    "compressor=random_k compressor.unbiased=true": "needs a contractive compressor",
    "algorithm=adamw compressor=fp8 partition=layer": "takes Floats of the vector as a whole; leave partition out",
    "algorithm=demo partition=layer": "takes DctTopK of the vector as a whole; leave partition out",
    # images
    "task=digits epochs=0": "epochs=0: must be greater than 0",
    "task=digits epochs=null": "epochs: set epochs or rounds",
    "task=digits task.batch_size=193": "each worker has 192 images",
    "task=digits cluster.workers=100": "cluster.workers=100: each worker has 15 images",
    "task=digits device=cuda": "device=cuda: torch sees no CUDA GPU here",
    "task=digits task.evaluation_rows=0": "task.evaluation_rows=0: must be greater than 0",
    "task=digits task.padding=-1": "task.padding=-1: must be greater than or equal to 0",
    "task=digits task.precision=half": "task.precision=half: no such choice; Valid: float32, tf32, bf16",
    # sweeps
    "seed=0,1": "To sweep over it, add --multirun to your command line",
}


@pytest.mark.parametrize("wrong", REFUSED)
def test_refusals(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    base = () if wrong.startswith("task=digits") else SMALL
    with pytest.raises(UsageError, match=re.escape(REFUSED[wrong])):
        check(load_run([*base, *wrong.split()]))


def test_an_image_task_brings_its_own_defaults_and_the_command_line_wins():
    run = load_run(["task=cifar10/resnet18"])
    assert (run.rounds, run.epochs, run.eval_every) == (4800, 100, 48)
    assert (run.cluster.workers, run.lr_schedule) == (8, "step_decay")
    assert run.update.options["weight_decay"] == 5e-4
    changes = ["cluster.workers=4", "epochs=2.5", "weight_decay=0", "lr_schedule=constant"]
    run = load_run(["task=cifar10/resnet18", *changes])
    assert (run.rounds, run.eval_every) == (round(2.5 * 97), 97)
    assert (run.update.options["weight_decay"], run.lr_schedule) == (0, "constant")
    assert load_run(["task=cifar10/resnet18", "rounds=7", "eval_every=3"]).rounds == 7


@pytest.mark.parametrize("algorithm", ["onebit_adam", "quantized_adam"])
def test_weight_decay_reaches_methods_that_bring_their_own_update(algorithm):
    for task, decay in (("digits", 5e-4), ("logreg/digits", 0)):
        assert load_run([f"task={task}", f"algorithm={algorithm}"]).algorithm.options["weight_decay"] == decay


Say = Callable[..., str]


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> Say:
    """Returns what a command line prints. It runs in an empty folder and must leave nothing there."""
    monkeypatch.chdir(tmp_path)

    def printed(*arguments: str) -> str:
        with suppress(SystemExit):  # as --help ends
            run.main(list(arguments))
        assert list(tmp_path.iterdir()) == []
        return capsys.readouterr().out

    return printed


@pytest.fixture
def extra(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder of configurations with the method `mine`. Its name has a space, an accent and brackets."""
    folder = tmp_path_factory.mktemp("a folder, é (1)")
    (folder / "algorithm").mkdir()
    display = "display: {label: Mine, color: black, marker: o}"
    (folder / "algorithm" / "mine.yaml").write_text(
        f"# @package _global_\ndefaults: [ef21, _self_]\nalgorithm:\n  name: mine\n  {display}\n"
    )
    return folder


def test_help_lists_choices_and_says_what_keys_mean(say: Say) -> None:
    printed = say("--help")
    words = set(re.split(r"[\s,]+", printed))
    for group in ("algorithm", "compressor", "update", "logger", "sweep"):
        assert {group, *(file.stem for file in (CONF / group).glob("*.yaml"))} <= words
    assert {"logreg/a9a", "digits", "stale=rerun", "cluster.workers=20"} <= words
    assert "data_dir=${oc.env:DATA_DIR,data/downloads} " in printed
    assert not [word for word in words if word.startswith("_images") or "_options" in word]
    for kind in (schema.RunConfig, schema.ClusterConfig, schema.LaunchConfig):
        for one in fields(kind):
            if not schema.is_part(one) and one.name != "cluster":
                assert " ".join(schema.spec_of(one).help.split()) in " ".join(printed.split())


def test_cfg(say: Say) -> None:
    job = yaml.safe_load(say("algorithm=ef21", "seed=3", "--cfg", "job", "--resolve"))
    assert (job["algorithm"]["name"], job["seed"], job["data_dir"]) == ("ef21", 3, "data/downloads")
    assert "hydra" not in job
    hydra = yaml.safe_load(say("--cfg", "hydra"))["hydra"]
    assert (hydra["run"]["dir"], hydra["output_subdir"], hydra["job"]["chdir"]) == (".", None, False)
    assert {"hydra", "seed"} <= yaml.safe_load(say("--cfg", "all")).keys()
    assert "name: logreg/digits" in say("--cfg", "job", "--package", "task")


def test_a_folder_of_the_users(say: Say, extra: Path, capsys: pytest.CaptureFixture) -> None:
    flag = f"--config-dir={extra}"
    assert yaml.safe_load(say(flag, "algorithm=mine", "--cfg", "job"))["algorithm"]["name"] == "mine"
    assert exit_code(["-cd", str(extra), "algorithm=mien"]) == 2
    assert "algorithm=mien: no such choice; did you mean mine?" in capsys.readouterr().err


@pytest.mark.slow
def test_a_primary_configuration_of_the_users(say: Say, extra: Path, capsys: pytest.CaptureFixture) -> None:
    (extra / "usual.yaml").write_text("defaults: [config, {override algorithm: mine}, _self_]\nseed: 7\n")
    usual = ["-cd", str(extra), "-cn", "usual"]
    job = yaml.safe_load(say(*usual, "--cfg", "job"))
    assert (job["algorithm"]["name"], job["seed"]) == ("mine", 7)
    assert exit_code([*usual, "sede=3"]) == 2
    assert "sede: no such key; did you mean seed?" in capsys.readouterr().err


STOPPED = {
    "-cn nowhere": "Cannot find primary config 'nowhere'",
    "--resolve": "--resolve: goes with --cfg job, which prints the configuration",
    "lr=1e−3": "lr=1e−3: has the dash −; write - instead",
    "--config-path conf": "--config-path: configurations come from conf/; add your own by --config-dir",
    "~dry_run": "configuration: has no dry_run",
    "+seed=3": "Could not append to config. An item is already at 'seed'",
    "-m compressor=top_k,sign compressor.k=3": "compressor=sign: compressor.k: no such key",
    "compressor=stc": "packages=[mine] adds those of a package mine",
    "-m lr=interval(0.1,1)": "does not support sweep type : INTERVAL",
}


@pytest.mark.parametrize(("line", "message"), STOPPED.items(), ids=STOPPED)
def test_what_is_refused(line, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert exit_code([*line.split(), *SMALL]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_misspelt_key_is_refused_before_torch_is_imported() -> None:
    code = "import sys, experiments.run as run\ntry: run.main(['roundz=3'])\nfinally: print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=CONF.parent, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "False\n")
    assert "did you mean rounds?" in done.stderr


def test_an_option_of_swept_choices_is_theirs_not_the_defaults(say: Say) -> None:
    said = say("-m", "compressor=top_k,random_k", "compressor.k=3", "dry_run=true", *SMALL)
    assert "compressor=TopK" in said
    assert "compressor=RandomK" in said
    assert "ef21_p" in say("-m", "algorithm=ef21,ef21_p", "compressor.ratio=0.1", "dry_run=true", *SMALL)
    swept = ("algorithm=naive,error_feedback", "compressor=top_k,random_k", "compressor.k=3")
    assert "compressor=RandomK" in say("sweep=step_sizes", *swept, "dry_run=true", *SMALL)


def test_completion(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    for typed, completed in (("compressor=top", "compressor=top_k"), ("cluster.w", "cluster.workers=")):
        monkeypatch.setenv("COMP_LINE", f"python run.py {typed}")
        assert completed in say("--shell-completion", "query=bash").split()
    assert "complete -o nospace" in say("--shell-completion", "install=bash")


@pytest.mark.slow
def test_nothing_is_left_beside_the_results(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run.main(list(SMALL))
    out = capsys.readouterr().out
    assert re.search(r"^results: results/logreg/breast_cancer/cd_adam/[0-9a-f]{12}$", out, re.MULTILINE)
    run.main(["-m", *SMALL, "study=again"])  # finished, so no further process
    assert "all 1 runs are finished" in capsys.readouterr().err
    assert sorted(map(str, Path().glob("*/*/*"))) == ["results/logreg/breast_cancer", "results/sweeps/again"]
    assert list(map(str, Path().iterdir())) == ["results"]


def flags(node: DictConfig) -> dict[object, object]:
    return {key: dict(node._get_node(key)._metadata.flags or {}) for key in node}  # type: ignore[union-attr]


def test_composing_without_hydras_own_settings_is_composing() -> None:
    groups = ["algorithm=ef21", "task=cifar10/resnet18", "compressor=top_k"]
    both = [*groups, "compressor.ratio=0.05", "lr=[0.1,0.3]"], [*groups, "seed=3"]
    with initialize_hydra():
        for words in (*both, ["task=digits"], *both):  # later ones start from copies that earlier ones left
            ours, theirs = compose(words), of_hydra("run", words)
            assert OmegaConf.to_yaml(ours, resolve=False) == OmegaConf.to_yaml(theirs, resolve=False)
            assert OmegaConf.is_struct(ours)
            assert flags(ours) == flags(theirs)
