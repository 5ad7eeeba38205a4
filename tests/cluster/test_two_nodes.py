"""Two machines, as two network namespaces that a cable joins."""

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


def _started(launcher: str, node: int, address: str, results: str) -> Iterator[tuple[list[str], dict[str, str]]]:
    """The command lines on a machine and their variables: a torchrun, or the two tasks that srun would start.

    Machines are named by their addresses.
    """
    run = ["-m", "experiments.run", *RUN, results]
    if launcher == "torchrun":
        about = ["--nnodes=2", f"--node-rank={node}", "--nproc-per-node=2", f"--master-addr={address}"]
        yield ["-m", "torch.distributed.run", *about, f"--master-port={PORT}", *run], {}
        return
    for task in range(2):
        step = {"JOB_ID": 1, "STEP_ID": 0, "STEP_NUM_TASKS": 4, "STEP_NODELIST": f"{address},other"}
        mine = {"STEP_TASKS_PER_NODE": "2(x2)", "PROCID": 2 * node + task, "LOCALID": task, "NODEID": node}
        yield run, {f"SLURM_{name}": str(value) for name, value in {**step, **mine}.items()}


@pytest.mark.parametrize("launcher", ["torchrun", "srun"])
def test_two_machines_equal_the_simulation(launcher: str, machines: list, results: str, tmp_path: Path) -> None:
    first = machines[0][2]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    processes = []
    try:
        for node, (namespace, interface, _) in enumerate(machines):
            for command, variables in _started(launcher, node, first, results):
                processes.append(
                    subprocess.Popen(
                        ["ip", "netns", "exec", namespace, sys.executable, *command],
                        cwd=CONF.parent,
                        env=clean | variables | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": interface},
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
