"""Sweeps as array jobs, by a stand-in for SLURM that runs them."""

from __future__ import annotations

import shlex
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import pytest
import yaml
from rich.console import Console
from run_support import configuration, go, rows, status, timeless
from slurm_support import Slurm

from common.errors import RunError, UsageError
from experiments.config.compose import Config, load
from experiments.config.identity import folder as folder_of
from experiments.config.identity import of as identity
from experiments.sweep import slurm

SMALL = ("task=logreg/breast_cancer", "rounds=20", "eval_every=5", "threads=1")
LONG = ("task=logreg/breast_cancer", "rounds=1500", "eval_every=50", "checkpoint_every=100000", "threads=1")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that is the current one; its name needs care in a shell and in SLURM's patterns."""
    path = tmp_path / "it's a 100% folder"
    path.mkdir()
    monkeypatch.chdir(path)
    return path


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Slurm:
    return Slurm(tmp_path / "slurm", monkeypatch.setenv)


def launching(*overrides: str) -> Config:
    """The launching keys as composed."""
    return load(overrides, "multirun")


def frozen(*runs: tuple[str, ...]) -> list[Config]:
    """The configurations of a sweep in `results/sweeps/my study`, and its folder as its owner leaves it."""
    configs = [deepcopy(configuration(*overrides)) for overrides in runs]
    jobs = Path("results", "sweeps", "my study", "jobs")
    jobs.mkdir(parents=True)
    for config in configs:
        (jobs / f"{identity(config)}.yaml").write_text(yaml.safe_dump(config))
    return configs


def submit(configs: list[Config], *overrides: str) -> str:
    """What is said."""
    console = Console(width=40)
    with console.capture() as said:
        slurm.submit(configs, launching(*overrides), Path("results", "sweeps", "my study"), console)
    return said.get()


def sbatch(said: str) -> None:
    """Do what was said to be the command that submits."""
    subprocess.run(["bash", "-c", said.splitlines()[-1]], check=True, cwd="/", capture_output=True)


def submitted(configs: list[Config], mode: str, *overrides: str) -> None:
    """Queue these runs in one way or the other."""
    said = submit(configs, f"submit={mode}", *overrides)
    if mode == "slurm":
        sbatch(said)


def logs(mode: str) -> str:
    """Everything that was said by the runs."""
    pattern = "jobs/*.log" if mode == "slurm" else "submitit/*_log.out"
    return "\n".join(file.read_text() for file in sorted(Path("results", "sweeps", "my study").glob(pattern)))


def test_the_script_asks_for_what_was_set_and_nothing_else(place: Path, cluster: Slurm) -> None:
    configs = frozen(SMALL, (*SMALL, "seed=1"), (*SMALL, "seed=2"))
    go(*SMALL, "seed=1")
    said = submit(configs, "submit=slurm", "jobs=2", "ranks=4", "slurm.time=02:00:00", "slurm.cpus_per_task=3")
    assert said.startswith("2 of 3 runs to do")
    script = place / "results" / "sweeps" / "my study" / "array.sh"
    assert subprocess.run(["bash", "-n", script], capture_output=True).stderr == b""
    sbatch(said)
    [job] = cluster.jobs()
    assert job["options"] == {
        "job-name": "my study",
        "array": "0-1%2",
        "ntasks": "4",
        "output": f"{script.parent}/slurm-%A_%a.out".replace("100%", "100%%"),
        "open-mode": "append",
        "signal": "TERM@120",
        "chdir": str(place),
        "requeue": True,
        "time": "02:00:00",
        "cpus-per-task": "3",
    }
    text = script.read_text()
    assert f"runs=({identity(configs[0])} {identity(configs[2])})" in text
    # Ranks that stop end one after the other, and a site may kill the last of them.
    assert "\nsrun --kill-on-bad-exit=0 --cpus-per-task=3 " in text


