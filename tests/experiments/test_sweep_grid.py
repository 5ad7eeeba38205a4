"""Which runs a sweep stands for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path

import pytest
import torch
import yaml
from run_support import SMALL, stopped
from sweep_support import cells

from common.errors import UsageError
from experiments import run
from experiments.config.compose import CONF, Config
from experiments.config.identity import folder
from experiments.config.identity import of as identity
from experiments.config.run import frozen
from experiments.sweep.folder import SweepFolder
from experiments.sweep.grid import Cell, combinations, command_lines, compose_cells
from experiments.sweep.launching import apart, launching

GRID = {
    "name": "mine",
    "grid": [["algorithm=naive", "algorithm=cd_adam"], ["lr=0.1 rounds=3", "lr=0.2 rounds=4"]],
    "overrides": ["task=logreg/digits", "rounds=9"],
}


def test_every_combination_of_a_grid() -> None:
    assert combinations(GRID["grid"]) == [
        [method, *step.split()] for method, step in product(GRID["grid"][0], GRID["grid"][1])
    ]
    assert combinations([]) == [[]]


def test_the_command_lines_values_are_axes_of_their_own() -> None:
    lines = command_lines(GRID, ["seed=0,1", "device=cpu"])
    assert len(lines) == 2 * 2 * 2
    assert {line[-2] for line in lines} == {"seed=0", "seed=1"}
    assert all(line[-1] == "device=cpu" and line[0] == "task=logreg/digits" for line in lines)
    # Every key once, with the grid's value where the sweep's overrides have another.
    assert all(sum(text.startswith("rounds=") for text in line) == 1 for line in lines)
    assert {text for line in lines for text in line if text.startswith("rounds")} == {"rounds=3", "rounds=4"}


def test_the_command_line_replaces_an_axis_that_sets_its_key_alone() -> None:
    for text, methods in (("algorithm=ef21", {"ef21"}), ("algorithm=ef21,sgd,adam", {"ef21", "sgd", "adam"})):
        lines = command_lines(GRID, [text])
        assert len(lines) == 2 * len(methods)
        assert {word.partition("=")[2] for line in lines for word in line if "algorithm" in word} == methods


def test_the_command_line_wins_over_the_sweeps_overrides() -> None:
    assert all("task=logreg/a9a" in line and "task=logreg/digits" not in line
               for line in command_lines(GRID, ["task=logreg/a9a"]))  # fmt: skip


@pytest.mark.parametrize(
    ("grid", "text"), [(GRID["grid"], "lr=0.3"), (GRID["grid"], "rounds=3,4"), ([["seed=0"], ["seed=1"]], "seed=2")]
)
def test_a_key_that_the_grid_sets_in_another_way_is_refused(grid: list, text: str) -> None:
    with pytest.raises(UsageError, match=f"{text}: the grid of sweep=mine sets {text.partition('=')[0]} together"):
        command_lines({**GRID, "grid": grid}, [text])


def test_names_tell_what_differs() -> None:
    found, _ = cells("algorithm=naive,cd_adam", "seed=0,1", "lr=0.1")
    assert [cell.name for cell in found] == [
        f"algorithm={name} seed={seed}" for name in ("naive", "cd_adam") for seed in (0, 1)
    ]
    [alone], _ = cells("algorithm=naive")
    assert alone.name == "naive"


def test_the_study_is_the_same_in_any_order_and_another_for_other_cells() -> None:
    def study(*overrides: str) -> str:
        [name] = {cell.config["study"] for cell in cells(*overrides)[0]}
        return name

    one = study("seed=0,1", "lr=0.1,0.2")
    assert one == study("lr=0.2,0.1", "seed=1,0") == study("seed=0,1,1", "lr=0.1,0.2", "jobs=7")
    assert one != study("seed=0,1", "lr=0.1")
    assert one.startswith("sweep-")
    assert len(one) == len("sweep-") + 8
    assert study("seed=0,1", "study=mine/own") == "mine/own"


def test_runs_of_a_select_sweep_are_marked_as_tuning() -> None:
    for select, job_type in (([], None), (["select=final_grad_norm"], "tune")):
        found, _ = cells("logger=wandb", "lr=0.1,0.2", *select)
        assert [cell.config["logger"]["job_type"] for cell in found] == [job_type] * 2


@cache
def composed(name: str) -> tuple[Config, list[Cell]]:
    """A sweep of conf/sweep: how it is launched, and its cells."""
    launch, rest = launching([f"sweep={name}"])
    return launch, compose_cells(launch, rest)


@pytest.mark.parametrize("name", sorted({path.stem for path in (CONF / "sweep").glob("*.yaml")} - {"none"}))
def test_the_sweeps_that_come_with_it(name: str) -> None:
    launch, found = composed(name)
    assert launch["sweep"]["name"] == name
    assert apart(launch)
    assert len({cell.id for cell in found}) == len(found) >= 5
    assert {cell.config["task"]["name"] for cell in found} <= {"logreg/breast_cancer", "logreg/digits"}  # no download
    assert "python -m experiments.run sweep=" + name in (CONF / "sweep" / f"{name}.yaml").read_text()


def test_the_methods_of_the_sweep_are_all_there_are() -> None:
    _, found = composed("methods")
    assert {cell.config["algorithm"]["name"] for cell in found} == {
        path.stem for path in (CONF / "algorithm").glob("*.yaml")
    }


def test_a_frozen_cell_is_the_same_run(tmp_path: Path) -> None:
    found, _ = cells("algorithm=ef21", "lr=1e-05,[0.1,1]", "compressor.ratio=0.1", "task.batch_size=3")
    place = SweepFolder(str(tmp_path), "mine")
    place.freeze(found)
    assert (place.path / "cells.txt").read_text().split() == [cell.id for cell in found]
    for cell in found:
        thawed = frozen(place.job(cell.id))
        assert thawed == cell.config
        assert identity(thawed) == cell.id == folder(thawed).name


def test_cfg_prints_the_cells_as_they_would_be_frozen(capsys: pytest.CaptureFixture) -> None:
    run.main(["-m", *SMALL, "seed=0,1", "--cfg", "job"])
    printed = list(yaml.safe_load_all(capsys.readouterr().out))
    assert printed == [cell.config for cell in cells("seed=0,1")[0]]


def test_only_what_needs_processes_of_its_own_is_started_so() -> None:
    for overrides, expected in (
        ([], False), (["dry_run=true"], False), (["jobs=1"], False), (["jobs=2"], True), (["ranks=2"], True),
        (["job_timeout=3"], True), (["select=final_grad_norm"], True), (["submit=slurm"], True),
        (["sweep=methods"], True),
    ):  # fmt: skip
        assert apart(launching(overrides)[0]) == expected, overrides


REFUSED = {
    "jobs=0": "jobs=0: must be a whole number of at least 1",
    "jobs=two": "jobs=two: must be a whole number",
    "jobs=1,2": "jobs=1,2: has one value, for all runs",
    "ranks=1.5": "ranks=1.5: must be a whole number",
    "ranks=3 cluster.workers=4": "cluster.workers=4: cannot be shared equally over 3 ranks",
    "job_timeout=10min": "job_timeout=10min: not a number",
    "job_timeout=0": "job_timeout=0: must be a positive number",
    "fail_fast=yes_please": "fail_fast=yes_please: true or false",
    "submit=slrum": "submit=slrum: no such choice; did you mean slurm? Valid: slurm, submitit",
    "submit=slurm job_timeout=60": "job_timeout=60: a submitted run is given its time by slurm.time",
    "submit=slurm fail_fast=true": "fail_fast=true: the runs of an array job do not know of each other",
    "select=final_gradnorm": "select=final_gradnorm: nothing is measured by that name; did you mean final_grad_norm?",
    "submit=slurm slurm=3": "slurm=3: holds settings of its own",
    "select=grad_norm": "select=grad_norm: final_<metric> or best_<metric>",
    "sweep=methdos": "sweep=methdos: no such choice; did you mean methods?",
    "sweep=methods,step_sizes": "has one value, for all runs",
    "sweep.grid=[['seed=0'],[]]": "sweep.grid=[['seed=0'], []]: must be a list of axes, each of them a list of",
    "sweep.grid=3": "sweep.grid=3: must be a list of axes",
    "sweep.overrides=[3]": "must be a list of overrides",
    "sweep.name=../up": "sweep.name=../up: must be words",
    "sweep.grid=[['sede=0']]": "sede: no such key; did you mean seed?",
    "job=2": "job: no such key; did you mean jobs?",
    "slurm.tiem=1": "slurm.tiem: no such key; did you mean slurm.time?",
    "slurm.time=90": "slurm.time=90: is for runs that are submitted; add submit=slurm",
    "lr=[0.01, 0.03]": "lr=[0.01,: not of the form key=value; its brackets do not match: leave out spaces within",
    "cd_adam": "error: cd_adam: not of the form key=value\n",
    "results_dir=a,b": "results_dir=b: must be the same for all runs of a sweep",
    "study=a,b": "study=b: must be the same for all runs of a sweep",
}


@pytest.mark.parametrize(("wrong", "message"), REFUSED.items())
def test_refusals_before_anything_is_started(
    wrong: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert stopped(["-m", *SMALL, *wrong.split()]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


SWEEP_FILES = {
    "name: a\ngird: []\n": "sweep=theirs: gird: no such key; did you mean grid? Valid: name, grid, overrides",
    "name: a\n": "sweep=theirs: has no grid",
    "grid: [[seed=0]]\njobs: 2\n": "sweep=theirs: jobs is about how runs are started: for that the file's first line",
    "# @package _global_\njobs: 2\ngrid: [[seed=0]]\n": "sweep=theirs: grid: no such key; Valid: jobs, ",
    "# @package _global_\njobs: 2\n": "sweep=theirs: has no grid",
    "name: a\n\ngrid: [mine\n": "sweep/theirs.yaml, line 4: not YAML (expected ',' or ']'",
}


@pytest.fixture
def sweep_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """Writes conf/sweep/theirs.yaml of a user's package; returns what lets it in."""
    (tmp_path / "their_sweeps" / "conf" / "sweep").mkdir(parents=True)
    (tmp_path / "their_sweeps" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)

    def write(text: str) -> list[str]:
        (tmp_path / "their_sweeps" / "conf" / "sweep" / "theirs.yaml").write_text(text)
        return ["packages=[their_sweeps]", "sweep=theirs"]

    return write


