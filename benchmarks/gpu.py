"""Run a list of commands on a borrowed GPU, in order, until a deadline.

    make gpu DEADLINE=540 OUT=folder                                       540 seconds of it; the next call goes on
    python -m benchmarks.gpu deadline=540 out=folder                       the same without make
    python -m benchmarks.gpu rehearse=true results_dir=rehearsal           the same commands, tiny and on the CPU

A command that is done is skipped. One that was stopped or failed is started again. Its output and the card's state
are in <results_dir>/items/<name>.log. 30 seconds before the deadline the running command is asked to write its
checkpoint and end. `out` gets one archive of all results without checkpoints.
"""

import os
import shlex
import subprocess
import sys
import tarfile
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import torch

from common.errors import UsageError, exit_with_message
from plots.request import parse, words

ROOT = Path(__file__).resolve().parents[1]
RESERVE = 30.0  # seconds in which a command writes its checkpoint

_CARD = "name,driver_version,pstate,clocks.sm,clocks.mem,power.draw,power.limit,temperature.gpu,memory.used"
_SMALL = "task=digits task.model.width=2 epochs=2 device=cpu threads=1"
_ONCE = "results_dir={results} checkpoint_every=100000 durable=false"  # a stop writes the only checkpoint


class Item(NamedTuple):
    """A command `python -m …`; rehearsing it adds words. {results} in it becomes the results folder."""

    name: str
    command: str
    rehearsing: str = _SMALL


def items() -> list[Item]:
    """What a GPU is worth using for, in order."""
    tests = "pytest -p no:cacheprovider -m '' "
    devices, tiny = "benchmarks.devices file={results}/devices.jsonl", "device=cpu rounds=8 task.model.width=2"
    shakespeare = f"experiments.run task=text/shakespeare_base {_ONCE} algorithm="
    return [
        Item("tests", f"{tests}tests/experiments/test_graph.py", ""),
        Item("devices", devices, f"{tiny} cluster.workers=2"),
        *(
            Item(f"step-{method}-{precision}", f"benchmarks.train_step algorithm={method} task.precision={precision}")
            for precision in ("float32", "tf32", "bf16")
            for method in ("cd_adam", "ef21_both_ways")
        ),
        *(
            Item(
                f"{figure}-{seeds}",
                f"experiments.reproduce figure={figure} budget=full seeds=[{seeds}] jobs=1 {_ONCE}",
                f"{_SMALL} task.precision=float32",
            )
            for figure, seeds in [
                ("figure_3", "0"),
                ("figure_1", "0"),
                ("figure_3", "0,1,2"),
                ("figure_1", "0,1,2"),
                ("figure_3_vgg16", "0"),
                ("figure_3_wrn16_4", "0"),
            ]
        ),
        Item("one_rank", f"{tests}tests/cluster/test_one_rank.py -k cuda", "-k cpu"),
        # nanoGPT's run, whose readme has 1.4697 as its best held-out loss.
        Item("language-adamw", f"{shakespeare}adamw lr=0.001 update.beta2=0.99 weight_decay=0.1"),
        Item("language-cd_adam", f"{shakespeare}cd_adam lr=0.001"),
        Item("language-onebit_adam", f"{shakespeare}onebit_adam lr=0.001"),
        Item("language-ef21_both_ways", f"{shakespeare}ef21_both_ways lr=0.1"),
        Item("devices-all", f"{devices} all=true", f"{tiny} cluster.workers=2"),
    ]


def main(arguments: list[str] | None = None) -> None:
    """The command line above."""
    with exit_with_message():
        keys = {"deadline": "inf", "out": "", "results_dir": "results/gpu", "rehearse": "false"}
        given = parse(words("benchmarks.gpu", __doc__, arguments), keys)
        until = time.monotonic() + float(given["deadline"]) - RESERVE
        rehearse, results = given["rehearse"] == "true", Path(given["results_dir"]).absolute()
        if not (rehearse or torch.cuda.is_available()):
            raise UsageError("torch sees no CUDA GPU here; rehearse=true does the same, tiny and on the CPU")
        try:
            for name, command, rehearsing in items():
                print(f"{name}: {run(name, f'{command} {rehearsing * rehearse}', results, until)}", flush=True)
        finally:
            if given["out"]:
                pack(results, Path(given["out"]))


def run(name: str, command: str, results: Path, until: float) -> str:
    """Run an item's command unless it is done. Return how it ended, and its last line."""
    log, done = (results / "items" / f"{name}.{ending}" for ending in ("log", "done"))
    if done.exists() and done.read_text() == command:
        return "done before"
    if time.monotonic() >= until:
        return "no time is left"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as file:
        print(f"# python -m {command}\n# torch {torch.__version__}; {_card()}", file=file, flush=True)
        status = _status([word.format(results=results) for word in shlex.split(command)], file.fileno(), until)
        print(f"# {status}; {_card()}", file=file)
    if status == "done":
        done.write_text(command)
    return f"{status}: {log.read_text(errors='replace').splitlines()[-2]}"


def _status(words: list[str], log: int, until: float) -> str:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen([sys.executable, "-m", *words], stdout=log, stderr=log, env=environment)
    try:
        return "failed" if process.wait(until - time.monotonic()) else "done"
    except subprocess.TimeoutExpired:
        return "stopped"
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(RESERVE)
        process.kill()


def _card() -> str:
    """The card, its driver, power state, clocks, power and temperature."""
    with suppress(OSError):
        asked = ["nvidia-smi", f"--query-gpu={_CARD}", "--format=csv,noheader"]
        return subprocess.run(asked, capture_output=True, text=True).stdout.strip()
    return "no GPU"


def pack(results: Path, out: Path) -> None:
    """Write one archive of all results without checkpoints."""
    out.mkdir(parents=True, exist_ok=True)
    with tarfile.open(out / "gpu.tar.gz", "w:gz") as archive:
        archive.add(results, ".", filter=lambda file: None if Path(file.name).name == "checkpoint" else file)


if __name__ == "__main__":
    main()
