"""What a borrowed GPU is worth using for, in that order, until a deadline.

    make gpu DEADLINE=540 OUT=folder                                       540 seconds of it; the next call goes on
    python -m benchmarks.gpu deadline=540 out=folder                       the same without make
    python -m benchmarks.gpu rehearse=true results_dir=rehearsal           the same commands, tiny and on the CPU

Every item is a command that ends by itself. One that is done is skipped, one that was stopped goes on where it was,
one that failed is tried again, with CUDA graphs at once without them; its output, traceback included, is in
<results_dir>/items/<name>.log, and beside it in <name>.json what it ran on and how long it took. 30 seconds before
the deadline the command at hand is asked to write its checkpoint and end. `out` gets one archive of all results but
checkpoints: unpacked into <results_dir> on another machine, what it has finished is not done again.
"""

import json
import math
import os
import shlex
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from common.errors import Interrupted, UsageError, exit_with_message
from common.names import unknown

ROOT = Path(__file__).resolve().parents[1]

KEYS = {"deadline": "", "out": "", "results_dir": "results/gpu", "rehearse": "false"}
"""Of the command line, with what they are without it; no deadline means none."""

RESERVE = 30.0  # seconds before the deadline in which a command writes its checkpoint, or is killed
_EVERY = 10.0  # seconds between two looks at the card
_STATE = "name,driver_version,pstate,clocks.sm,clocks.mem,power.draw,power.limit,temperature.gpu,memory.used"

NEEDED = (
    "pytest", "experiments.orchestration.job", "data.cifar10", "data.shakespeare", "plots.figure.publish",
    "benchmarks.train_step",
)  # fmt: skip
"""What items import, with all that these import."""

_SMALL = "task=digits task.model.width=2 epochs=2 device=cpu threads=1"
"""What makes a run one of seconds, whatever its task was."""

_ONCE = "results_dir={results_dir} checkpoint_every=100000 durable=false"
"""Of runs whose checkpoint is the one that a stop writes."""


@dataclass(frozen=True)
class Item:
    """A name, the command `python -m …`, what rehearsing adds to it, and after how many seconds it must have ended.

    Without the data set it is skipped, but for a rehearsal, which has scikit-learn's. One that replays a CUDA graph
    does without where the test of that, the first item, has not passed, and where it failed with it.
    """

    name: str
    command: str  # in which {results_dir} is filled in
    rehearsing: str = _SMALL
    limit: float = math.inf
    data: str = ""  # a module of `data` with a set that is not in scikit-learn
    has_graphs: bool = False


def _items() -> Iterator[Item]:
    tests = "pytest -p no:cacheprovider -m '' "
    yield Item("graphs", f"{tests}tests/experiments/test_graph.py -k 'replayed or memory'", "", limit=180)
    yield Item("tests", f"{tests}tests/experiments/test_graph.py", "", limit=180)
    devices = "benchmarks.devices file={results_dir}/devices.jsonl"
    tiny = "device=cpu rounds=8 task.model.width=2 cluster.workers=2"
    yield Item("devices", devices, tiny, limit=150, has_graphs=True)
    for precision in ("float32", "tf32", "bf16"):
        for algorithm in ("cd_adam", "ef21_both_ways"):
            command = f"benchmarks.train_step algorithm={algorithm} task.precision={precision}"
            name = f"train_step-{algorithm}-{precision}"
            yield Item(name, command, limit=240, data="cifar10", has_graphs=True)
    for figure, seeds in [
        ("figure_3", "0"), ("figure_1", "0"), ("figure_3", "0,1,2"), ("figure_1", "0,1,2"), ("figure_3_vgg16", "0"),
        ("figure_3_wrn16_4", "0"),
    ]:  # fmt: skip
        command = f"experiments.reproduce figure={figure} budget=full seeds=[{seeds}] jobs=1 {_ONCE}"
        name = f"{figure}-seeds-{seeds.replace(',', '-')}"
        yield Item(name, command, f"{_SMALL} task.precision=float32", data="cifar10", has_graphs=True)
    yield Item("one_rank", f"{tests}tests/cluster/test_one_rank.py -k cuda", "-k cpu", limit=240)
    # The first is nanoGPT's run, whose readme has 1.4697 as its best held-out loss.
    for algorithm, more in [
        ("adamw", "lr=0.001 update.beta2=0.99 weight_decay=0.1"), ("cd_adam", "lr=0.001"),
        ("onebit_adam", "lr=0.001"), ("ef21_both_ways", "lr=0.1"),
    ]:  # fmt: skip
        command = f"experiments.run task=text/shakespeare_base algorithm={algorithm} {more} {_ONCE}"
        yield Item(f"language-{algorithm}", command, data="shakespeare")
    yield Item("devices-all", f"{devices} all=true", tiny, has_graphs=True)


def main(arguments: list[str] | None = None) -> None:
    """The command line above. Ctrl-C and termination stop it as the deadline does, with status 130."""
    with exit_with_message():
        given = _keys(sys.argv[1:] if arguments is None else arguments)
        deadline = time.monotonic() + float(given["deadline"] or math.inf)
        results, rehearse = Path(given["results_dir"]).absolute(), given["rehearse"] == "true"
        if not (rehearse or torch.cuda.is_available()):
            raise UsageError("torch sees no CUDA GPU here; rehearse=true does the same, tiny and on the CPU")
        require_packages()
        results.mkdir(parents=True, exist_ok=True)
        try:
            said = [(item.name, do(item, results, rehearse, deadline)) for item in _items()]
        finally:
            if given["out"]:
                pack(results, Path(given["out"]))
        print(*(f"{name:<28} {status}" for name, status in said), sep="\n")


