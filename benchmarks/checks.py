"""What it costs that nothing is lost or wrong in silence: the share of a run's time that each check takes.

    python -m benchmarks.checks
    python -m benchmarks.checks task=digits task.model.width=64 rounds=20 eval_every=10 checkpoint_every=20
    torchrun --standalone --nproc-per-node 2 -m benchmarks.checks verify_every=1

Every check is timed where it is called, in the run itself, so that the shares are those of one run and its load. Time
counts from before the first round until the run's folder is finished; what is done once before it stands below, in
seconds. Not in the table is what no call is made for: the numbers that ride on the flag which ranks exchange anyway.
"""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path

from benchmarks import seconds as _  # noqa: F401 (experiments before torch)
from common.errors import exit_with_message
from experiments.config import identity
from experiments.config.run import load_run
from experiments.run_store import folder, parts
from experiments.training import runner
from experiments.training.session import train_here
from experiments.training.trainer import Trainer
from plots.runs import checksums

DEFAULT = ["task=logreg/breast_cancer", "algorithm=cd_adam", "rounds=5000", "threads=1"]

IN_ROUNDS = {
    "CRC-32 of rows and files": (checksums, "crc32"),
    "the rows are as this process left them": (folder.RunFolder, "_require_as_left"),
    "all that is remembered is finite": (Trainer, "_check_state"),
    "SHA-256 of checkpoints": (parts, "_digest"),
    "CRC-32 of x and signal, compared by ranks": (Trainer, "fingerprints"),
    "waiting for the disk (durable)": (os, "fsync"),
}
BEFORE = {
    "digests of the code": (identity, "code"),
    "what the folder holds, verified": (folder.RunFolder, "is_finished"),
    "settings, code and versions, compared by ranks": (runner, "_command"),
}
WHOLE = {"rounds": (runner, "_train")}


class Clock:
    """The seconds spent in named functions, each in all its calls."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}

    def watch(self, name: str, owner: object, attribute: str) -> None:
        """Let a function of a module or class count from now on."""
        call: Callable[..., object] = getattr(owner, attribute)
        self.spent[name] = 0.0

        @wraps(call)
        def timed(*arguments: object, **named: object) -> object:
            begin = time.perf_counter()
            try:
                return call(*arguments, **named)
            finally:
                self.spent[name] += time.perf_counter() - begin

        setattr(owner, attribute, timed)


def main() -> None:
    """Print the shares for the overrides on the command line."""
    clock = Clock()
    for name, place in {**IN_ROUNDS, **BEFORE, **WHOLE}.items():
        clock.watch(name, *place)
    overrides = [*DEFAULT, *sys.argv[1:]]
    # One folder for all ranks of a launch, which have a port in common.
    results = Path(tempfile.gettempdir(), f"checks-{os.environ.get('MASTER_PORT', os.getpid())}")
    finished = train_here(load_run([*overrides, f"results_dir={results}"]))
    if finished is None:
        return
    shutil.rmtree(results)
    whole = clock.spent["rounds"]
    print(f"\n{' '.join(overrides)}, load {os.getloadavg()[0]:.1f}\n{whole:.2f} s\n")
    print("| check | ms | % of the time |\n|---|---|---|")
    for name in IN_ROUNDS:
        print(f"| {name} | {1e3 * clock.spent[name]:.2f} | {100 * clock.spent[name] / whole:.3f} |")
    checks = sum(clock.spent[name] for name in list(IN_ROUNDS)[:-1])
    print(f"| all but the last | {1e3 * checks:.2f} | {100 * checks / whole:.3f} |\n\nonce, before:\n")
    for name in BEFORE:
        print(f"  {clock.spent[name]:.3f} s  {name}")


if __name__ == "__main__":
    with exit_with_message():
        main()
