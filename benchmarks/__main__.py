"""The short benchmarks one after the other, and what they print as a dated table.

    DATA_DIR=FOLDER python -m benchmarks               writes benchmarks/results/bench.md
    DATA_DIR=FOLDER python -m benchmarks out=FILE

FOLDER has, or is given, w8a and CIFAR-10. `benchmarks.scale` and `benchmarks.network`, which write tables of their
own, and what needs a GPU are not among them.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.machine import today_here
from common.errors import exit_with_message
from common.files import atomic
from plots.request import parse, words

SHORT = (
    "study",
    "train_step task.model.width=8 task.batch_size=16 task.precision=float32 task.evaluation_rows=2500",
    "step",
)
"""With their arguments, in order."""
OUT = Path(__file__).parent / "results" / "bench.md"


def main(arguments: list[str] | None = None) -> None:
    """The command lines above."""
    with exit_with_message():
        asked = parse(words("benchmarks", __doc__, arguments, "key=value"), {"out": str(OUT)})
        lines = ["# What things cost", "", f"`make bench` of {today_here(os.getloadavg()[0])}."]
        failed = [command for command in SHORT if not _run(command, lines)]
        target = Path(asked["out"])
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic(target) as temporary:
            temporary.write_text("\n".join([*lines, ""]))
        print(f"written: {target}")
        if failed:
            sys.exit(f"failed: {', '.join(failed)}")


def _run(command: str, lines: list[str]) -> bool:
    """One benchmark, with what it prints among the lines. Returns whether it came to its end."""
    print(f"benchmarks.{command}", flush=True)
    name, *arguments = command.split()
    begin = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *arguments], stdout=subprocess.PIPE, text=True)
    print(done.stdout, flush=True)
    lines += ["", f"## {command}, {time.perf_counter() - begin:.0f} s", "", "```text", done.stdout.strip(), "```"]
    return done.returncode == 0


if __name__ == "__main__":
    main()