@pytest.mark.parametrize(("text", "message"), SWEEP_FILES.items())
def test_a_sweeps_file_is_checked(
    text: str, message: str, sweep_file: Callable, capsys: pytest.CaptureFixture
) -> None:
    assert stopped([*SMALL, *sweep_file(text), "--cfg", "job"]) == 2
    assert message in capsys.readouterr().err


def test_a_sweeps_file_needs_a_grid_alone(sweep_file: Callable) -> None:
    for text in ("grid: [[seed=0, seed=1]]\n", "# @package _global_\nsweep:\n  grid: [[seed=0, seed=1]]\n"):
        launch, rest = launching([*SMALL, *sweep_file(text)])
        assert launch["sweep"] == {"name": "theirs", "grid": [["seed=0", "seed=1"]], "overrides": []}
        assert len(compose_cells(launch, rest)) == 2


def test_what_is_submitted_may_need_what_is_not_here(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    there = ["task=digits", "device=cuda", f"results_dir={tmp_path}"]
    assert stopped(there) == 2
    assert "torch sees no CUDA GPU here" in capsys.readouterr().err
    run.main([*there, "submit=slurm"])
    assert "1 of 1 runs to do" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["seed=0,1", "seed=0,1 jobs=2"])
def test_several_values_need_m_or_a_sweep(text: str, capsys: pytest.CaptureFixture) -> None:
    assert stopped([*SMALL, *text.split()]) == 2
    assert "several values are a sweep: add -m" in capsys.readouterr().err
    run.main(["sweep=step_sizes", "algorithm=naive,cd_adam", "--cfg", "job"])
    assert len(list(yaml.safe_load_all(capsys.readouterr().out))) == 2


