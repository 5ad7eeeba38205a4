"""A sweep as an array job of SLURM: every task of the array is one run, resumed where it was cut off."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

from rich.console import Console

from common.errors import RunError, UsageError
from common.files import atomic
from experiments.config import identity
from experiments.config.compose import CONF, Config, folder_of_package
from experiments.record.folder import RunFolder

_SIGNAL = "TERM@120"
"""So many seconds before its time is up a run is told, by srun's tasks alone, and saves the round at hand."""

_AGAIN = """\
status=$?
# Told to stop, 130 with a checkpoint or 143 before there was one: the same task again, from there.
if [ "$status" -eq 130 ] || [ "$status" -eq 143 ]; then
    scontrol requeue "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}"
fi
exit "$status"
"""

_SCRIPT = """\
#!/bin/bash
{options}

runs=({runs})
run=${{runs[${{SLURM_ARRAY_TASK_ID:?submit this script by sbatch}}]}}
exec >> {jobs}/"$run".log 2>&1
{setup}
srun {srun} {python} -m experiments.run --frozen {jobs}/"$run".yaml
{again}"""

_FORMS = {
    "time": (r"(\d+-)?\d+(:\d+){0,2}", "minutes, hours:minutes:seconds or days-hours, such as 90 or 02:00:00"),
    "mem": (r"\d+([KMGT]B?)?", "megabytes, or a whole number with K, M, G or T behind it, such as 16G"),
    "cpus_per_task": (r"[1-9]\d*", "a whole number of cores"),
    "gpus_per_task": (r"([\w.-]+:)?[1-9]\d*", "a whole number, or a type and a number, such as a100:1"),
}
"""What sbatch takes for these, and how to say so."""


def submit(configs: list[Config], launch: Config, folder: Path, console: Console) -> None:
    """Write the runs that are not finished as an array job, <folder>/array.sh; with submit=submitit, submit them.

    Tasks run the configurations in <folder>/jobs/<id>.yaml and append what they say to jobs/<id>.log, or with
    submitit to its own files in <folder>/submitit/. A task that is told to stop, ahead of its time limit or of its
    pre-emption, is queued again and goes on from its checkpoint.
    `launch` is conf/launch.yaml as composed and checked. Raises UsageError where submitit or SLURM is not there, and
    RunError where sbatch fails.
    """
    folder = folder.absolute()
    waiting = [config for config in configs if not RunFolder(identity.folder(config)).is_finished()]
    runs = list(dict.fromkeys(map(identity.of, waiting)))
    if not runs:
        lines = [f"nothing to submit: all {len(configs)} runs are finished"]
    elif launch["submit"] == "submitit":
        lines = _submit(runs, launch, folder, _setup(launch, configs))
    else:
        script = folder / "array.sh"
        with atomic(script) as file:
            file.write_text(_script(runs, launch, folder, _setup(launch, configs)))
            file.chmod(0o755)
        lines = [f"{len(runs)} of {len(configs)} runs to do; submit them by", f"sbatch {shlex.quote(str(script))}"]
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def check(options: Config) -> None:
    """Raise UsageError for a value under `slurm` that sbatch would refuse."""
    for key, value in options.items():
        form, wanted = _FORMS.get(key, (r"[^\n]+", "a line of text"))
        if value is not None and (isinstance(value, bool) or not re.fullmatch(form, str(value), re.IGNORECASE)):
            raise UsageError(f"slurm.{key}={value}: must be {wanted}; null leaves it to the site")


def _script(runs: list[str], launch: Config, folder: Path, setup: list[str]) -> str:
    """The array job that sbatch takes. It names its runs itself: a pending one is not changed by a later one."""
    at_once = f"%{launch['jobs']}" if launch["jobs"] > 1 else ""
    options = {
        "job-name": folder.name,
        "array": f"0-{len(runs) - 1}{at_once}",
        "ntasks": launch["ranks"],
        "output": f"{str(folder).replace('%', '%%')}/slurm-%A_%a.out",
        **_options(launch),
        "signal": _SIGNAL,
        "open-mode": "append",
        "chdir": Path.cwd(),
    }
    flags = [f"--{key.replace('_', '-')}={shlex.quote(str(value))}" for key, value in options.items()]
    return _SCRIPT.format(
        options="\n".join(f"#SBATCH {flag}" for flag in [*flags, "--requeue"]),
        runs=" ".join(runs),
        jobs=shlex.quote(str(folder / "jobs")),
        setup="\n".join(setup),
        srun=" ".join(_srun(launch)),
        python=shlex.quote(sys.executable),
        again=_AGAIN,
    )


def _submit(runs: list[str], launch: Config, folder: Path, setup: list[str]) -> list[str]:
    """Submit the runs by submitit, and say which task is which run."""
    try:
        import submitit
        from submitit.core.utils import FailedJobError
    except ImportError as error:
        raise UsageError("submit=submitit: needs the package submitit; install it, or take submit=slurm") from error
    try:
        executor = submitit.SlurmExecutor(folder / "submitit")
    except RuntimeError as error:
        raise UsageError(f"submit=submitit: {error}; or write the script by submit=slurm") from error
    executor.update_parameters(
        job_name=folder.name,
        array_parallelism=launch["jobs"] if launch["jobs"] > 1 else len(runs),
        nodes=1,
        ntasks_per_node=launch["ranks"],
        **{"time": None, **_options(launch)},
        setup=setup,
        teardown=_AGAIN.splitlines(),
        srun_args=_srun(launch),
        stderr_to_stdout=True,
        additional_parameters={"signal": _SIGNAL, "requeue": True, "chdir": str(Path.cwd())},
    )
    try:
        jobs = executor.map_array(run_frozen, [str(folder / "jobs" / f"{run}.yaml") for run in runs])
    except FailedJobError as error:
        raise RunError(f"sbatch refused the job: {error}") from error
    said = [f"{job.job_id}  {run}" for job, run in zip(jobs, runs, strict=True)]
    return [*said, f"{len(runs)} runs submitted; what a task says: {folder / 'submitit'}/<job>_0_log.out"]


def run_frozen(file: str) -> None:
    """What a task of submitit does: `python -m experiments.run --frozen FILE`."""
    from experiments.run import main

    main(["--frozen", file])


def _options(launch: Config) -> Config:
    """What is asked for, under sbatch's names."""
    return {key: value for key, value in launch["slurm"].items() if value is not None and key != "setup"}


def _setup(launch: Config, configs: list[Config]) -> list[str]:
    """Lines of shell before srun; the project and users' packages are found wherever the job was submitted."""
    packages = {package.partition(".")[0] for config in configs for package in config["packages"]}
    folders = [CONF.parent, *sorted({folder_of_package(package).absolute().parent for package in packages})]
    path = f'export PYTHONPATH={shlex.quote(":".join(map(str, folders)))}"${{PYTHONPATH:+:$PYTHONPATH}}"'
    return [path, *([launch["slurm"]["setup"]] if launch["slurm"]["setup"] else [])]


def _srun(launch: Config) -> list[str]:
    """srun's options. Ranks that stop end one after the other, and none may be killed while another saves."""
    cores = launch["slurm"]["cpus_per_task"]  # which srun does not take over from sbatch
    return ["--kill-on-bad-exit=0", *([f"--cpus-per-task={cores}"] if cores else [])]
