"""Seconds a round and peak memory over the number of workers, of coordinates and of rows, each with its exponent.

    python -m benchmarks.scale                          about two minutes; writes benchmarks/results/scale.md
    python -m benchmarks.scale long=true out=scale.md   up to 10⁸ coordinates and 10⁷ rows

CD-Adam on sparse synthetic data, one thread, every point in a process of its own: seconds are the least of three
rounds after the first, memory is the largest resident size over what the process had before it made data, so that
generator, data, vectors and what rounds take meanwhile are in it. What a run of that size holds at the least is
predicted beside it; a point that this prediction refuses stands in the table as refused. The exponent of a table is
the slope of a line through the logarithms of its last four points, the larger ones, where what a round and a process
cost of themselves counts least. The last table has the shapes of four LibSVM sets, url's and avazu's with fewer rows,
and the memory beside the vectors in units of the data's bytes in CSR. For Linux.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.machine import today_here
from common.errors import DataError, UsageError, exit_with_message
from common.files import atomic
from data.dataset import ENTRY
from data.limits import in_words
from experiments.cluster.ranks import Ranks
from experiments.config.run import load_run
from experiments.training.build import build_trainer
from experiments.training.memory import vectors
from experiments.training.trainer import Trainer

OUT = Path(__file__).parent / "results" / "scale.md"
FITTED = 4  # points


@dataclass(frozen=True)
class Problem:
    """N rows of d features, so many of them not zero, over n workers."""

    rows: int
    features: int
    entries: int
    workers: int

    @property
    def csr(self) -> int:
        """Bytes of the data in CSR."""
        return self.rows * self.entries * ENTRY + 4 * (self.rows + 1)


class Point(NamedTuple):
    """What was measured of a problem."""

    seconds: float  # a round
    peak: int  # bytes
    predicted: int


def tables(is_long: bool) -> dict[str, list[Problem]]:
    """The problems of each table, by what grows in it."""
    powers = {"workers": (4, 4), "features": (7, 8), "rows": (6, 7)}
    upto = {name: long if is_long else short for name, (short, long) in powers.items()}
    return {
        "workers": [Problem(20_000, 100, 10, 10**k) for k in range(upto["workers"] + 1)],
        "features": [Problem(1000, 10**k, 100, 2) for k in range(3, upto["features"] + 1)],
        "rows": [Problem(10**k, 1000, 10, 8) for k in range(4, upto["rows"] + 1)],
    }


SHAPES = {
    "rcv1": Problem(20_242, 47_236, 74, 4),
    "news20": Problem(19_996, 1_355_191, 455, 4),
    "url, a twentieth of its rows": Problem(119_806, 3_231_961, 116, 2),
    "avazu, a fortieth of its rows": Problem(1_000_000, 1_000_000, 15, 4),
}


def main(arguments: list[str] | None = None) -> None:
    """The command lines above, and `--point` with a problem's four numbers for one point of them."""
    given = sys.argv[1:] if arguments is None else arguments
    with exit_with_message():
        if given[:1] == ["--point"]:
            print(*measured(Problem(*map(int, given[1:]))))
            return
        keys = dict(word.partition("=")[::2] for word in given)
        if set(keys) - {"long", "out"}:
            raise UsageError(f"{' '.join(given)}: keys are long=true and out=FILE")
        text = _report(keys.get("long") == "true")
        target = Path(keys.get("out", OUT))
        with atomic(target) as temporary:
            temporary.write_text(text)
        print(f"written: {target}")