def test_values_may_hold_spaces() -> None:
    named, listed = "algorithm.display.label='a b'", "lr=[0.1, 0.2]"
    sweep = {"name": "mine", "grid": [[f"{named} {listed} seed=1", "seed=2"]], "overrides": []}
    assert command_lines(sweep, []) == [[named, listed, "seed=1"], ["seed=2"]]
    lines = command_lines({**sweep, "grid": []}, ["algorithm.display.label='a b','c=d'"])
    assert lines == [["algorithm.display.label='a b'"], ["algorithm.display.label='c=d'"]]


def test_a_frozen_configuration_is_printed_where_that_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    config = cells()[0][0].config
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(config))
    run.main(["--frozen", str(tmp_path / "job.yaml"), "--cfg", "job"])
    assert yaml.safe_load(capsys.readouterr().out) == config
    assert list(tmp_path.iterdir()) == [tmp_path / "job.yaml"]


def test_a_second_sweep_of_the_same_name_is_kept_out(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    with SweepFolder(str(tmp_path), "twice").locked():
        assert stopped(["-m", *SMALL, "seed=0,1", "study=twice", f"results_dir={tmp_path}"]) == 1
    assert "another process is at this sweep" in capsys.readouterr().err
    assert not (tmp_path / "sweeps" / "twice" / "cells.txt").exists()


def test_nothing_can_be_set_beside_a_frozen_configuration(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert stopped(["--frozen", str(tmp_path / "a.yaml"), "seed=1"]) == 2
    assert "nothing can be set besides" in capsys.readouterr().err
    assert stopped(["--frozen", str(tmp_path / "a.yaml")]) == 2
    assert f"{tmp_path / 'a.yaml'}: No such file" in capsys.readouterr().err


@pytest.mark.parametrize("command", [[], ["-m", "seed=0,1,0"], ["jobs=2", "ranks=2"]])
def test_a_plan_leaves_nothing(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    run.main([*SMALL, *command, "dry_run=true", f"results_dir={tmp_path / 'results'}"])
    count = 2 if "-m" in command else 1
    assert f"{count} runs, {count} of them to do" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
