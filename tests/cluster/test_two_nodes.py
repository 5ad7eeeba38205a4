"""Two machines, as two network namespaces that a cable joins."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_support import LAUNCHERS, assert_same
from run_support import go, status, where

from experiments.config.compose import CONF

RUN = (
    *("task=logreg/breast_cancer", "rounds=12", "eval_every=4", "checkpoint_every=5", "lr=[0.003,0.01]"),
    *("algorithm=ef21", "compressor=random_k", "compressor.k=4", "cluster.workers=8", "cluster.timeout=60"),
    "threads=1",
)
PORT = 29555

pytestmark = pytest.mark.slow


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


@pytest.fixture
def machines() -> Iterator[list[tuple[str, str, str]]]:
    """The namespace, network interface and address of either machine."""
    if shutil.which("ip") is None:
        pytest.skip("network namespaces are made by `ip`, which is not here")
    mark = os.getpid()  # names of interfaces have 15 letters at most
    both = [(f"node{k}-{mark}", f"v{k}-{mark}", f"10.213.77.{k + 1}") for k in range(2)]
    made = []
    try:
        try:
            for namespace, _, _ in both:
                _ip("netns", "add", namespace)
                made.append(namespace)
            (one, end, _), (other, far_end, _) = both
            _ip("link", "add", end, "netns", one, "type", "veth", "peer", "name", far_end, "netns", other)
            for namespace, interface, address in both:
                _ip("-n", namespace, "address", "add", f"{address}/24", "dev", interface)
                _ip("-n", namespace, "link", "set", interface, "up")
                _ip("-n", namespace, "link", "set", "lo", "up")
        except OSError as error:
            pytest.skip(f"no network namespaces here: {error}")
        yield both
    finally:
        for namespace in made:
            subprocess.run(["ip", "netns", "delete", namespace], capture_output=True)  # and its end of the cable


def _torchrun(node: int, address: str, results: str) -> list[list[str]]:
    """torchrun's command line on a machine."""
    return [
        [
            *("-m", "torch.distributed.run", "--nnodes=2", f"--node-rank={node}", "--nproc-per-node=2"),
            *(f"--master-addr={address}", f"--master-port={PORT}", "-m", "experiments.run", *RUN, results),
        ]
    ]


def _srun(node: int, address: str, results: str) -> list[list[str]]:
    """What srun would start on a machine: two ranks."""
    return [["-m", "experiments.run", *RUN, results]] * 2


def _slurm(node: int, task: int, address: str) -> dict[str, str]:
    """What a task of srun finds; machines are named by their addresses."""
    return {
        "SLURM_JOB_ID": "1",
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NUM_TASKS": "4",
        "SLURM_STEP_NODELIST": f"{address},other",
        "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
        "SLURM_PROCID": str(2 * node + task),
        "SLURM_LOCALID": str(task),
        "SLURM_NODEID": str(node),
    }


@pytest.mark.parametrize("launcher", ["torchrun", "srun"])
def test_two_machines_equal_the_simulation(launcher: str, machines: list, results: str, tmp_path: Path) -> None:
    commands, first = {"torchrun": _torchrun, "srun": _srun}[launcher], machines[0][2]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    processes = []
    try:
        for node, (namespace, interface, _) in enumerate(machines):
            for task, command in enumerate(commands(node, first, results)):
                extra = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": interface}
                processes.append(
                    subprocess.Popen(
                        ["ip", "netns", "exec", namespace, sys.executable, *command],
                        cwd=CONF.parent,
                        env=clean | extra | (_slurm(node, task, first) if launcher == "srun" else {}),
                        stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT,
                        text=True,
                    )
                )
        said = [process.communicate(timeout=120)[0] for process in processes]
    finally:
        for process in processes:
            if process.poll() is None:
                process.terminate()
                process.communicate(timeout=60)
    assert [process.returncode for process in processes] == [0] * len(processes), "\n".join(said)
    path, expected = where(*RUN, results), go(*RUN, f"results_dir={tmp_path / 'alone'}")
    assert status(path)["status"] == "finished"
    assert_same(path, expected)
    assert f"results: {path}" in said[0]
    assert all("ef21" not in text for text in said[1:])