def measured(problem: Problem) -> Point:
    """What a problem takes in this process. Raises DataError where memory does not suffice."""
    _trained(Problem(100, 50, 5, 2))  # what is loaded once
    before = _resident("VmRSS")
    trainer, seconds = _trained(problem)
    peak = _resident("VmHWM") - before
    least = vectors(trainer.cluster, problem.features, trainer.task.dtype, trials=1)
    return Point(seconds, peak, least + trainer.task.nbytes(problem.workers))


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The slope of the least-squares line through the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def _resident(name: str) -> int:
    """Bytes by a line of this process's status; what getrusage says can be of the process that started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(f"{name}:")).split()[1])


def _trained(problem: Problem) -> tuple[Trainer, float]:
    """A trainer after four rounds, and the seconds of the shortest but for the first."""
    data = {"rows": problem.rows, "features": problem.features, "density": problem.entries / problem.features}
    keys = (f"task.dataset.{name}={value}" for name, value in data.items())
    fixed = ["algorithm=cd_adam", "task=logreg/synthetic", "lr=0.001", "rounds=10", "threads=1"]
    trainer = build_trainer(load_run([*fixed, *keys, f"cluster.workers={problem.workers}"]), Ranks())
    taken = []
    for _ in range(4):
        begin = time.perf_counter()
        trainer.step()
        taken.append(time.perf_counter() - begin)
    return trainer, min(taken[1:])


def _report(is_long: bool) -> str:
    begin, load, lines = time.perf_counter(), os.getloadavg()[0], []
    for name, problems in tables(is_long).items():
        lines += _table(name, problems)
    lines += _shapes()
    head = [
        "# Seconds and memory by size",
        "",
        f"`python -m benchmarks.scale{' long=true' * is_long}` of {today_here(load)}; one thread, "
        f"{time.perf_counter() - begin:.0f} s in all.",
    ]
    return "\n".join([*head, *lines, ""])


def _table(name: str, problems: list[Problem]) -> list[str]:
    points = {problem: _point(problem) for problem in problems}
    fixed = [f"{key} {value:,}" for key, value in asdict(problems[0]).items() if key != name]
    lines = [
        *("", f"## {name.capitalize()}", "", ", ".join(fixed), ""),
        *(f"| {name} | seconds a round | peak memory | predicted, at the least |", "|---|---|---|---|"),
    ]
    for problem, point in points.items():
        cells = (
            [f"{point.seconds:.2g}", in_words(point.peak), in_words(point.predicted)] if point else ["refused"] * 3
        )
        lines.append(f"| {getattr(problem, name):,} | " + " | ".join(cells) + " |")
    found = [(getattr(problem, name), point) for problem, point in points.items() if point][-FITTED:]
    sizes = [size for size, _ in found]
    costs = [[point[column] for _, point in found] for column in (0, 1)]
    slopes = [f"{exponent(sizes, column):.2f}" for column in costs]
    lines.append(f"| **exponent** | {slopes[0]} | {slopes[1]} | |")
    return lines


def _shapes() -> list[str]:
    lines = ["", "## Shapes of LibSVM sets", ""]
    lines += [
        "| shape | n | CSR | vectors, at the least | peak memory | less the vectors, in CSR | seconds a round |"
    ]
    lines += ["|---|---|---|---|---|---|---|"]
    for name, problem in SHAPES.items():
        point = _point(problem)
        if point is None:
            lines.append(f"| {name} | {problem.workers} | {in_words(problem.csr)} | | refused | | |")
            continue
        held = point.predicted - 2 * problem.csr
        rest = (point.peak - held) / problem.csr
        lines.append(
            f"| {name} | {problem.workers} | {in_words(problem.csr)} | {in_words(held)} | {in_words(point.peak)} | "
            f"{rest:.2f} | {point.seconds:.2g} |"
        )
    return lines


def _point(problem: Problem) -> Point | None:
    """Measured in a process of its own; None where it was refused."""
    numbers = map(str, asdict(problem).values())
    settings = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.scale", "--point", *numbers]
    done = subprocess.run(command, capture_output=True, text=True, env=settings)
    print(f"{problem}: {done.stdout.strip() or done.stderr.strip()}", flush=True)
    if done.returncode and " are free: " not in done.stderr:
        raise DataError(f"{problem} failed: {done.stderr.strip()}")
    if done.returncode:
        return None
    seconds, peak, predicted = done.stdout.split()
    return Point(float(seconds), int(peak), int(predicted))


if __name__ == "__main__":
    main()
