"""Rank the entries of a track of the leaderboard, those in results-reference together with yours.

    python -m experiments.leaderboard                       every track that has entries
    python -m experiments.leaderboard track=digits
    python -m experiments.leaderboard track=digits results_dir=elsewhere out=paper

track          one, or several separated by commas
results_dir    the folder of your entries; yours replaces a committed one of its name, unless it has fewer seeds
out            a folder for the tables, pictures and page of each track; by default <results_dir>/rankings
packages       [mine] also finds the tracks of your package

In Python the table is `ranking(track)`: `from experiments import leaderboard`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
import yaml
from rich.console import Console

from common import tables
from common.errors import UsageError
from experiments.config.compose import CONF, choices, packages_of, roots
from experiments.entries.entry import Entry, find_entries, read_with_rows
from experiments.entries.track import Track, read_track
from experiments.figures.committed import PLACE
from plots.leaderboard import claims, statistics
from plots.leaderboard.ranking import ALL, Levels, in_words, needs_by_level, rank
from plots.request import open_request, require_folder

DEFAULTS = {"track": "", "results_dir": "results", "out": "", "packages": "[]"}


def main(arguments: Sequence[str] | None = None) -> None:
    with open_request("experiments.leaderboard", __doc__, arguments, DEFAULTS) as request:
        results_dir, tracks = request["results_dir"], [name for name in request["track"].split(",") if name]
        packages = packages_of([f"packages={request['packages']}"])
        known = dict.fromkeys(choices("leaderboard", roots(packages)))
        _require_results(results_dir)
        names = tracks or [name for name in known if _folders(name, results_dir)]
        if not names:
            raise UsageError(f"{results_dir}: has no entries; python -m experiments.enter track=digits makes one")
        place = Path(request["out"] or Path(results_dir, "rankings"))
        for name in names:
            try:
                show(read_track(name, packages), results_dir, place / name)
            except UsageError as error:
                if len(names) == 1:
                    raise
                print(error)


def ranking(track: str, results_dir: str | Path = "results", packages: Sequence[str] = ()) -> pd.DataFrame:
    """Return a track's ranking: a row for each level, task and entry, with columns of
    `plots.leaderboard.ranking.rank`.

    Raises UsageError for an unknown track or one without entries.
    """
    rules = read_track(track, packages)
    frame, goals = rows(rules, entries(rules, results_dir)), goals_of(rules)
    return rank(frame, goals, needs_by_level(frame, goals), len(rules.seeds))[0]


def show(track: Track, results_dir: str | Path, target: Path) -> None:
    """Print a track's ranking and write its files into the folder `target`. Raises UsageError without entries."""
    from plots.leaderboard.publish import publish  # takes a second to import

    console = Console(soft_wrap=True, highlight=False, markup=False)
    frame, goals = rows(track, entries(track, results_dir)), goals_of(track)
    levels = needs_by_level(frame, goals)
    ranked, pairs = rank(frame, goals, levels, len(track.seeds))
    verdicts = judge_claims(levels)
    for level in ranked["level"].unique():
        targets = ", ".join(f"{task} {goals[task][0]} {target:g}" for task, target in levels[level - 1][0].items())
        console.print(f"{track.name}, level {level}: {targets}", style="bold")
        text = in_words(ranked[(ranked["task"] == ALL) & (ranked["level"] == level)])
        tables.print_table(console, list(map(str, text)), text.to_numpy().tolist())
        if ranked["note"].any():
            console.print("* has a note in ranking.csv, for example that the best step size is the largest tried")
        console.print(f"{_summarize_pairs(pairs[pairs['level'] == level])}\n")
        table = verdicts[verdicts["level"] == level].drop(columns="level")
        if not table.empty:
            console.print(f"Claims of papers, level {level}:")
            tables.print_table(console, list(table), table.to_numpy().tolist())
            console.print()
    publish(track.name, frame, ranked, pairs, verdicts, goals, levels, target)
    console.print(f"tables, pictures and page: {target}")


