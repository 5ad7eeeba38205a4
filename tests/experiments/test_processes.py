"""Processes at once: how many, what each is told, and how it is made to end."""

import importlib
import os
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from multiprocessing import forkserver
from pathlib import Path
from typing import cast

import pytest
import torch
import yaml
from run_support import SMALL, configuration, linux, processes, record, small
from waiting import until

from experiments.cluster.launch import Launch as Place
from experiments.config.identity import folder
from experiments.config.run import config_of as as_dict
from experiments.config.schema import LaunchConfig, RunConfig
from experiments.orchestration import job as job_module
from experiments.orchestration import preloaded
from experiments.orchestration import processes as processes_module
from experiments.orchestration.job import count_jobs, environment
from experiments.orchestration.preloaded import CODE
from experiments.orchestration.processes import Job, run_jobs


def test_nothing_of_what_jobs_inherit_starts_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has started CUDA cannot be forked."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda i: pytest.fail("starts CUDA"))
    importlib.reload(preloaded)


PATIENT = "trap 'echo stopped; exit 130' TERM; echo ready; while :; do sleep 0.02; done"
STUBBORN = "trap '' TERM; echo ready; while :; do sleep 0.02; done"


def shell(folder: Path, name: str, script: str, environment: Callable[[int], dict] = lambda slot: {}) -> Job:
    """A job that is a shell script."""
    return Job(os.execvp, ("sh", ["sh", "-c", script]), folder / f"{name}.log", environment)


def said(job: Job) -> list[str]:
    """What it wrote, the header of its log aside."""
    return job.log.read_text().splitlines()[1:]


UNTIL = "until grep -qx ready {0}/a.log && grep -qx ready {0}/b.log; do sleep 0.02; done"
"""Waits for the jobs a and b to be ready."""