def test_a_task_finds_the_project_and_the_users_package(
    place: Path, cluster: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "of mine"
    (folder / "slurm_package").mkdir(parents=True)
    (folder / "slurm_package" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(folder)
    said = submit(frozen((*SMALL, "packages=[slurm_package]")), "submit=slurm")
    script = shlex.split(said.splitlines()[-1])[1]
    begin, _, rest = Path(script).read_text().partition("srun ")
    look = f"{begin}\n{shlex.quote(sys.executable)} -c 'import experiments, slurm_package'\n"
    plain = {"PATH": "/usr/bin:/bin", "SLURM_ARRAY_TASK_ID": "0"}
    assert rest
    assert subprocess.run(["bash", "-c", look], env=plain, cwd="/", capture_output=True).returncode == 0


def test_a_pending_array_does_not_change_with_a_later_one(place: Path, cluster: Slurm) -> None:
    configs = frozen(SMALL, (*SMALL, "seed=1"))
    sbatch(submit(configs, "submit=slurm"))
    go(*SMALL)
    sbatch(submit(configs, "submit=slurm"))
    first, second = (Path(job["spooled"]).read_text() for job in cluster.jobs())
    assert f"runs=({identity(configs[0])} {identity(configs[1])})" in first
    assert f"runs=({identity(configs[1])})" in second


@pytest.mark.parametrize("mode", ["slurm", "submitit"])
def test_nothing_is_submitted_where_all_is_finished(mode: str, place: Path, cluster: Slurm) -> None:
    configs = frozen(SMALL)
    go(*SMALL)
    assert submit(configs, f"submit={mode}") == "nothing to submit: all 1 runs are finished\n"
    assert not (place / "results" / "sweeps" / "my study" / "array.sh").exists()
    assert not cluster.jobs()


@pytest.mark.parametrize(
    ("override", "hint"),
    [
        ("slurm.time=2h", "02:00:00"),
        ("slurm.time=-1", "minutes"),
        ("slurm.mem='16 G'", "16G"),
        ("slurm.cpus_per_task=two", "whole number"),
        ("slurm.gpus_per_task=0", "a100:1"),
        ("slurm.partition=''", "null"),
        ("slurm.account=true", "line of text"),
    ],
)
def test_what_sbatch_would_refuse_is_said_before(override: str, hint: str) -> None:
    with pytest.raises(UsageError, match=f"^{override.partition('=')[0]}=.*{hint}"):
        slurm.check(launching(override)["slurm"])


@pytest.mark.parametrize(
    "override",
    [
        *("slurm.time=90", "slurm.time=12:00:00", "slurm.time=1-00", "slurm.time=2-12:30", "slurm.mem=16G"),
        *("slurm.mem=64000", "slurm.gpus_per_task=2", "slurm.gpus_per_task='a100:1'", "slurm.partition=gpu-long"),
        "slurm.setup='module load cuda/12 && source .venv/bin/activate'",
    ],
)
def test_what_sbatch_takes(override: str) -> None:
    slurm.check(launching(override)["slurm"])


def test_submitit_is_asked_for_where_it_is_missing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(UsageError, match="package submitit"):
        submit(frozen(SMALL), "submit=submitit")


def test_submitit_without_slurm(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UsageError, match="submit=slurm"):
        submit(frozen(SMALL), "submit=submitit")


def test_what_sbatch_answers_is_said(place: Path, cluster: Slurm) -> None:
    with pytest.raises(RunError, match="invalid partition specified: nowhere"):
        submit(frozen(SMALL), "submit=submitit", "slurm.partition=nowhere")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["slurm", "submitit"])
def test_an_array_to_its_end_and_once_more(
    mode: str, place: Path, cluster: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = (SMALL, (*SMALL, "seed=1"))
    configs = frozen(*runs)
    submitted(configs, mode, "slurm.setup='echo prepared in $PWD'")
    tasks = cluster.work()
    assert [task.codes for task in tasks] == [[0], [0]], logs(mode)
    for config, run in zip(configs, runs, strict=True):
        assert status(folder_of(config))["status"] == "finished"
        assert timeless(folder_of(config)) == timeless(go(*run, f"results_dir={tmp_path / 'here'}"))
        assert f"results: {folder_of(config)}" in logs(mode)
    if mode == "slurm":  # submitit keeps what a setup says elsewhere
        assert logs(mode).count(f"prepared in {place}") == 2
    before = [rows(folder_of(config)) for config in configs]
    assert [task.codes for task in cluster.work()] == [[0], [0]]
    assert logs(mode).count("already finished") == 2
    assert [rows(folder_of(config)) for config in configs] == before


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("mode", ["slurm", "submitit"])
def test_a_task_told_to_stop_is_queued_again_and_goes_on(
    mode: str, ranks: int, place: Path, cluster: Slurm, tmp_path: Path
) -> None:
    configs = frozen(LONG)
    submitted(configs, mode, f"ranks={ranks}")
    run = folder_of(configs[0])

    def under_way() -> bool:
        return (run / "metrics.jsonl").exists() and len(rows(run)) > 3

    [task] = cluster.work(preempt=under_way)
    assert task.codes[-1] == 0, logs(mode)
    assert len(task.codes) == 2, logs(mode)
    assert "stopped after round" in logs(mode)
    assert "resumed at round" in logs(mode)
    assert timeless(run) == timeless(go(*LONG, f"results_dir={tmp_path / 'here'}"))


@pytest.mark.slow
def test_a_task_told_to_stop_before_it_began_is_queued_again(place: Path, cluster: Slurm) -> None:
    submitted(frozen(SMALL), "slurm")
    [task] = cluster.work(preempt=(cluster.folder / "step").exists)
    assert task.codes == [143, 0], logs("slurm")


@pytest.mark.slow
def test_a_task_that_fails_is_not_queued_again(place: Path, cluster: Slurm) -> None:
    submitted(frozen((*SMALL, "algorithm=sgd", "lr=1e308")), "slurm")
    [task] = cluster.work()
    assert task.codes == [1]
    assert "train_loss is inf" in logs("slurm")
