"""Enter methods in a track of the leaderboard: tune each one, then train the chosen setting with every seed.

    python -m experiments.enter track=digits algorithm=cd_adam
    python -m experiments.enter track=digits algorithm=cd_adam,ef21 jobs=2
    python -m experiments.enter track=digits algorithm=all jobs=2 dry_run=true      only the plan and its time
    python -m experiments.enter track=digits algorithm=mine packages=[mine]

A track (conf/leaderboard) fixes the tasks, rounds, seeds and trials. A method's YAML declares its family and its
usual step size as `algorithm.entry`.

You may also set keys of the method (compressor=top_k, algorithm.beta2=0.99), folders (results_dir) and how runs start
(jobs). name=... names the entry, and label=... says what tables and pictures call it. seeds=[0,1] trains only these
of the track's seeds. After a stop the same command continues.

Every entry is a folder <results_dir>/leaderboard/<track>/<name>/. python -m experiments.check verifies it.
"""

import re
import sys
from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path

from common.errors import RunError, UsageError, exit_with_message
from common.progress import format_duration
from experiments.cluster.launch import read_launch
from experiments.cluster.ranks import Ranks
from experiments.config.compose import choices, packages_of, roots, split, value_of
from experiments.config.messages import refuse_misspelt
from experiments.config.run import LAUNCH, check_path_name, launch_of
from experiments.config.schema import UNCHANGING, LaunchConfig, RunConfig
from experiments.entries.candidate import Candidate
from experiments.entries.entry import Entry, write_entry
from experiments.entries.parts import parts_of
from experiments.entries.track import read_track
from experiments.entries.verify import memory, tasks_of
from experiments.orchestration import plan
from experiments.orchestration.sweep import run_all
from experiments.run_store.environment import environment
from experiments.training.build import build_algorithm, check
from plots.request import parse_words

_OWN = ("track", "algorithm", "name", "label", "seeds", "packages")
_METHOD = ("algorithm", "compressor", "update", "partition")

