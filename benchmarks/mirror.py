"""What the mirror to wandb costs a run with many rows: time, and memory of all processes.

    python -m benchmarks.mirror                    50,000 rows of a task whose rounds take a fraction of a millisecond
    python -m benchmarks.mirror rounds=5000 eval_every=10

Pairs of the same run with and without the mirror, offline, one right after the other and first by turns. A run's time
is that from its first round to its last, rows included; what it then waits for the mirror stands beside it. Times
mean something only where nothing else runs.
"""

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
from rich.console import Console

from common.errors import exit_with_message
from common.progress import Display
from experiments.config.run import load_run
from experiments.run_store.environment import environment
from experiments.training.build import check
from experiments.training.runner import bring_to_end

PAIRS = 5
DEFAULT = ["task=logreg/breast_cancer", "algorithm=cd_adam", "rounds=50000", "eval_every=1", "threads=1"]


class Clock(Display):
    """A display that shows nothing, and notes when rounds were done and what memory the processes had then."""

    def __init__(self, rounds: int) -> None:
        super().__init__(rounds, Console(quiet=True))
        self.times: list[float] = []  # of the first rounds and the latest
        self.memory: dict[int, dict[str, float]] = {}
        self._rounds = {rounds // 5, rounds}

    def advance(self, rounds: int) -> None:
        """So many more rounds are done."""
        super().advance(rounds)
        self.times[1:] = [time.perf_counter()]
        if self._done in self._rounds:
            self.memory[self._done] = memory()


def main() -> None:
    """Print the ratios for the overrides on the command line."""
    os.environ["WANDB_MODE"] = "offline"
    overrides = [*DEFAULT, *sys.argv[1:]]
    here = environment()
    print(f"{here['processor']}, {here['cores']} cores, load {os.getloadavg()[0]:.2f}; torch {torch.__version__}")
    print(" ".join(overrides), "\n")
    _once([*overrides, "rounds=100"], "wandb")  # warm-up
    ratios, held = [], {}
    print("| pair | ms a round without | with | ratio | s waited at the end |\n|---|---|---|---|---|")
    for pair in range(PAIRS):
        measured = {
            logger: _once(overrides, logger) for logger in (("none", "wandb") if pair % 2 else ("wandb", "none"))
        }
        (without, *_), (mirrored, waited, held) = measured["none"], measured["wandb"]
        ratios.append(mirrored / without)
        print(f"| {pair + 1} | {without:.4f} | {mirrored:.4f} | {ratios[-1]:.4f} | {waited:.1f} |", flush=True)
    print(f"\nwith to without, median: {statistics.median(ratios):.4f}\n\nMB of memory:\n")
    print(f"| process | {' | '.join(f'after {rounds} rounds' for rounds in held)} |\n|---|---|---|")
    for name in list(held.values())[-1]:
        print(f"| {name} | {' | '.join(f'{found.get(name, 0):.0f}' for found in held.values())} |")


def _once(overrides: list[str], logger: str) -> tuple[float, float, dict[int, dict[str, float]]]:
    """Milliseconds a round, seconds from the last round to the end, and memory by rounds."""
    with tempfile.TemporaryDirectory() as folder:
        run = load_run([*overrides, f"logger={logger}", f"results_dir={folder}"])
        check(run)
        clock = Clock(run.rounds)
        with clock:
            bring_to_end(run, clock)
        first, last = clock.times
        return 1e3 * (last - first) / run.rounds, time.perf_counter() - last, clock.memory


def memory() -> dict[str, float]:
    """Resident megabytes by process: this one, and those below it."""
    parents, names, sizes = {}, {}, {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        except OSError:  # it has just ended
            continue
        pid = int(status.parent.name)
        parents[pid], names[pid] = int(fields["PPid"]), fields["Name"].strip()
        sizes[pid] = int(fields.get("VmRSS", "0 kB").split()[0]) / 1024
    found = {"run": sizes[os.getpid()]}
    for pid, parent in parents.items():
        if parent == os.getpid():
            found["mirror"] = sizes[pid]
            found |= {names[below]: sizes[below] for below, its in parents.items() if its == pid}
    return found


if __name__ == "__main__":
    with exit_with_message():
        main()