def run_all(
    jobs: list[Job],
    at_once: int = 1,
    timeout: float | None = None,
    ended: Callable[[Job], bool] = lambda job: True,
    say: Callable[[str], object] = print,
) -> bool:
    """Run them, with nobody who watches."""
    return run_jobs(jobs, at_once, timeout, ended, watch=lambda: None, say=say)


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight cores, and nobody said anything about threads and GPUs."""
    monkeypatch.setattr(job_module, "cores", lambda: 8)
    for name in ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("jobs", "ranks", "threads"), [(1, 1, "8"), (3, 1, "2"), (1, 4, "2"), (2, 2, "2"), (16, 1, "1"), (4, 4, "1")]
)
def test_cores_are_shared_out(jobs, ranks, threads, monkeypatch):
    for slot in range(jobs):
        assert environment(small(), jobs, ranks, slot).get("OMP_NUM_THREADS") == threads
    assert "OMP_NUM_THREADS" not in environment(small("threads=3"), jobs, ranks, 0)
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert "OMP_NUM_THREADS" not in environment(small(), jobs, ranks, 0)


@pytest.mark.parametrize(
    ("visible", "jobs", "ranks", "given"),
    [
        (None, 1, 3, ["0,1,2"]),
        (None, 2, 2, ["0,1", "2,0"]),
        (None, 5, 1, ["0", "1", "2", "0", "1"]),
        ("5,GPU-7f3a,6,7", 3, 1, ["5", "GPU-7f3a", "6"]),
    ],
)
def test_gpus_are_given_out_in_turn(visible, jobs, ranks, given, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    images, cpu, convex = small("task=digits"), small("task=digits", "device=cpu"), small()
    for slot in range(jobs):
        assert environment(images, jobs, ranks, slot)["CUDA_VISIBLE_DEVICES"] == given[slot]
        for config in (cpu, convex):  # a task of logistic regression runs on the CPU alone
            assert "CUDA_VISIBLE_DEVICES" not in environment(config, jobs, ranks, slot)


def test_a_process_has_its_slots_environment_and_a_log_of_every_try(tmp_path, monkeypatch):
    monkeypatch.setenv("KEPT", "kept")
    jobs = [shell(tmp_path, name, 'echo "$SLOT $KEPT"', lambda slot: {"SLOT": str(slot)}) for name in "abc"]
    for _ in range(2):
        assert not run_all(jobs, 1)
    for job in jobs:
        lines = job.log.read_text().splitlines()
        assert lines[1::2] == ["0 kept"] * 2
        assert all(line.startswith("# 20") for line in lines[::2])


def test_never_more_than_asked_for(tmp_path: Path) -> None:
    script = f"mkdir {tmp_path}/$SLOT && sleep 0.05 && rmdir {tmp_path}/$SLOT"  # fails where the slot is taken
    ended = []
    jobs = [shell(tmp_path, str(number), script, lambda slot: {"SLOT": f"slot{slot}"}) for number in range(7)]
    run_all(jobs, 3, None, lambda job: ended.append(job) or True)
    assert [job.code for job in ended] == [0] * 7
    assert set(ended) == set(jobs)


def test_after_a_no_the_others_are_asked_to_end(tmp_path: Path) -> None:
    patient = [shell(tmp_path, name, PATIENT) for name in ("a", "b")]
    failing = shell(tmp_path, "failing", UNTIL.format(tmp_path) + "; exit 3")
    never = shell(tmp_path, "never", "echo begun")
    ended = {}
    assert not run_all([*patient, failing, never], 3, None, lambda job: ended.setdefault(job, job.code) == 130)
    assert ended == {failing: 3, **dict.fromkeys(patient, 130)}
    assert [said(job) for job in patient] == [["ready", "stopped"]] * 2
    assert not never.log.exists()


@pytest.mark.slow
def test_what_takes_too_long_is_asked_to_end_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes_module, "GRACE", 1.0)
    twice = STUBBORN.replace("''", "\"trap 'echo stopped; exit 130' TERM\"")
    patient, quick = shell(tmp_path, "a", twice), shell(tmp_path, "b", "exit 0")
    run_all([patient, quick], 1, 1.0)
    assert (patient.timed_out, patient.code, said(patient)) == (True, 130, ["ready", "stopped"])
    assert (quick.timed_out, quick.requests, quick.code) == (False, 0, 0)


def test_ctrl_c_asks_once_and_a_second_time_kills(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    jobs = [
        shell(tmp_path, "a", "trap 'echo asked' TERM; echo ready; while :; do sleep 0.02; done"),
        shell(tmp_path, "b", PATIENT),
        shell(tmp_path, "presses", f"{UNTIL.format(tmp_path)}; kill -INT {os.getpid()}"),
        shell(tmp_path, "never", "echo begun"),
    ]
    codes, told = {}, []

    def ended(job: Job) -> bool:
        codes[job.log.stem] = job.code
        if job.log.stem == "b":  # the other was asked as well, and goes on
            os.kill(os.getpid(), signal.SIGINT)
        return True

    assert run_all(jobs, 3, None, ended, told.append)
    assert codes.keys() == {"a", "b", "presses"}
    assert (codes["a"], codes["b"]) == (-signal.SIGKILL, 130)
    assert said(jobs[0]).count("asked") <= 1
    assert len(told) == 1
    assert signal.getsignal(signal.SIGINT) is before


@linux
def test_a_signal_to_the_whole_group_leaves_the_server_of_the_jobs_there(tmp_path: Path) -> None:
    forkserver._forkserver._stop()  # another test may have started it, without the mask
    jobs = [shell(tmp_path, name, "echo $PPID; kill -TERM $PPID; kill -INT $PPID") for name in "ab"]
    assert not run_all(jobs)
    assert said(jobs[0]) == said(jobs[1])


class Ended:
    """A job that has ended as soon as it starts."""

    code, requests = 0, 0

    def __init__(self, kind: str, seconds: float, begun: list[str]) -> None:
        self.kind, self.seconds, self._begun = kind, seconds, begun
        self.sentinel, other = os.pipe()
        os.close(other)

    def start(self, slot: int) -> None:
        self._begun.append(self.kind)

    def check(self, timeout: float | None) -> bool:
        os.close(self.sentinel)
        return True


def test_long_jobs_start_before_short_ones_once_that_is_known() -> None:
    begun: list[str] = []
    jobs = [Ended(kind, {"short": 1, "long": 2, "last": 1.5}[kind], begun) for kind in ("short", "long", "last") * 2]
    run_all(cast(list[Job], jobs))
    assert begun == ["short", "long", "last", "long", "last", "short"]


def train_as_if_edited(file: Path) -> None:
    """A job in a process with older code, which would abort. The fork server imported it before an edit."""
    CODE["algorithms.core.algorithm"] = "other"
    job_module.train_here = os.abort
    job_module.train(file, [])


@pytest.mark.slow
def test_a_job_runs_the_code_of_today(tmp_path: Path) -> None:
    run = small(f"results_dir={tmp_path}")
    file = tmp_path / "a.yaml"
    file.write_text(yaml.safe_dump(as_dict(run)))
    job = Job(train_as_if_edited, (file,), tmp_path / "a.log", partial(environment, run, 1, 1))
    run_all([job])
    assert job.code == 0
    assert record(folder(run), "status")["status"] == "finished"


def test_an_exception_leaves_no_process_behind(tmp_path: Path) -> None:
    jobs = [shell(tmp_path, "a", PATIENT), shell(tmp_path, "b", "echo ready; " + UNTIL.format(tmp_path))]

    def fail(job: Job) -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_all(jobs, 2, None, fail)
    assert said(jobs[0])[-1] == "stopped"
    assert list(processes(str(tmp_path))) == []


@linux
@pytest.mark.parametrize(
    "who", [pytest.param("a stubborn parent", marks=pytest.mark.slow), "a parent that is killed by others"]
)
def test_what_a_killed_job_started_ends_too(who: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the ranks of torchrun, which have sessions of their own."""
    monkeypatch.setattr(processes_module, "GRACE", 0.5)
    script = "import time; from common.signals import end_with_parent; end_with_parent(); time.sleep(1000)"
    child = f"{sys.executable} -c '{script}' {tmp_path}"
    last = "kill -9 $$" if "others" in who else STUBBORN
    job = shell(tmp_path, "a", f"setsid {child} & sleep 1; echo ready; {last}")
    run_all([shell(tmp_path, "first", "true")])  # the fork server's start takes seconds
    run_all([job], 1, None if "others" in who else 2.0)
    assert job.code == -signal.SIGKILL
    until(lambda: not list(processes(str(tmp_path))), 10)


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (["a line", "error: the reason", "results: none"], "the reason"),
        (["error: rank 1: no more memory", "error: lost contact to the other ranks"], "rank 1: no more memory"),
        (["Traceback (most recent call last):", "ZeroDivisionError: by what?", ""], "ZeroDivisionError: by what?"),
        (["KeyError: why", "E1120 torch/distributed/elastic/a.py:7] x", "a.b.ChildFailedError:"], "KeyError: why"),
        ([], ""),
    ],
)
def test_the_line_that_says_what_was_wrong(lines: list[str], error: str, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("# before\nerror: of an earlier try\n")
    text = "\n".join(lines)
    job = shell(tmp_path, "a", f"printf %s {shlex.quote(text)}; exit 1")
    run_all([job])
    assert job.error() == error


def runs(results: Path, count: int, *overrides: str) -> list[RunConfig]:
    run = configuration(*SMALL, *overrides, f"results_dir={results}")
    return [replace(run, seed=seed) for seed in range(count)]


def jobs(some: Sequence[RunConfig], **launch: int) -> int | None:
    return count_jobs(LaunchConfig(**launch), some).jobs


def test_cores_are_filled_by_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert jobs(runs(tmp_path, 20)) == 8
    assert jobs(runs(tmp_path, 20), ranks=3) == 2
    assert jobs(runs(tmp_path, 20, "threads=4")) == 2
    assert jobs(runs(tmp_path, 20), jobs=5) == 5
    assert jobs(runs(tmp_path, 3)) == 3
    assert jobs(runs(tmp_path, 1)) == jobs([]) == 1
    monkeypatch.setattr(job_module, "read_launch", lambda: Place(0, 2, 0, 2, address="", port=0))
    assert jobs(runs(tmp_path, 20)) == 1


def test_threads_that_the_user_asked_for_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)  # as torch has it from there
    assert jobs(runs(tmp_path, 20)) == 2
    assert jobs(runs(tmp_path, 20, "threads=1")) == 8


def test_a_gpu_has_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = [replace(small("task=digits", f"results_dir={tmp_path}"), seed=seed) for seed in range(9)]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for gpus, ranks, expected in ((1, 1, 1), (3, 1, 3), (4, 2, 2), (99, 1, 8)):
        monkeypatch.setattr(torch.cuda, "device_count", lambda gpus=gpus: gpus)
        assert jobs(images, ranks=ranks) == expected
