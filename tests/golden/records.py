"""Trajectories as JSON: `python -m tests.golden.records`, or with groups as arguments, writes the files anew."""

import hashlib
import json
import platform
import re
import sys
from pathlib import Path

import numpy as np
import scipy
import torch
from torch import Tensor

from experiments.cluster.ranks import Ranks
from experiments.config.run import load_run
from experiments.training.build import build_trainer
from tests.golden.cases import CASES

Record = dict[str, str | list | dict[str, list]]
"""A trajectory, as `record` makes it."""


LEFT_OUT = {"seconds", "mean_norm"}
"""What is a machine's own, and columns that the recorded trajectories do not have."""


def trained(overrides: list[str]) -> Record:
    """The record of the run of a command line on one thread: the only lines that call the harness."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        run = load_run(overrides)
        trainer = build_trainer(run, Ranks())
        rows = trainer.evaluate()
        for t in range(1, trainer.rounds + 1):
            due = run.is_due(t)
            trainer.step(diagnose=due)
            if due:
                rows += trainer.evaluate()
    finally:
        torch.set_num_threads(threads)
    kept = [{name: value for name, value in row.items() if name not in LEFT_OUT} for row in rows]
    return record(kept, trainer.state.replica.x)


def record(rows: list[dict[str, float | int | None]], x: Tensor) -> Record:
    """Rows by column, None where one has no value, and x by hash and first coordinates; floats as `float.hex`."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {
        "dtype": str(x.dtype),
        "columns": {name: [_exact(row.get(name)) for row in rows] for name in names},
        "x_sha256": hashlib.sha256(x.contiguous().numpy().tobytes()).hexdigest(),
        "x": [_exact(value) for value in x.flatten()[:8].tolist()],
    }


def machine() -> dict[str, str]:
    """What the last bits depend on."""
    return {
        "processor": _processor(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }


def read(group: str) -> dict:
    """The file of a group: `machine`, and `cases` by id."""
    return json.loads(_path(group).read_text())


def write(group: str, cases: dict[str, Record]) -> None:
    """Replace the file of a group, with a line a column so that a difference can be read."""
    text = json.dumps({"machine": machine(), "cases": cases}, indent=1)
    _path(group).write_text(re.sub(r"\[[^]]*\]", lambda values: json.dumps(json.loads(values[0])), text) + "\n")


def _path(group: str) -> Path:
    return Path(__file__).parent / f"{group}.json"


def _exact(value: float | int | None) -> str | int | None:
    return value.hex() if isinstance(value, float) else value


def _processor() -> str:
    """The model of the CPU, with the numbers that tell apart those of one name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    facts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    numbers = [f"{name} {facts[name]}" for name in ("cpu family", "model", "stepping") if name in facts]
    return ", ".join([facts.get("model name", platform.machine()), *numbers])


if __name__ == "__main__":
    for chosen in sys.argv[1:] or CASES:
        write(chosen, {name: trained(overrides) for name, overrides in CASES[chosen].items()})
