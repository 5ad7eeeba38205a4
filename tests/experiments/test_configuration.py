"""From the command line to a checked configuration and its identity."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path

import pytest
import yaml
from run_support import SMALL, small

from common.errors import UsageError
from experiments import run
from experiments.config.compose import CONF, expand
from experiments.config.run import load_run
from experiments.training.build import build_algorithm, build_task, check


def choices(group: str) -> list[str]:
    """Every choice of a configuration group, new ones included."""
    files = [path for path in (CONF / group).rglob("*.yaml") if not path.name.startswith("_")]
    return sorted(str(path.relative_to(CONF / group).with_suffix("")) for path in files)


def refusal(overrides: Sequence[str], capsys: pytest.CaptureFixture) -> str:
    """The message with which a command line is refused with exit status 2."""
    with pytest.raises(SystemExit) as stop:
        run.main(list(overrides))
    assert stop.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    return err


# Every file of conf/


@pytest.mark.parametrize("name", choices("algorithm"))
def test_every_algorithm_with_its_defaults(name: str) -> None:
    config = small(f"algorithm={name}")
    check(config)
    assert config["algorithm"]["name"] == name
    assert set(config["algorithm"]["display"]) == {"label", "color", "marker"}


def test_every_algorithm_looks_different() -> None:
    displays = [small(f"algorithm={name}")["algorithm"]["display"] for name in choices("algorithm")]
    for look in (["label"], ["color", "marker"]):
        assert len({tuple(display[key] for key in look) for display in displays}) == len(displays)


@pytest.mark.parametrize("name", choices("compressor"))
def test_every_compressor(name: str) -> None:
    check(load_run(["algorithm=naive", f"compressor={name}"]))


# `own` is for the methods that bring their update, which are all checked above.
@pytest.mark.parametrize("name", [name for name in choices("update") if name != "own"])
def test_every_update(name: str) -> None:
    check(load_run(["algorithm=naive", f"update={name}"]))


@pytest.mark.parametrize("name", choices("task"))
def test_every_task(name: str, file: Path) -> None:
    needed = [f"task.dataset.file={file}"] if name.endswith("/file") else []
    config = load_run([f"task={name}", *needed])
    check(config)
    assert config["task"]["name"] == name


# What the command line says


def test_defaults() -> None:
    config = load_run([])
    assert config["algorithm"]["name"] == "cd_adam"
    assert config["task"]["name"] == "logreg/a9a"
    assert config["cluster"] == {"workers": 20, "timeout": 600}
    assert config["lr"] == [0.001]
    assert config["task"]["regularization"] == 0.1
    assert (config["update"]["beta1"], config["update"]["beta2"]) == (0.9, 0.99)


@pytest.mark.parametrize(
    "overrides", [("algorithm=cd_adam", "compressor=top_k"), ("compressor=top_k", "algorithm=cd_adam")]
)
def test_the_command_line_wins_over_an_algorithms_compressor(overrides: tuple[str, str]) -> None:
    config = small(*overrides)
    assert config["compressor"]["_target_"] == "algorithms.compressors.TopK"
    assert build_algorithm(config).uplink.compressor.bits(1000) == 64 * 16


@pytest.mark.parametrize(
    ("algorithm", "compressor", "update"),
    [
        ("cd_adam", "ScaledSign", "AMSGrad"),
        ("ef21", "TopK", "SGD"),
        ("amsgrad", "Identity", "AMSGrad"),
        ("adam", "Identity", "Adam"),
        ("sgd", "Identity", "SGD"),
    ],
)
def test_algorithms_bring_what_they_were_published_with(algorithm: str, compressor: str, update: str) -> None:
    config = small(f"algorithm={algorithm}")
    assert config["compressor"]["_target_"].endswith(f".{compressor}")
    assert config["update"]["_target_"].endswith(f".{update}")


def test_options_reach_the_objects() -> None:
    config = small("algorithm=naive", "update=sgd", "update.momentum=0.5", "algorithm.uplink_only=true")
    algorithm = build_algorithm(config)
    assert algorithm.update.momentum == 0.5
    assert (algorithm.uplink.bits(100, 1), algorithm.downlink.bits(100, 1)) == (132, 3200)
    task = build_task(small("cluster.workers=7", "task.batch_size=3", "task.regularization=0.25"))
    assert (task.workers, task.rows, task.batch_size, task.regularization) == (7, 81, 3, 0.25)


@pytest.mark.parametrize(
    ("text", "lrs"),
    [("1", [1.0]), ("1e-3", [0.001]), ("[1]", [1.0]), ("[0.1,2]", [0.1, 2.0]), ("[3e-3,1e-3]", [0.003, 0.001])],
)
def test_lr_is_a_list_of_floats(text: str, lrs: list[float]) -> None:
    config = small(f"lr={text}")
    assert config["lr"] == lrs
    assert all(type(lr) is float for lr in config["lr"])


def test_cfg_prints_the_resolved_configuration_and_runs_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    run.main([*SMALL, "seed=4", f"results_dir={tmp_path / 'results'}", "--cfg", "job"])
    assert yaml.safe_load(capsys.readouterr().out) == small("seed=4", f"results_dir={tmp_path / 'results'}")
    assert list(tmp_path.iterdir()) == []


def test_data_dir_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATA_DIR", "/somewhere")
    assert load_run(["task=logreg/a9a"])["task"]["dataset"]["data_dir"] == "/somewhere"
    assert load_run(["task=logreg/a9a", "data_dir=/else"])["task"]["dataset"]["data_dir"] == "/else"


# Sweeps


def test_a_sweep_is_every_combination_in_order() -> None:
    jobs = expand(["algorithm=cd_adam,ef21", "rounds=5", "seed=0,1"], multirun=True)
    assert jobs == [
        ["algorithm=cd_adam", "rounds=5", "seed=0"],
        ["algorithm=cd_adam", "rounds=5", "seed=1"],
        ["algorithm=ef21", "rounds=5", "seed=0"],
        ["algorithm=ef21", "rounds=5", "seed=1"],
    ]


@pytest.mark.parametrize("text", ["seed=range(3)", "seed=choice(0,1,2)", "seed=0,1,2"])
def test_ways_to_write_a_sweep(text: str) -> None:
    assert [load_run([*SMALL, *job])["seed"] for job in expand([text], multirun=True)] == [0, 1, 2]


def test_a_list_is_no_sweep() -> None:
    assert expand(["lr=[0.1,0.2]", "seed=1"], multirun=False) == [["lr=[0.1,0.2]", "seed=1"]]
    assert expand(["lr=[0.1,0.2],0.3"], multirun=True) == [["lr=[0.1,0.2]"], ["lr=0.3"]]
    assert expand([], multirun=True) == [[]]


@pytest.mark.parametrize("text", ["seed=0,1", "algorithm=cd_adam,ef21", "seed=range(3)"])
def test_a_sweep_needs_m(text: str) -> None:
    with pytest.raises(UsageError, match=r"several values are a sweep: add -m"):
        expand([text], multirun=False)


def test_several_step_sizes_may_mean_a_grid() -> None:
    with pytest.raises(UsageError, match=r"lr=0\.1,0\.2.*or write lr=\[0\.1,0\.2\]"):
        expand(["lr=0.1,0.2"], multirun=False)


@pytest.mark.parametrize("wrong", ["seed=0,oops", "algorithm=cd_adam,efx", "update.nu=1,0", "compressor=top_k,nope"])
def test_one_wrong_cell_stops_a_sweep_before_it_begins(
    wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    refusal(["-m", *SMALL, wrong, f"results_dir={tmp_path / 'results'}"], capsys)
    assert list(tmp_path.iterdir()) == []


# Refusals

REFUSED = {
    "algorithm=cdadam": "algorithm=cdadam: no such choice; did you mean cd_adam? Valid: adam, amsgrad, ",
    "algorithm=null": "no such choice",
    "compressor=topk": "did you mean top_k? Valid: identity",
    "update=amsgard": "did you mean amsgrad?",
    "task=logreg/breast-cancer": "did you mean logreg/breast_cancer?",
    "task=breast_cancer": "did you mean logreg/breast_cancer?",
    "algoritm=cd_adam": "algoritm: no such key; did you mean algorithm?",
    "learning_rate=1": "learning_rate: no such key; Valid here: partition, cluster, lr, lr_schedule, weight_decay, ",
    "workers=3": "did you mean cluster.workers?",
    "beta1=0.5": "did you mean update.beta1?",
    "compressor.nrom=l2": "did you mean compressor.norm? Valid here: compressor.norm",
    "compressor.k=3": "compressor.k: no such key",
    "+extra=1": "keys can be set, not added or deleted",
    "~lr": "keys can be set, not added or deleted",
    "lr": "lr: not of the form key=value",
    "=3": "=3: no",
    "lr=-0.1": "step sizes are positive numbers",
    "lr=[]": "non-empty list",
    "lr=nan": "step sizes are positive numbers",
    "lr=[0.1,inf]": "step sizes are positive numbers",
    "lr=[1,1.0]": "a step size stands there twice",
    "lr=[[0.1]]": "not a number",
    "lr=fast": "lr=fast: not a number",
    "cluster.timeout=10min": "cluster.timeout=10min: not a number; it counts seconds, with no unit behind it",
    "rounds=1k": "rounds=1k: must be a whole number of at least 1; it counts rounds, with no unit behind it",
    "lr=true": "not a number",
    "lr=null": "not a number",
    "lr_schedule=step": "did you mean step_decay? Valid: constant, step_decay, inverse_sqrt",
    "rounds=0": "rounds=0: must be a whole number of at least 1",
    "rounds=1.5": "must be a whole number",
    "eval_every=0": "eval_every=0: must be a whole number of at least 1",
    "checkpoint_every=-1": "checkpoint_every=-1: must be a whole number of at least 1",
    "seed=-1": "seed=-1: must be a whole number of at least 0",
    "cluster.workers=0": "cluster.workers=0: must be a whole number of at least 1",
    "seed=${nope}": "nope",
    "task.regularization=-1": "must not be negative",
    "task.regularization=much": "task.regularization=much: expected a number",
    "task.batch_size=0": "batch_size=0: a worker draws at least one row",
    "task.batch_size=29": "batch_size=29: a worker has 28 rows",
    "task.batch_size=2.5": "task.batch_size=2.5: expected a whole number or null",
    "task.partition=random": "task.partition=random: expected contiguous or shuffled or dirichlet",
    "task.dataset=3": "task.dataset=3",
    "algorithm.uplink_only=1": "algorithm.uplink_only=1: expected true or false",
    "compressor.norm=l3": "compressor.norm=l3: expected l1 or l2",
    "update.beta1=1": "beta1=1: must lie in [0, 1)",
    "update.nu=0": "nu=0: must be positive",
    "update.form=pytorch": "update.form=pytorch: expected paper or ",
    "algorithm._target_=os.system": "algorithm._target_=os.system: must be a class or function of algorithms, data",
    "compressor._target_=algorithmsx.Evil": "must be a class or function of algorithms, data, experiments",
    "task.dataset._target_=builtins.open": "must be a class or function of algorithms, data, experiments",
    "algorithm._target_=algorithms.nowhere.f": "algorithm._target_=algorithms.nowhere.f",
}


@pytest.mark.parametrize("wrong", REFUSED)
def test_refusals(wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    message = refusal([*SMALL, wrong, f"results_dir={tmp_path / 'results'}"], capsys)
    assert "error: " in message
    assert REFUSED[wrong] in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ("algorithm=amsgrad compressor=top_k", "algorithm=amsgrad takes Identity; leave compressor out"),
        ("algorithm=cd_adam update=sgd", "algorithm=cd_adam takes AMSGrad; leave update out"),
        ("algorithm=ef21 update=amsgrad", "algorithm=ef21 takes SGD"),
        ("compressor=random_k compressor.unbiased=true", "needs a contractive compressor"),
        ("compressor=top_k compressor.k=0", "k=0: top_k sends between 1 and d"),
        ("compressor=top_k compressor.ratio=0", "ratio=0: top_k sends a share of the coordinates in (0, 1]"),
        ("compressor=top_k compressor.ratio=1.5", "in (0, 1]"),
        ("compressor=top_k compressor.k=1.5", "compressor.k=1.5: expected a whole number or null"),
        ("task=logreg/file", "task.dataset.file: Missing mandatory value"),
        ("task=logreg/file task.dataset.file=/nowhere/at.all", "/nowhere/at.all: No such file"),
    ],
)
def test_what_does_not_fit_together(
    overrides: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert message in refusal([*SMALL, *overrides.split(), f"results_dir={tmp_path / 'results'}"], capsys)
    assert list(tmp_path.iterdir()) == []


UNCAUGHT = [
    "cluster=3",
    "results_dir=null",
    "task.name=3",
    "algorithm.name=null",
    "compressor=top_k compressor.k=31",
    "-m algorithm=glob(c*)",
    "-m seed=interval(0,1)",
]


@pytest.mark.parametrize("wrong", UNCAUGHT)
def test_slips_are_refused(wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    place = [] if "results_dir" in wrong else [f"results_dir={tmp_path / 'results'}"]
    refusal([*SMALL, *place, *wrong.split()], capsys)


@pytest.mark.parametrize(
    "wrong", ["lr=[0.1,nan]", "task.regularization=nan", "update.nu=nan", "update.weight_decay=nan"]
)
def test_nan_is_refused(wrong: str) -> None:
    with pytest.raises(UsageError, match="nan"):
        check(small(wrong))


@pytest.mark.parametrize("target", ["data.cache.os.getcwd", "experiments.record.environment.os.getcwd"])
def test_a_target_that_a_package_only_imports_is_refused(target: str) -> None:
    config = deepcopy(small())
    config["task"]["dataset"]["_target_"] = target
    with pytest.raises(UsageError, match=r"must be a class or function of|No module named"):
        check(config)


def test_a_number_is_no_file() -> None:
    with pytest.raises(UsageError, match="987: No such file"):
        load_run(["task=logreg/file", "task.dataset.file=987"])


@pytest.mark.parametrize("outside", ["algorithm.name=../../../escaped", "task.name=/escaped"])
def test_results_stay_in_results_dir(outside: str) -> None:
    with pytest.raises(UsageError, match="separated by slashes"):
        small(outside)
