"""A stand-in for SLURM on this machine: `sbatch` queues a script, `Slurm.work` runs what is queued, `srun` starts its
ranks and `scontrol requeue` has a task run again.

Its site is one that kills all tasks of a step where one of them fails, unless srun is told otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_OPTIONS = (
    *("job-name", "array", "ntasks", "nodes", "ntasks-per-node", "cpus-per-task", "gpus-per-task", "output", "error"),
    *("open-mode", "signal", "chdir", "time", "partition", "account", "mem", "wckey"),
)


@dataclass
class Task:
    """One task of an array, or a job that is none."""

    id: str
    codes: list[int] = field(default_factory=list)  # exit statuses, one for every time that it ran


class Slurm:
    """Commands that are found first from now on, and what they queued."""

    def __init__(self, folder: Path, put: Callable[[str, str], None]) -> None:
        """`put` sets an environment variable."""
        self.folder = folder
        for command in ("sbatch", "srun", "scontrol"):
            file = folder / "bin" / command
            file.parent.mkdir(parents=True, exist_ok=True)
            program = shlex.join([sys.executable, str(Path(__file__).resolve()), command, str(folder)])
            file.write_text(f'#!/bin/sh\nexec {program} "$@"\n')
            file.chmod(0o755)
        put("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")

    def jobs(self) -> list[dict]:
        """Everything that was queued, in order."""
        return [json.loads(file.read_text()) for file in sorted(self.folder.glob("job-*.json"))]

    def work(self, preempt: Callable[[], bool] | None = None) -> list[Task]:
        """Run all tasks that are queued, one after the other, again where they were requeued.

        preempt: when this first becomes true SIGTERM goes to what srun started just then, and to nothing else.
        """
        done = []
        for job in self.jobs():
            for index in _indices(job["options"].get("array")):
                task = Task(str(job["id"]) if index is None else f"{job['id']}_{index}")
                again = True
                while again:
                    process = _begin(job, task, index)
                    while process.poll() is None:
                        time.sleep(0.01)
                        if preempt and preempt():
                            preempt = None
                            for pid in (self.folder / "step").read_text().split():
                                os.kill(int(pid), signal.SIGTERM)
                    task.codes.append(process.returncode)
                    mark = self.folder / f"requeue-{task.id}"
                    again = mark.exists()
                    mark.unlink(missing_ok=True)
                done.append(task)
        assert not list(self.folder.glob("requeue-*"))  # which would be of a job that there is not
        return done


def _indices(array: str | None) -> Sequence[int | None]:
    if array is None:
        return [None]
    first, last = map(int, array.partition("%")[0].split("-"))
    return range(first, last + 1)


def _begin(job: dict, task: Task, index: int | None) -> subprocess.Popen:
    """Start the batch script of a task as slurmd does."""
    options, size = job["options"], len(_indices(job["options"].get("array")))
    ntasks = int(options.get("ntasks", options.get("ntasks-per-node", 1)))
    variables = {
        "SLURM_JOB_ID": job["id"] if index in (None, size - 1) else job["id"] + 1 + index,
        "SLURM_JOB_NAME": options["job-name"],
        "SLURM_JOB_NODELIST": "localhost",
        "SLURM_JOB_NUM_NODES": 1,
        "SLURM_NTASKS": ntasks,
        "SLURM_TASKS_PER_NODE": ntasks,
        "SLURM_PROCID": 0,
        "SLURM_LOCALID": 0,
        "SLURM_NODEID": 0,
        "SLURM_RESTART_COUNT": len(task.codes),
        **({} if index is None else {"SLURM_ARRAY_JOB_ID": job["id"], "SLURM_ARRAY_TASK_ID": index}),
    }
    variables = {name: str(value) for name, value in variables.items()}
    with open(_filled(options["output"], variables), "ab") as output:
        return subprocess.Popen(
            [job["spooled"]],
            cwd=options.get("chdir", job["cwd"]),
            env=job["environment"] | variables,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _filled(pattern: str, variables: dict[str, str], rank: int = 0) -> str:
    """A file name of SLURM's, its symbols replaced."""
    values = {
        "%A": variables.get("SLURM_ARRAY_JOB_ID", variables["SLURM_JOB_ID"]),
        "%a": variables.get("SLURM_ARRAY_TASK_ID", "4294967294"),
        "%j": variables["SLURM_JOB_ID"],
        "%t": str(rank),
    }
    parts = pattern.split("%%")
    for symbol, value in values.items():
        parts = [part.replace(symbol, value) for part in parts]
    return "%".join(parts)


def _sbatch(folder: Path, arguments: list[str]) -> int:
    [script] = arguments
    lines = Path(script).read_text().splitlines()
    begins = next(k for k, line in enumerate(lines) if line and not line.startswith("#"))
    words = [word for line in lines[:begins] if line.startswith("#SBATCH") for word in shlex.split(line)[1:]]
    parser = argparse.ArgumentParser("sbatch", allow_abbrev=False)
    for option in _OPTIONS:
        parser.add_argument(f"--{option}", dest=option)
    parser.add_argument("--requeue", action="store_true")
    options = {key: value for key, value in vars(parser.parse_args(words)).items() if value is not None}
    if options.get("partition") == "nowhere":
        print("sbatch: error: invalid partition specified: nowhere", file=sys.stderr)
        return 1
    number = random.randrange(10**5, 10**6)  # of which ports are made
    spooled = folder / f"script-{number}"
    spooled.write_text(Path(script).read_text())
    spooled.chmod(0o755)
    job = {
        "id": number,
        "options": options,
        "spooled": str(spooled),
        "cwd": os.getcwd(),
        "environment": dict(os.environ),
    }
    (folder / f"job-{time.time_ns()}.json").write_text(json.dumps(job))
    print(f"Submitted batch job {number}")
    return 0


def _srun(folder: Path, arguments: list[str]) -> int:
    parser = argparse.ArgumentParser("srun", allow_abbrev=False)
    parser.add_argument("--kill-on-bad-exit", type=int, default=1)
    parser.add_argument("--cpus-per-task")
    parser.add_argument("--output")
    parser.add_argument("--unbuffered", action="store_true")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    size = int(os.environ["SLURM_NTASKS"])
    step = {
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NUM_TASKS": str(size),
        "SLURM_STEP_NODELIST": "localhost",
        "SLURM_STEP_TASKS_PER_NODE": str(size),
    }
    tasks = []
    for rank in range(size):
        output = None
        if options.output:
            name = _filled(options.output, dict(os.environ), rank)
            output = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        environment = {**os.environ, **step, "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)}
        tasks.append(subprocess.Popen(options.command, env=environment, stdout=output, stderr=output).pid)
    (folder / "step").write_text(" ".join(map(str, tasks)))
    codes = []
    while tasks:
        ended, result = os.wait()
        tasks.remove(ended)
        codes.append(os.waitstatus_to_exitcode(result))
        if codes[-1] and options.kill_on_bad_exit:
            for task in tasks:
                os.kill(task, signal.SIGKILL)
    return max(code if code >= 0 else 128 - code for code in codes)


def _scontrol(folder: Path, arguments: list[str]) -> int:
    verb, task = arguments
    assert verb == "requeue"
    (folder / f"requeue-{task}").touch()
    return 0


if __name__ == "__main__":
    commands = {"sbatch": _sbatch, "srun": _srun, "scontrol": _scontrol}
    sys.exit(commands[sys.argv[1]](Path(sys.argv[2]), sys.argv[3:]))