say = partial(print, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    given = parse_words("experiments.enter", __doc__, arguments)
    with exit_with_message():
        if read_launch() is not None:
            raise UsageError("start this command as one process; ranks=N gives every run N processes")
        usual = {key.name: key.default for key in fields(LaunchConfig)}
        asked = {key: value_of(key, given) for key in usual if value_of(key, given) is not None}
        launch = launch_of(usual | asked, is_sweep=False)
        candidates, seeds = read(given)
        fitting = plan_runs(candidates, seeds, launch)
        if not launch.dry_run:
            failed = [candidate.name for candidate in fitting if not enter(candidate, seeds, launch)]
            if failed:
                raise RunError(f"not entered: {', '.join(failed)}, see above; the same command continues")


def read(given: Sequence[str]) -> tuple[list[Candidate], list[int]]:
    """Return the candidates and seeds of a command line. Raises UsageError."""
    asked = {key: text for key, _, text in (word.partition("=") for word in given)}
    packages, algorithm = packages_of(given), asked.get("algorithm", "")
    of_runs = {key.name for key in fields(RunConfig)}
    own = list(dict.fromkeys([*_OWN, *_METHOD, *LAUNCH, *UNCHANGING]))
    refuse_misspelt((word for word in given if word.partition("=")[0] not in of_runs), own, roots(packages))
    if not algorithm or "track" not in asked:
        raise UsageError("give a method and a track, such as algorithm=cd_adam track=digits")
    track = read_track(asked["track"], packages)
    seeds = value_of("seeds", given)
    seeds = list(track.seeds) if seeds is None else seeds
    texts = list(map(str, seeds)) if isinstance(seeds, list) else []  # 1.0 and true are equal to the seed 1
    if not texts or len({*texts} & {*map(str, track.seeds)}) < len(texts):
        raise UsageError(
            f"seeds={asked['seeds']}: must be a list of seeds of the track, {list(track.seeds)}, each once"
        )
    algorithms = choices("algorithm", roots(packages)) if algorithm == "all" else algorithm.split(",")
    places, rest = split([word for word in given if word.partition("=")[0] not in (*_OWN, *LAUNCH)], UNCHANGING)
    for word in split(rest, _METHOD)[1]:
        raise UsageError(
            f"{word}: the track fixes this; set keys of {', '.join(_METHOD)}, and keys that change no numbers, "
            "such as jobs and results_dir"
        )
    for key in ("name", "label"):
        if key in asked and len(algorithms) > 1:
            raise UsageError(f"{key}={asked[key]}: is for one entry; leave it out to enter several methods")
    candidates = []
    for method in algorithms:
        name = asked.get("name") or re.sub(r"[^\w.+-]+", "-", "-".join([method, *rest])).strip("-")
        check_path_name(name, "name")
        if "/" in name:
            raise UsageError(f"name={name}: must not contain /")
        if (rest or name != method) and name in choices("algorithm", roots(packages)):
            raise UsageError(f"name={name}: is the name of a method; choose another name")
        candidates.append(Candidate(track, name, method, rest, places, packages, asked.get("label", "")))
    return candidates, seeds


def plan_runs(candidates: Sequence[Candidate], seeds: Sequence[int], launch: LaunchConfig) -> list[Candidate]:
    """Return the candidates that fit their tasks, and print how many runs they need and how long these take.

    Of several candidates, those that do not fit are left out, with a printed reason. A single one that does not fit
    raises UsageError.
    """
    timed: dict[str, plan.Trial] = {}
    fitting, seconds, number = [], 0.0, 0
    for candidate in candidates:
        try:
            first = {task: {key: values[0] for key, values in grid.items()} for task, grid in candidate.grids.items()}
            cells = [*candidate.trials(), *candidate.judged_runs(first, seeds)]  # all settings take equally long
            for run in (cell.run for cell in cells):
                check(run)
                kind = plan.kind(run)
                if kind not in timed:
                    timed[kind] = plan.run_trial(run, Ranks(launch.ranks), launch.jobs or 1, say)
                build_algorithm(run, timed[kind].layout).check(timed[kind].d)
                seconds += timed[kind].seconds(run)
        except (UsageError, ValueError) as error:
            if len(candidates) == 1:
                raise UsageError(f"{candidate.name}: {error}") from error
            say(f"not entered: {candidate.name}: {error}")
            continue
        fitting.append(candidate)
        number += len(cells)
    say(f"entries: {len(fitting)}; runs: {number}, about {format_duration(seconds)} one after another")
    return fitting


def enter(candidate: Candidate, seeds: Sequence[int], launch: LaunchConfig) -> bool:
    """Finish the runs of an entry and write it. If a run fails, print why and return False."""
    trials, track = candidate.trials(), candidate.track
    try:
        run_all(trials, launch, f"{candidate.name}: {len(trials)} trials")
        tasks = candidate.choose(candidate.rows(trials)[0])
        judged = candidate.judged_runs({task: chosen.setting for task, chosen in tasks.items()}, seeds)
        run_all(judged, launch, f"{candidate.name}: {len(judged)} judged runs")
    except RunError as error:
        say(f"{candidate.name}: {error}")
        return False
    rows, runs = candidate.rows([*trials, *judged])
    machines = [{key: run.environment[key] for key in (*environment(), "ranks", "device")} for run in runs]
    method = judged[0].run.algorithm
    entry = Entry(
        track=track.name,
        version=track.version,
        name=candidate.name,
        algorithm=candidate.algorithm,
        label=candidate.label or ", ".join([method.display["label"], *map(_shorten, candidate.overrides)]),
        color=method.display["color"],
        marker=method.display["marker"],
        family=method.entry.get("family", ""),
        overrides=list(candidate.overrides),
        packages=list(candidate.packages),
        parts=parts_of(judged[0].run),
        memory=memory(tasks_of(cell.run for cell in judged)),
        seeds=list(seeds),
        tasks=tasks,
        code={module: digest for run in runs for module, digest in run.code.items()},
        machines=[each for number, each in enumerate(machines) if each not in machines[:number]],
    )
    folder = Path(judged[0].run.results_dir, str(judged[0].run.study))
    write_entry(entry, rows, folder)
    for task, chosen in tasks.items():
        marks = ["at the edge of the grid" * (not chosen.inside), chosen.note]
        say(", ".join(filter(None, [f"{task}: {dict(chosen.setting)}", *marks])))
    say(f"entered: {folder}")
    return True


def _shorten(override: str) -> str:
    """Shorten an override for the label: compressor=bf16 to bf16, algorithm.period=30 to period=30."""
    key, _, value = override.lstrip("+").partition("=")
    return value if key in _METHOD else f"{key.removeprefix('algorithm.')}={value}"


if __name__ == "__main__":
    main()
