"""Seconds a round and peak memory over the number of workers, of coordinates and of rows, each with its exponent.

    python -m benchmarks.scale              about two minutes
    python -m benchmarks.scale long=true    up to 10⁸ coordinates and 10⁷ rows; writes results/scale.md here

CD-Adam on sparse synthetic data, one thread, every point in a process of its own. Seconds are the least of three
rounds after the first. Memory is the largest resident size over what the process had before it made data. Beside it
stands what a run of that size holds at the least; a point that this prediction refuses is `refused`. The exponent is
the slope of a line through the logarithms of the last four points. The last table has the shapes of four LibSVM sets,
url's and avazu's with fewer rows. Its last column is memory beside the vectors, in bytes of the data in CSR.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks import markdown, today_here
from common.errors import DataError, exit_with_message
from data.dataset import ENTRY
from data.limits import in_words
from experiments.cluster.ranks import Ranks
from experiments.config.run import load_run
from experiments.training.build import build_trainer
from experiments.training.memory import vectors
from experiments.training.trainer import Trainer
from plots.request import chosen, parse, words

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


def tables(is_long: bool) -> dict[str, dict[str, Problem]]:
    """The problems of each table, by what grows in it."""
    features, rows = (8, 7) if is_long else (7, 6)
    return {
        "workers": {f"{10**k:,}": Problem(20_000, 100, 10, 10**k) for k in range(5)},
        "features": {f"{10**k:,}": Problem(1000, 10**k, 100, 2) for k in range(3, features + 1)},
        "rows": {f"{10**k:,}": Problem(10**k, 1000, 10, 8) for k in range(4, rows + 1)},
        "shape": {
            "rcv1": Problem(20_242, 47_236, 74, 4),
            "news20": Problem(19_996, 1_355_191, 455, 4),
            "url, a twentieth of its rows": Problem(119_806, 3_231_961, 116, 2),
            "avazu, a fortieth of its rows": Problem(1_000_000, 1_000_000, 15, 4),
        },
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """The command lines above, and `point=` with a problem's four numbers for one of them."""
    with exit_with_message():
        request = parse(words("benchmarks.scale", __doc__, arguments), {"long": "false", "point": "none"})
        if request["point"] != "none":
            print(*measured(Problem(*map(int, request["point"].split(",")))))
            return
        is_long = chosen("long", request["long"], ("true", "false")) == "true"
        text = f"# Seconds and memory by size\n\n{today_here(os.getloadavg()[0])}; one thread.\n"
        for name, problems in tables(is_long).items():
            text += f"\n{table(name, problems, {label: _point(problem) for label, problem in problems.items()})}\n"
        print(text)
        if is_long:
            OUT.write_text(text)


def measured(problem: Problem) -> Point:
    """What a problem takes in this process. Raises DataError where memory does not suffice."""
    _trained(Problem(100, 50, 5, 2))  # what is loaded once
    before = _resident("VmRSS")
    trainer, seconds = _trained(problem)
    peak = _resident("VmHWM") - before
    least = vectors(trainer.cluster, problem.features, trainer.task.dtype, trials=1)
    return Point(seconds, peak, least + trainer.task.nbytes(problem.workers))


def table(name: str, problems: dict[str, Problem], points: dict[str, Point | None]) -> str:
    """A row a problem; where a number grows the last row has the exponents."""
    rows = []
    for label, point in points.items():
        seconds = memory = least = rest = "refused"
        if point:
            csr = problems[label].csr
            seconds, memory, least = f"{point.seconds:.2g}", in_words(point.peak), in_words(point.predicted)
            rest = f"{(point.peak - point.predicted + 2 * csr) / csr:.2f}"
        rows.append(
            {name: label, "seconds a round": seconds, "peak memory": memory, "at the least": least, "in CSR": rest}
        )
    if name != "shape":
        fitted = [(getattr(problems[label], name), point) for label, point in points.items() if point][-FITTED:]
        slopes = [exponent([size for size, _ in fitted], [point[k] for _, point in fitted]) for k in (0, 1)]
        rows.append(dict(zip(rows[0], ["**exponent**", *(f"{slope:.2f}" for slope in slopes), "", ""], strict=True)))
    return markdown(rows)


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


def _point(problem: Problem) -> Point | None:
    """Measured in a process of its own; None where it was refused."""
    command = [sys.executable, "-m", "benchmarks.scale", f"point={','.join(map(str, astuple(problem)))}"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode and " are free: " not in done.stderr:
        raise DataError(f"{problem} failed: {done.stderr.strip()}")
    if done.returncode:
        return None
    seconds, peak, predicted = done.stdout.split()
    return Point(float(seconds), int(peak), int(predicted))


if __name__ == "__main__":
    main()
