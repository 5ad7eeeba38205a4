"""Enter methods to a track of the leaderboard: tune each one, then train what was chosen with every seed.

    python -m experiments.enter track=digits algorithm=cd_adam
    python -m experiments.enter track=digits algorithm=cd_adam,ef21 jobs=2
    python -m experiments.enter track=digits algorithm=all jobs=2 dry_run=true      the plan and its time alone
    python -m experiments.enter track=digits algorithm=mine packages=[mine]

A track (conf/leaderboard) fixes the tasks, rounds, seeds and trials. A method's YAML declares its family and its step
size as `algorithm.entry`. Further keys are those of the method, such as compressor=top_k or algorithm.beta2=0.99, of
places, such as results_dir, and of how runs start, such as jobs. name=... names the entry; seeds=[0,1] trains some of
the track's seeds first. The same command continues what was stopped.

Every entry is a folder <results_dir>/leaderboard/<track>/<name>/. python -m experiments.check verifies it.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from common.errors import RunError, UsageError, exit_with_message
from common.progress import duration
from experiments.cluster.launch import launch as place_of
from experiments.config import identity
from experiments.config.compose import choices, compose, packages_of, parse, resolve, roots, split, value_of
from experiments.config.messages import explain_hydra_errors
from experiments.config.run import LAUNCH, launch_of, path_name
from experiments.config.schema import LaunchConfig, RunConfig, about
from experiments.entries.candidate import Attempt, Candidate, choose, rows_of
from experiments.entries.entry import Chosen, Entry, write
from experiments.entries.track import read_track
from experiments.orchestration import plan
from experiments.orchestration.study import cells
from experiments.orchestration.sweep import run_all
from experiments.run_store.environment import environment
from experiments.training.build import build_algorithm, check
from plots.request import words
from plots.runs.read import RunRecord

_METHOD = ("algorithm", "compressor", "update", "partition")
_PLACES = tuple(one.name for one in fields(RunConfig) if about(one).affects in ("place", "look"))

say = partial(print, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line above."""
    given = words("experiments.enter", __doc__, arguments)
    with exit_with_message():
        if place_of() is not None:
            raise UsageError("one process chooses what is judged; start it alone, with ranks=N for N processes a run")
        with explain_hydra_errors(given):
            launch = launch_of(resolve(compose(split(given, LAUNCH)[0])))
        seeds, candidates = read(given)
        candidates = planned(candidates, seeds, launch, is_strict=value_of("algorithm", given) != "all")
        if not launch.dry_run:
            failed = [name for name, candidate in candidates.items() if not enter(name, candidate, seeds, launch)]
            if failed:
                raise RunError(f"not entered: {', '.join(failed)}, see above; the same command goes on")


def read(given: Sequence[str]) -> tuple[list[int], dict[str, Candidate]]:
    """The seeds and, by the names of their entries, the candidates of a command line. Raises UsageError."""
    packages = packages_of(given)
    asked = {key: value_of(key, given) for key in ("track", "name", "seeds")}
    known = choices("algorithm", roots(packages))
    texts = [text for text in given if not parse(text).is_sweep_override()]
    [named] = [text.partition("=")[2] for text in given if text.startswith("algorithm=")] or [""]
    algorithms = known if named == "all" else [name for name in named.split(",") if name]
    if not algorithms or asked["track"] is None:
        raise UsageError("which method, and where? algorithm=cd_adam track=digits")
    track = read_track(str(asked["track"]), packages)
    seeds = list(track.seeds) if asked["seeds"] is None else asked["seeds"]
    if not isinstance(seeds, list) or not seeds or not set(seeds) <= set(track.seeds):
        raise UsageError(f"seeds={seeds}: must be a list of the track's {list(track.seeds)}")
    rest = [text for text in texts if parse(text).key_or_group not in (*asked, "packages", "algorithm", *LAUNCH)]
    places, rest = split(rest, _PLACES)
    for text in split(rest, _METHOD)[1]:
        raise UsageError(f"{text}: the track fixes this; keys of {', '.join(_METHOD)} and of places may be set")
    found = {}
    for algorithm in algorithms:
        name = str(asked["name"] or re.sub(r"[^\w.+-]+", "-", "-".join([algorithm, *rest])).strip("-"))
        path_name(name, "name")
        found[name] = Candidate(track, algorithm, tuple(rest), tuple(places), tuple(packages))
    if len(found) < len(algorithms):
        raise UsageError(f"name={asked['name']}: names one entry; leave it out where several methods are entered")
    return seeds, found