def do(item: Item, results: Path, rehearse: bool, deadline: float) -> str:
    """Bring an item to its end, as far as there is time. Returns how it ended and the last line that it said.

    Raises Interrupted where the user stopped it.
    """
    command = f"{item.command} {item.rehearsing}".strip() if rehearse else item.command
    without = f"{command} task.cuda_graphs=false"
    if _done(results, item.name) in (command, without):
        return "done before"
    folder = Path(os.environ.get("DATA_DIR", "data/downloads")).expanduser()
    if item.data and not rehearse and not _is_there(item.data, folder):
        return f"skipped: {item.data} is not in {folder}"
    if not item.has_graphs:
        return _attempt(item, command, results, deadline)
    if _done(results, "graphs") is not None:
        said = _attempt(item, command, results, deadline)
        if not said.startswith("failed"):
            return said
    return _attempt(item, without, results, deadline)


def _attempt(item: Item, command: str, results: Path, deadline: float) -> str:
    """What `do` returns, of this command."""
    # here, so that a package that it lacks is named before
    from experiments.orchestration.processes import Job, run_jobs

    record, log = (results / "items" / f"{item.name}.{ending}" for ending in ("json", "log"))
    time_left = deadline - time.monotonic() - RESERVE
    if time_left <= 0:
        return "skipped: no time is left"
    print(f"# {item.name}: python -m {command}", flush=True)
    words = [word.format(results_dir=results) for word in shlex.split(command)]
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    # A command that is killed has said what it could by then, and where it was.
    environment = {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"}
    call = sys.executable, [sys.executable, "-m", *words]
    job = Job(os.execv, call, log, lambda slot: environment)
    states, looked = [_state()], time.monotonic()

    def watch() -> None:
        nonlocal looked
        if time.monotonic() > looked + _EVERY:
            looked = time.monotonic()
            states[1:] = [_state()]
        if time.monotonic() > deadline:
            job.kill()

    stopped = run_jobs([job], 1, min(time_left, item.limit), lambda job: True, watch, print)
    status = "done" if job.code == 0 else "stopped" if job.timed_out or stopped else "failed"
    *_, last = ["", *filter(None, log.read_text(errors="replace").splitlines())]
    facts = {"command": command, "status": status, "exit_status": job.code, "seconds": round(job.seconds, 2)}
    here = {"torch": torch.__version__, "cuda": torch.version.cuda, "python": sys.version.split()[0]}
    record.write_text(json.dumps({**facts, **here, "card_before": states[0], "card_during": states[-1]}, indent=1))
    said = f"{status} after {job.seconds:.0f} s: {job.error() or last}"
    print(f"  {said}\n  {json.dumps(states[-1])}", flush=True)
    if stopped:
        raise Interrupted("stopped; the same command goes on")
    return said


def pack(results: Path, out: Path) -> None:
    """One archive of all results but checkpoints."""
    out.mkdir(parents=True, exist_ok=True)
    with tarfile.open(out / "gpu.tar.gz", "w:gz") as archive:
        archive.add(results, ".", filter=lambda file: None if Path(file.name).name == "checkpoint" else file)


def require_packages() -> None:
    """Raise UsageError where a package is missing that an item would end by."""
    for module in NEEDED:
        try:
            import_module(module)
        except ImportError as error:
            raise UsageError(
                f"{error.name or module}: missing here, or does not work ({error}), and the list needs it; "
                "docs/running.md says what has to be carried to a machine without a network"
            ) from error


def _done(results: Path, name: str) -> str | None:
    """The command by which an item was done; None where it was not."""
    with suppress(OSError, ValueError, KeyError):
        record = json.loads((results / "items" / f"{name}.json").read_text())
        return record["command"] if record["status"] == "done" else None
    return None


def _is_there(data: str, folder: Path) -> bool:
    """Whether a set is in a folder, in one of the forms that its module looks for or decoded."""
    module = import_module(f"data.{data}")
    places = [folder / place / form for place in ("", "cifar10", "text") for form in module.FORMS]
    return any(place.exists() for place in [*places, *folder.glob(f"cache/*-{module.SHA256[:12]}.npz")])


def _state() -> dict[str, Any]:
    """The card, its driver, power state, clocks, power and temperature; empty where nvidia-smi does not answer."""
    asked = ["nvidia-smi", f"--query-gpu={_STATE}", "--format=csv,noheader"]
    with suppress(OSError, subprocess.SubprocessError):
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=_EVERY, check=True)
        return dict(zip(_STATE.split(","), map(str.strip, answer.stdout.splitlines()[0].split(",")), strict=True))
    return {}


def _keys(arguments: list[str]) -> dict[str, str]:
    given = dict(KEYS)
    for word in arguments:
        key, _, value = word.partition("=")
        if key not in KEYS:
            raise UsageError(unknown(f"{key}: no such key", key, list(KEYS)))
        given[key] = value
    with suppress(ValueError):
        if not given["deadline"] or float(given["deadline"]) > 0:
            return given
    raise UsageError(f"deadline={given['deadline']}: seconds, a positive number")


if __name__ == "__main__":
    main()
