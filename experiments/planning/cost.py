"""What runs would cost, printed before any of them begins."""

import sys
from dataclasses import dataclass
from functools import partial

from rich.console import Console
from rich.filesize import decimal

from algorithms.core.bit_counter import BitCounter
from common import tables
from common.errors import RunError, Unavailable, UsageError
from common.progress import duration
from data.limits import free_memory
from experiments.cluster.launch import launch as place_of
from experiments.cluster.ranks import Ranks
from experiments.cluster.simulated import Simulated
from experiments.config import identity
from experiments.config.run import plain
from experiments.config.schema import LaunchConfig, RunConfig
from experiments.planning.estimate import Share, Trial, among, kind, trial
from experiments.run_store.folder import RunFolder
from experiments.run_store.parts import latest
from experiments.training.build import build_algorithm
from experiments.training.memory import vectors
from plots.runs import read
from plots.runs.variants import settings

_SETTINGS = ("task", "algorithm", "n", "seed", "lr", "rounds", "settings")
"""Said once where the runs do not differ in it, and a column where they do; n and rounds are then among the last."""


@dataclass(frozen=True)
class _Cost:
    """Of one run; nothing but its state where the rest is not known."""

    state: str
    known: bool = False
    up: int = 0  # bits of one worker over the whole run
    down: int = 0
    memory: int = 0  # bytes of a process's data and vectors
    seconds: float = 0.0  # from now on

    def row(self) -> list[str]:
        """As it stands in the table."""
        if not self.known:
            return [self.state, *"?????"]
        bits = [str(self.up), str(self.down), readable(self.up + self.down)]
        return [
            *(self.state, *bits),
            decimal(self.memory) if self.memory else "–",
            duration(self.seconds) if self.seconds else "–",
        ]


def show(runs: list[RunConfig], launch: LaunchConfig, console: Console) -> None:
    """Print what every run is, how far it is and what it takes, one a line, and the totals; train none of them.

    A few rounds of one run of each kind are timed here, on data that are fetched as a run would fetch them; where
    they cannot be had, what depends on them is a question mark. Of several ranks the first one prints.
    Raises UsageError or DataError where settings turn out not to fit the data.
    """
    place = place_of()
    if place:
        for run in runs:
            place.check(run.cluster.workers)
        if place.rank:
            return
    ranks = Share(place.size if place else launch.ranks)
    trials: dict[str, Trial | None] = {}
    costs, unknown = [], {}
    jobs, say = launch.jobs or 1, partial(print, file=sys.stderr)
    for run in runs:
        done = _done(run)
        if isinstance(done, int):
            if kind(run) not in trials:
                try:
                    trials[kind(run)] = trial(among(run, jobs), ranks, say)
                except (Unavailable, RunError, OSError) as error:
                    trials[kind(run)], unknown[run.task.name] = None, str(error).partition("\n")[0]
            done = _waiting(run, done, trials[kind(run)], ranks)
        costs.append(done)
    _table(runs, costs, console)
    for line in [
        *_totals(costs, jobs),
        *(f"? {name}: {reason}" for name, reason in unknown.items()),
    ]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def readable(bits: int) -> str:
    """A number of bits in words: 512 bit, 1.234 Gbit."""
    value = float(bits)
    for unit in ("bit", "kbit", "Mbit", "Gbit"):
        if value < 1000:
            return f"{value:.4g} {unit}"
        value /= 1000
    return f"{value:.4g} Tbit"


def _done(run: RunConfig) -> int | _Cost:
    """After how many rounds a run would go on, or what it cost where it is finished."""
    folder = RunFolder.of(run)
    try:
        if folder.is_finished():
            last = folder.summary()["trials"][0]["final"]
            return _Cost("finished", True, last["bits_up"], last["bits_down"])
    except (RunError, LookupError, TypeError):
        return _Cost("damaged")
    return latest(folder.path / "checkpoint") or 0


def _waiting(run: RunConfig, done: int, tried: Trial | None, ranks: Ranks) -> _Cost:
    state = f"at round {done}" if done else "to do"
    if tried is None:
        return _Cost(state)
    algorithm, meter = build_algorithm(run, tried.layout), BitCounter()
    try:
        algorithm.check(tried.d)
    except ValueError as error:
        raise UsageError(str(error)) from error
    for t in range(1, run.rounds + 1):
        meter.count(algorithm, tried.d, t, tried.dtype)
    cluster = Simulated(algorithm, len(ranks.ids(run.cluster.workers)), run.seed)
    memory = tried.data + vectors(cluster, tried.d, tried.dtype, len(run.lr))
    return _Cost(state, True, meter.bits_up, meter.bits_down, memory, tried.seconds(run, done))


def _table(runs: list[RunConfig], costs: list[_Cost], console: Console) -> None:
    described = [
        read.RunRecord(identity.folder(run), cost.state, plain(run)) for run, cost in zip(runs, costs, strict=True)
    ]
    differing = settings(described)
    lines = []
    for run in described:
        lrs, others = ",".join(map(str, run.lrs)), differing[run.folder] or "–"
        lines.append([run.task, run.algorithm, run.workers, run.seed, lrs, run.rounds, others])
    differ = [place for place in range(len(_SETTINGS)) if len({line[place] for line in lines}) > 1]
    same = [f"{name} {lines[0][place]}" for place, name in enumerate(_SETTINGS[:-1]) if place not in differ]
    columns = [place for place in differ if _SETTINGS[place] not in ("n", "rounds")]
    if same:
        console.print(f"all runs: {', '.join(same)}", markup=False, highlight=False, soft_wrap=True)
    headings = [*(_SETTINGS[place] for place in columns), "state", "bits up", "bits down", "both", "memory", "time"]
    rows = [[*(str(line[place]) for place in columns), *cost.row()] for line, cost in zip(lines, costs, strict=True)]
    tables.show(console, headings, rows)


def _totals(costs: list[_Cost], jobs: int) -> list[str]:
    known = [cost for cost in costs if cost.known]
    waiting = [cost for cost in costs if cost.state != "finished"]
    up, down = sum(cost.up for cost in known), sum(cost.down for cost in known)
    seconds = sum(cost.seconds for cost in known)
    at_best = max(seconds / jobs, *(cost.seconds for cost in known), 0)
    but = ", without those marked ?" if len(known) < len(costs) else ""
    whole = f"about {duration(seconds)} one after the other" if seconds else "none" if known else "unknown"
    is_tight = any(cost.memory > free_memory() for cost in known)
    parallel = f", {duration(at_best)} at best with jobs={jobs}" if jobs > 1 and seconds else ""
    return [
        f"{len(costs)} runs, {len(waiting)} of them to do",
        f"bits of one worker: {up} up, {down} down, {readable(up + down)} in all{but}",
        f"time: {whole}{parallel}{but}",
        *([f"memory: {decimal(free_memory())} are free, and runs that take more are refused"] if is_tight else []),
        "memory is that of a process's data and vectors, without images and activations; time is by a few rounds "
        "timed here, without starting processes and what ranks send each other",
    ]