def judge_claims(levels: Levels) -> pd.DataFrame:
    """Judge the claims of methods' papers, see `plots.leaderboard.claims.judge`."""
    listed = yaml.safe_load((CONF / "leaderboard/_claims.yaml").read_text())
    return claims.judge(levels, map(claims.BitsClaim.model_validate, listed))


def _summarize_pairs(pairs: pd.DataFrame) -> str:
    """Return a sentence: the pairs of entries per verdict, the pairs of runs, and how many a verdict needs."""
    if pairs.empty:
        return "Only one entry; there is nothing to compare."
    counts = "; ".join(f"{verdict}: {count}" for verdict, count in pairs["verdict"].value_counts().items())
    least = statistics.least_pairs(len(pairs))
    return f"Pairs of entries: {len(pairs)}. {counts}. Runs to pair: {pairs['pairs'].max()}; a verdict takes {least}."


def entries(track: Track, results_dir: str | Path) -> dict[str, tuple[Entry, pd.DataFrame]]:
    """Return a track's entries and their rows, by name.

    Your entry replaces the committed one of its name, unless it has fewer seeds. Damaged entries, copies and entries
    of other versions are left out, with a printed reason. Raises UsageError if none is left.
    """
    found: dict[str, tuple[Entry, pd.DataFrame]] = {}
    for folder in _folders(track.name, results_dir):
        try:
            entry, frame = read_with_rows(folder)
        except (OSError, ValueError) as error:
            print(f"left out: {folder}: {error}")
            continue
        if entry.version != track.version:
            print(f"left out: {folder}: has version {entry.version} of the track, which is now {track.version}")
        elif entry.name != folder.name:
            print(f"left out: {folder}: is the entry {entry.name}; a copy does not count")
        elif entry.name in found and len(entry.seeds) < len(found[entry.name][0].seeds):
            print(f"left out: {folder}: has fewer seeds than the committed entry")
        else:
            found[entry.name] = entry, frame
    if not found:
        raise UsageError(f"track={track.name}: no entries; python -m experiments.enter makes one")
    return found


def rows(track: Track, members: Mapping[str, tuple[Entry, pd.DataFrame]]) -> pd.DataFrame:
    """Return the judged rows of entries, in the form that `plots.leaderboard.ranking.rank` takes."""
    parts = []
    for name, (entry, frame) in members.items():
        looks = {"label": entry.label, "color": entry.color, "marker": entry.marker, "family": entry.family}
        looks |= {f"part.{part}": value for part, value in entry.parts.items()}
        about = {"algorithm": name, "memory": entry.memory, "note": _note(entry, track), **looks}
        parts.append(frame[frame["judged"]].assign(task_label=frame["task"], **about))
    return pd.concat(parts, ignore_index=True)


def _require_results(results_dir: str | Path) -> None:
    """Raise UsageError unless the folder exists. The default one is made by the first run."""
    if str(results_dir) != DEFAULTS["results_dir"]:
        require_folder("results_dir", results_dir)


def _folders(track: str, results_dir: str | Path) -> list[Path]:
    """The folders of a track's entries, the committed ones first. Raises UsageError for a missing folder."""
    _require_results(results_dir)
    places = [Path(place, "leaderboard", track) for place in (PLACE, results_dir)]
    return [folder for place in places for folder in find_entries(place) if folder.parent == place]


def _note(entry: Entry, track: Track) -> str:
    """Caveats about an entry's chosen settings and seeds."""
    edges = [f"{task}: best at the edge of the grid" for task, chosen in entry.tasks.items() if not chosen.inside]
    notes = [f"{task}: {chosen.note}" for task, chosen in entry.tasks.items() if chosen.note]
    few = [f"{len(entry.seeds)} of {len(track.seeds)} seeds"] if len(entry.seeds) < len(track.seeds) else []
    return "; ".join([*few, *edges, *notes])


def goals_of(track: Track) -> dict[str, tuple[str, Sequence[float]]]:
    return {task: (goal.metric, goal.levels) for task, goal in track.tasks.items()}


if __name__ == "__main__":
    main()
