"""List every run below a results folder: its state, progress and folder. It changes nothing.

    python -m experiments.status
    python -m experiments.status results other/results
    python -m experiments.status study=first algorithm=cd_adam,ef21 state=failed,interrupted

study, task, algorithm, seed and state choose among the runs, several separated by commas. State is one of finished,
running, interrupted, failed, gone (it says running, but its process has ended), missing (listed by a sweep, never
begun) and damaged. The metric is the one that selects step sizes, at the last row of the best step size. Outside a
terminal every run is one line: columns separated by tabs, the folder last.
"""

import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from rich.console import Console

from common import tables
from common.errors import escape_controls
from common.progress import format_duration
from experiments.run_store.code import find_edits, join_edits
from plots.request import parse, parse_words, report_errors, require_folder
from plots.runs.columns import higher_is_better
from plots.runs.find import CHOOSING, find, select
from plots.runs.read import STATES, RunRecord
from plots.runs.variants import settings

COLUMNS = ("state", "rounds", "bits", "metric", "left", "task", "algorithm", "n", "seed", "lr", "settings")
"""Columns of the table, before the run's folder or id."""


def main(arguments: Sequence[str] | None = None) -> None:
    given = parse_words("experiments.status", __doc__, arguments, "DIR | key=value")
    with report_errors():
        defaults = {**dict.fromkeys(CHOOSING, ""), "results_dir": "results"}
        request = parse([word for word in given if "=" in word], defaults)
        usual = request.pop("results_dir")
        places = [
            require_folder("results_dir", word) for word in [word for word in given if "=" not in word] or [usual]
        ]
        show([run for place in places for run in select(find(place), place, **request)], Console())


def show(runs: Sequence[RunRecord], console: Console) -> None:
    """Print a table of runs, their errors, and the number of runs in each state."""
    whole = not console.is_terminal  # lines may have any length there
    readable = sorted(
        (run for run in runs if run.config),
        key=lambda run: (run.task, run.algorithm, run.workers, run.seed, run.lrs, str(run.folder)),
    )
    differing = settings(readable)
    rows = [[*_cells(run, differing[run.folder]), str(run.folder) if whole else run.id] for run in readable]
    rows += [["damaged", *"–" * (len(COLUMNS) - 1), str(run.folder)] for run in runs if not run.config]
    lines: list[str] = []
    if rows and whole:
        tables.print_table(console, [*COLUMNS, "folder"], rows)
    elif rows:
        columns, rows, lines = tables.drop_common_columns([*COLUMNS, "id"], rows, ("state", "rounds"))
        tables.print_table(console, columns, rows)
    counts = Counter(run.state for run in runs)
    lines += [f"{run.folder}: {run.error}" for run in readable if run.error and run.state == "failed"]
    lines += [run.error for run in runs if run.state == "damaged"]
    lines += _other_code(readable)
    lines += [", ".join(f"{counts[state]} {state}" for state in STATES if counts[state]) or "no runs"]
    for line in lines:
        console.print(escape_controls(line), markup=False, highlight=False, soft_wrap=True)


def _cells(run: RunRecord, differing: str) -> list[str]:
    lrs = [f"{lr:g}" for lr in run.lrs]
    lr = " ".join(lrs) if len(lrs) < 4 else f"{lrs[0]} … {lrs[-1]}"
    done = run.rounds if run.is_finished else run.round
    left = _seconds_left(run)
    cells = (
        run.last[-1].get("bits") if run.last else None, _metric(run), left and format_duration(left), run.task,
        run.algorithm, run.workers, run.seed, lr or None, differing or None,
    )  # fmt: skip
    return [run.state, f"{done}/{run.rounds}", *("–" if cell is None else str(cell) for cell in cells)]


def _metric(run: RunRecord) -> str | None:
    name = run.metric
    if name is None:
        return None
    values = [row[name] for row in run.last if row.get(name) is not None]
    return f"{name} {(max if higher_is_better(name) else min)(values):.4g}"


def _seconds_left(run: RunRecord) -> float | None:
    """Estimate the seconds left from the pace since the run began or resumed."""
    if run.state != "running" or not run.last:
        return None
    begin = datetime.fromisoformat(run.status["time"]).timestamp()
    measured = (run.folder / "metrics.jsonl").stat().st_mtime
    last = run.last[-1]["round"]
    rounds = last - run.status.get("round", 0)
    if rounds <= 0 or measured <= begin:
        return None
    return max(1.0, (measured - begin) / rounds * (run.rounds - last) - (time.time() - measured))


def _other_code(runs: Sequence[RunRecord]) -> list[str]:
    lines: Counter[str] = Counter()
    for code, count in Counter(tuple(run.code.items()) for run in runs).items():
        if edits := find_edits(dict(code)):
            lines[join_edits(edits)] += count
    return [f"{count} of {len(runs)} runs are of other code: {edits}" for edits, count in lines.most_common()]


if __name__ == "__main__":
    main()
