"""A results folder of many runs: what status, a picture and the page take of time and memory.

    python -m benchmarks.folders [RUNS]

Does one run of 50 evaluations and copies it, with other settings and values, into so many folders (2,000 unless said)
of a temporary place. Prints seconds and peak memory of `experiments.status`, `plots.plot` and `experiments.report`,
each as a command of its own, the ratio to a program that only reads the files, and the page's size.
"""

import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from plots.runs.checksums import renew

RUNS, ROUNDS = 2000, 490
TASKS, METHODS, LRS = 3, 8, (0.001, 0.003, 0.01, 0.03, 0.1)

READ = """
import os, sys
for folder, _, names in os.walk(sys.argv[1]):
    for name in names:
        open(os.path.join(folder, name), "rb").read()
"""
MEASURE = """
import resource, subprocess, sys, time
begin = time.perf_counter()
subprocess.run([sys.executable, *sys.argv[1:]], stdout=subprocess.DEVNULL, check=True)
print(time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
"""
"""In a small process: a command's memory counts from that of the one that starts it."""


def main() -> None:
    """Print the table."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    with TemporaryDirectory() as scratch:
        place, page = Path(scratch, "results"), Path(scratch, "page.html")
        _write(place, runs)
        commands = {
            "reading the files": ["-c", READ, str(place)],
            "status": ["-m", "experiments.status", str(place)],
            "plots.plot": ["-m", "plots.plot", f"results_dir={place}", f"out={scratch}/picture.png"],
            "report": ["-m", "experiments.report", f"results_dir={place}", f"out={page}"],
        }
        _cost(commands["reading the files"])  # so that the files are in memory
        costs = {name: _cost(command) for name, command in commands.items()}
        least, _ = costs["reading the files"]
        print(f"{os.cpu_count()} cores; {runs} runs of {ROUNDS // 10 + 1} evaluations")
        print(f"{'':20} {'seconds':>8} {'ratio':>6} {'peak memory (MB)':>17}")
        for name, (seconds, memory) in costs.items():
            print(f"{name:20} {seconds:>8.1f} {seconds / least:>6.1f} {memory:>17.0f}")
        print(f"the page has {page.stat().st_size / 1e6:.1f} MB")


def _write(place: Path, runs: int) -> None:
    """Folders of runs that differ in task, method, step size and seed."""
    run = [sys.executable, "-m", "experiments.run", "algorithm=cd_adam", "task=logreg/breast_cancer", "lr=0.001"]
    settings = [f"rounds={ROUNDS}", "eval_every=10", f"results_dir={place / 'source'}"]
    subprocess.run([*run, *settings], capture_output=True, check=True)
    [source] = (file.parent for file in place.glob("source/**/metrics.jsonl"))
    config, rows = yaml.safe_load((source / "config.yaml").read_text()), (source / "metrics.jsonl").read_text()
    for number in range(runs):
        seed, of = divmod(number, TASKS * METHODS * len(LRS))
        lr, task, method = LRS[of % len(LRS)], f"task{of // len(LRS) % TASKS}", f"method{of // len(LRS) // TASKS}"
        folder = place / task / method / sha256(str(number).encode()).hexdigest()[:12]
        shutil.copytree(source, folder, ignore=shutil.ignore_patterns("checkpoint"))
        config["task"]["name"], config["algorithm"]["name"] = task, method
        config |= {"seed": seed, "lr": [lr]}
        (folder / "config.yaml").write_text(yaml.dump(config, Dumper=yaml.CSafeDumper, sort_keys=False))
        (folder / "metrics.jsonl").write_text(rows.replace('"lr": 0.001', f'"lr": {lr}'))
        renew(folder)
    shutil.rmtree(place / "source")


def _cost(command: list[str]) -> tuple[float, float]:
    """Seconds that a command of Python takes, and the most memory that one of its processes held, in MB."""
    done = subprocess.run([sys.executable, "-c", MEASURE, *command], capture_output=True, text=True, check=True)
    seconds, memory = map(float, done.stdout.split())
    return seconds, memory


if __name__ == "__main__":
    main()
