"""What the environment of a launcher says, and what is answered where it says nonsense."""

import time
from collections.abc import Callable

import pytest
import torch
from run_support import configuration

from common.errors import UsageError, exit_with_message
from experiments.cluster.launch import Launch, read_launch
from experiments.training.build import device_of

TORCHRUN = {
    **{"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"},
    **{"MASTER_ADDR": "node0", "MASTER_PORT": "29400"},
}
SBATCH = {  # what a batch script has, before any srun
    **{"SLURM_JOB_ID": "4711", "SLURM_JOB_NODELIST": "gpu[07-09,12]", "SLURM_NTASKS": "11"},
    **{"SLURM_TASKS_PER_NODE": "4(x2),3", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"},
}
STEP = {
    **{"SLURM_STEP_ID": "2", "SLURM_STEP_NUM_TASKS": "11", "SLURM_STEP_NODELIST": "gpu[07-09]"},
    **{"SLURM_STEP_TASKS_PER_NODE": "4(x2),3", "SLURM_PROCID": "9", "SLURM_LOCALID": "1", "SLURM_NODEID": "2"},
}
SRUN = SBATCH | STEP
ALONE = {"SLURM_STEP_NUM_TASKS": "1", "SLURM_STEP_TASKS_PER_NODE": "1"}

Set = Callable[[dict[str, str]], object]


@pytest.fixture
def set_(monkeypatch: pytest.MonkeyPatch) -> Set:
    return lambda variables: [monkeypatch.setenv(*one) for one in variables.items()]


@pytest.mark.parametrize(
    "variables",
    [{}, {"WORLD_SIZE": "4"}, SBATCH, SRUN | ALONE],
    ids=["nothing", "another's variable", "a batch script", "an interactive shell"],
)
def test_a_process_started_alone(variables: dict[str, str], set_: Set) -> None:
    set_(variables)
    assert read_launch() is None


@pytest.mark.parametrize("more", [{}, {"TORCHELASTIC_RUN_ID": "none"}, SRUN], ids=["by hand", "alone", "within srun"])
def test_torchrun(more: dict[str, str], set_: Set) -> None:
    set_(TORCHRUN | more)
    assert read_launch() == Launch(rank=5, size=8, local_rank=1, local_size=4, address="node0", port=29400)


@pytest.mark.parametrize(
    ("variables", "missing"),
    [
        *((TORCHRUN | {"TORCHELASTIC_RUN_ID": "none"}, name) for name in TORCHRUN),
        *((SRUN, name) for name in ["SLURM_JOB_ID", *STEP] if name != "SLURM_STEP_NUM_TASKS"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_missing_variable_is_named(variables: dict[str, str], missing: str, set_: Set) -> None:
    set_({name: value for name, value in variables.items() if name != missing})
    with pytest.raises(UsageError, match=f"^{missing} is not set"):
        read_launch()


def test_srun(set_: Set) -> None:
    set_(SRUN)
    found = read_launch()
    assert (found.rank, found.size, found.local_rank, found.local_size) == (9, 11, 1, 3)
    assert found.address == "gpu07"
    assert 1024 < found.port < 32768  # below the ports that systems hand out
    set_({"SLURM_STEP_ID": "3"})
    assert read_launch().port != found.port
    set_({"SLURM_STEP_ID": "2", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"})
    assert read_launch() == Launch(0, 11, 0, 4, "gpu07", found.port)
    set_({"MASTER_ADDR": "10.0.0.7", "MASTER_PORT": "1234"})
    assert (read_launch().address, read_launch().port) == ("10.0.0.7", 1234)


NODES, TASKS = "SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE"


@pytest.mark.parametrize(
    ("variables", "field", "value"),
    [
        ({NODES: "node1"}, "address", "node1"),
        ({NODES: "login1,node2"}, "address", "login1"),
        ({NODES: "a-b[3]"}, "address", "a-b3"),
        ({NODES: "a-b[3,5-7].cluster.org,other"}, "address", "a-b3.cluster.org"),
        ({NODES: "n[0001-0002]"}, "address", "n0001"),
        ({NODES: "rack[2-3]node[05-06],x"}, "address", "rack2node05"),
        ({TASKS: "4(x2),3", "SLURM_NODEID": "1"}, "local_size", 4),
        ({TASKS: "8", "SLURM_NODEID": "0"}, "local_size", 8),
        ({TASKS: "1,2,16(x10)", "SLURM_NODEID": "11"}, "local_size", 16),
    ],
)
def test_slurms_lists(variables: dict[str, str], field: str, value: object, set_: Set) -> None:
    set_(SRUN | variables)
    assert getattr(read_launch(), field) == value


DAMAGED = {"RANK": "8", "SLURM_PROCID": "nine", "SLURM_STEP_NUM_TASKS": "", "SLURM_NODEID": "7", TASKS: "", NODES: ""}


@pytest.mark.parametrize(("name", "value"), DAMAGED.items())
def test_a_damaged_environment(name: str, value: str, set_: Set) -> None:
    set_((TORCHRUN if name in TORCHRUN else SRUN) | {name: value})
    with pytest.raises(UsageError, match="environment is damaged"):
        read_launch()


@pytest.mark.parametrize("port", ["0", "65536", "99999"])
@pytest.mark.parametrize("variables", [TORCHRUN, SRUN])
def test_a_port_that_no_machine_has(variables: dict[str, str], port: str, set_: Set) -> None:
    set_(variables | {"MASTER_ADDR": "node0", "MASTER_PORT": port})
    with pytest.raises(UsageError, match=f"MASTER_PORT={port}: must be from 1 to 65535"):
        read_launch()


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        # A process alone says what is wrong, whatever RANK may mean to others.
        *((one, "error: so it is\n") for one in ({"RANK": "nine"}, {"RANK": "1"}, {"SLURM_PROCID": ""})),
        (TORCHRUN, "error: rank 5: so it is\n"),  # by hand, maybe the only one in its terminal
        (TORCHRUN | {"TORCHELASTIC_RUN_ID": "none"}, ""),
        (SRUN, ""),
        (SRUN | {"SLURM_LOCALID": "0"}, "error: rank 9: so it is\n"),  # the first one of another machine
    ],
)
def test_who_says_what_is_wrong(
    variables: dict, said: str, set_: Set, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    set_(variables)
    with pytest.raises(SystemExit), exit_with_message():
        raise UsageError("so it is")
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(("seen", "task", "device"), [(1, 3, "cuda:0"), (2, 3, "cuda:1"), (8, 3, "cuda:3")])
def test_gpus_of_a_task_of_srun(
    seen: int, task: int, device: str, set_: Set, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --gpus-per-task a task sees its own GPUs alone, unless --gpu-bind=none shows it all."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: seen)
    with pytest.raises(UsageError, match="start one rank a GPU"):
        device_of(configuration("task=digits", "device=cuda"), seen)
    set_(SRUN | {"SLURM_GPUS_PER_TASK": "1"})
    assert device_of(configuration("task=digits"), task) == device
    set_({"TORCHELASTIC_RUN_ID": "1"})  # a torchrun in the task
    with pytest.raises(UsageError, match="start one rank a GPU"):
        device_of(configuration("task=digits"), seen)