def planned(
    candidates: Mapping[str, Candidate], seeds: Sequence[int], launch: LaunchConfig, is_strict: bool
) -> dict[str, Candidate]:
    """The candidates whose runs fit their tasks, after saying how many runs these are, and how long they take.

    Raises UsageError for the others where `is_strict`; else says why they are left out.
    """
    timed: dict[str, plan.Trial] = {}
    fitting, seconds, number = {}, 0.0, 0
    for name, candidate in candidates.items():
        try:
            attempts = candidate.trials()
            first = {attempt.run.task.name: attempt.setting for attempt in reversed(attempts)}
            attempts += candidate.judged(first, seeds)  # as long as those with the settings that will be chosen
            for attempt in attempts:
                check(attempt.run)
                kind = plan.kind(attempt.run)
                if kind not in timed:
                    timed[kind] = plan.trial(attempt.run, plan.Share(launch.ranks), launch.jobs or 1, say)
                build_algorithm(attempt.run, timed[kind].layout).check(timed[kind].d)
                seconds += timed[kind].seconds(attempt.run)
        except (UsageError, ValueError) as error:
            if is_strict:
                raise UsageError(f"{name}: {error}") from error
            say(f"not entered: {name}: {error}")
            continue
        fitting[name], number = candidate, number + len(attempts)
    say(f"{len(fitting)} entries, {number} runs, about {duration(seconds)} one after the other")
    return fitting


def enter(name: str, candidate: Candidate, seeds: Sequence[int], launch: LaunchConfig) -> bool:
    """Bring the runs of an entry to their ends, and write it. Returns False, and says why, where one fails."""
    track = candidate.track
    study = f"leaderboard/{track.name}/{name}"

    def bring(attempts: Sequence[Attempt]) -> None:
        lines = [[f"task={one.run.task.name}", *one.words.split(), f"seed={one.run.seed}"] for one in attempts]
        run_all(cells(lines, [one.run for one in attempts], study), launch, f"{study}: {len(attempts)} runs")

    try:
        trials = candidate.trials()
        bring(trials)
        rows = rows_of(trials)[0]
        found = {
            task: choose(rows[rows["task"] == task], goal.metric, candidate.grids[task])
            for task, goal in track.tasks.items()
        }
        judged = candidate.judged({task: setting for task, (setting, *_) in found.items()}, seeds)
        bring(judged)
    except RunError as error:
        say(f"{name}: {error}")
        return False
    rows, runs = rows_of([*trials, *judged])
    method = judged[0].run.algorithm
    entry = Entry(
        track=track.name,
        version=track.version,
        name=name,
        algorithm=candidate.algorithm,
        label=", ".join([method.display["label"], *candidate.overrides]),
        color=method.display["color"],
        marker=method.display["marker"],
        family=method.entry.get("family", ""),
        overrides=list(candidate.overrides),
        packages=list(candidate.packages),
        seeds=list(seeds),
        tasks={
            task: Chosen(setting=setting, tried=candidate.grids[task], inside=inside, note=note, config=config)
            for (task, (setting, inside, note)), config in zip(found.items(), configs(judged), strict=True)
        },
        code={module: digest for run in runs for module, digest in run.code.items()},
        machines=machines(runs),
    )
    write(entry, rows, Path(judged[0].run.results_dir, study))
    return True


def configs(judged: Sequence[Attempt]) -> list[dict[str, Any]]:
    """What the numbers of each task's runs depend on, besides what was tuned and the seed."""
    first = {one.run.task.name: one for one in reversed(judged)}
    return [
        {key: value for key, value in identity.settings(one.run).items() if key not in ("lr", "seed")}
        for one in reversed(first.values())
    ]


def machines(runs: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """The distinct environments of runs."""
    found: list[dict[str, Any]] = []
    for run in runs:
        one = {key: run.environment[key] for key in (*environment(), "ranks", "device")}
        found += [one] * (one not in found)
    return found


if __name__ == "__main__":
    main()
