"""Recommend a method for a network, from a track's entries and the model of time.

    python -m experiments.plan model=resnet18 workers=16 bandwidth=1Gbit latency=0.5ms step=80ms
    python -m experiments.plan d=25e6 workers=64 bandwidth=10Gbit step=200ms track=logreg level=2

model          a task of conf/task with a network; d: the number of parameters, if your model is none of these
bandwidth      of every link in each direction: kbit, Mbit or Gbit; a plain number is in Mbit/s
latency        one way, with the software's share of a message: ns, us, ms or s; a plain number is in ms
step           time that a worker computes in a round: forward, backward and AdamW's step; units as for latency
compressing    time to compress and decompress in a round, per parameter; by default 0
track          of the leaderboard; level: one of its levels, where 1 is the easiest; by default the hardest
results_dir    the folder of your entries

docs/planner.md explains what it prints. In Python: `plan(model="resnet18", workers=16, …)`.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from rich.console import Console
from scipy import stats
from torch import nn

from algorithms.comm.sharded_server import describe_exchange
from algorithms.compressors.base import Identity
from algorithms.compressors.floats import Cast
from algorithms.utils.layout import Layout, laid_out
from common import tables
from common.errors import UsageError
from common.names import explain_unknown
from experiments.config.classes import Classes
from experiments.config.compose import choices, roots
from experiments.config.run import load_run
from experiments.entries.candidate import Candidate
from experiments.entries.entry import Entry
from experiments.entries.track import Track, read_track
from experiments.leaderboard import entries, goals_of, rows
from experiments.models.flat import FlatModel
from experiments.training.build import build_algorithm
from plots.leaderboard import statistics
from plots.leaderboard.ranking import needs_by_level
from plots.request import open_request, parse, parse_network, parse_positive, require_choice
from plots.runs.network import Network, seconds

DEFAULTS = {
    "model": "", "d": "", "workers": "", "bandwidth": "", "latency": "0.1ms", "step": "", "compressing": "0ns",
    "track": "digits", "level": "", "results_dir": "results",
}  # fmt: skip

UNITS = {"Mbit": {"kbit": 1e-3, "mbit": 1.0, "gbit": 1e3}, "ms": {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}}
"""Factors of units, by the unit of a plain number."""

FORMS = {"rank0": "one server", "sharded": "sharded server", "ring": "ring all-reduce", "tree": "tree all-reduce"}

ERROR, TIE = 1.5, 1.25
"""ERROR: on links that were not fitted, nine of ten measured rounds were within this factor of their modelled time.
TIE: on fitted links, nine of ten measured ratios of two rounds were within this factor of the modelled ratio."""

LARGE = 2**24
"""Servers and exchanges are computed from at most this many parameters, because more would take much memory."""


def main(arguments: Sequence[str] | None = None) -> None:
    with open_request("experiments.plan", __doc__, arguments, DEFAULTS) as request:
        table, console = plan(**request), Console(soft_wrap=True, highlight=False, markup=False)
        text = table.head(5).map(lambda value: f"{value:.3g}" if isinstance(value, float) else str(value))
        text["seconds"] += " [" + text["low"] + ", " + text["high"] + "]"
        shown = text[["label", "form", "period", "round", "Mbit", "seconds", "verdict"]].replace(FORMS)
        heads = ["entry", "messages by", "rounds per exchange", "rounds", "Mbit per round", "seconds", "verdict"]
        tables.print_table(console, heads, shown.to_numpy().tolist())
        console.print("", *table.attrs["advice"], "", "Extrapolated or left out:", sep="\n")
        console.print(*(f"- {sentence}" for sentence in table.attrs["extrapolates"]), sep="\n")


def plan(**request: object) -> pd.DataFrame:
    """Return the entries that reach the level in all runs, the fastest first. Keywords are the keys of the command
    line.

    `seconds` has an interval, `low` and `high`. `round` and `Mbit` (of a round, both ways) are geometric means. `how`
    chooses the method. `verdict` is recommended, tie or slower. `attrs` has two lists of sentences: `advice` and
    `extrapolates`. Raises UsageError.
    """
    given = parse([f"{key}={value}" for key, value in request.items() if value != ""], DEFAULTS)
    if missing := [key for key in ("workers", "bandwidth", "step") if not given[key]]:
        raise UsageError(f"{missing[0]}=: not given; --help explains the keys")
    link = {"bandwidth": quantity("bandwidth", given["bandwidth"], "Mbit"), "workers": given["workers"]}
    link |= {"latency": quantity("latency", given["latency"]), "computing": quantity("step", given["step"])}
    where = parse_network({key: str(value) for key, value in link.items()}, prefix="")
    compressing, layout = quantity("compressing", given["compressing"]), layout_of(given["model"], given["d"])
    runs = contenders(given["track"], given["level"], layout, where.workers or 1, given["results_dir"])
    table = advise(times(runs, where, compressing))
    table.attrs["extrapolates"] = _extrapolations(runs, table, where, compressing)
    return table


def quantity(key: str, text: str, plain: str = "ms") -> float:
    """Read a number with a unit, in the unit `plain`: 1Gbit/s is 1000.0 Mbit. Raises UsageError."""
    match = re.fullmatch(r"(\d*\.?\d+(?:e[+-]?\d+)?)([a-z]*)(?:/s)?", text.lower())
    factor = UNITS[plain].get(match[2] or plain.lower()) if match else None
    if not match or not factor:
        units = ", ".join(UNITS[plain])
        raise UsageError(f"{key}={text}: must be a number and one of the units {units}; without one it is in {plain}")
    return float(match[1]) * factor


def layout_of(model: str, d: str) -> Layout:
    """Return the layout of a task's network, or of matrices with d parameters in all. Raises UsageError."""
    if bool(model) == bool(d):
        raise UsageError("model=, d=: give one of them, such as model=resnet18 or d=25e6")
    if d:
        total = math.ceil(parse_positive("d", d))
        side = 2 ** max(10, round(math.log2(total / 64) / 2))  # so that a large model has few matrices
        heights = [side] * (total // side**2) + [total % side**2 // side] * (total % side**2 >= side)
        matrices = [("matrix", (height, side), "matrix") for height in heights]
        return laid_out([*matrices, ("rest", (total % side,), "vector")])  # type: ignore[list-item]
    tasks = choices("task", roots([]))
    task = next((name for name in tasks if model in (name, name.rpartition("/")[2])), None)
    if task is None:
        raise UsageError(
            explain_unknown(f"model={model}: no such task; give d= for a model of your own", model, tasks)
        )
    node = load_run([f"task={task}"]).task.options.get("model")
    if node is None:
        raise UsageError(f"model={model}: this task has no network; give d=, or another task")
    return FlatModel(Classes().build(node, "model", nn.Module), "cpu").layout


def contenders(
    track: str, level: str, layout: Layout, workers: int, results_dir: str | Path = "results"
) -> pd.DataFrame:
    """Return the needs of runs to a level (see `statistics.needs`), for the entries that reach it in every run.

    Rounds are those of the entries. Messages are sized for a model of this layout. Some entries sent whole vectors in
    their own runs, such as PowerSGD without a matrix. They are left out if they send less here.
    Entries that do not fit the layout or the workers are left out, too.
    level: 1 is the easiest, "" the hardest. Raises UsageError, also if fewer than two entries are left.
    """
    rules = read_track(track)
    known = entries(rules, results_dir)
    levels = [pd.concat(needs.values()) for _, needs in needs_by_level(rows(rules, known), goals_of(rules))]
    level = require_choice("level", level or str(len(levels)), [str(number + 1) for number in range(len(levels))])
    needs = levels[int(level) - 1]
    reaches = needs["bits"].notna().groupby("algorithm").all()
    able = [entry for name, (entry, _) in known.items() if reaches.get(name)]
    parts, refused = {}, {}
    for entry in able:
        try:
            parts[entry.name] = _needs_for_model(needs, entry, rules, layout, workers)
        except UsageError as error:
            refused[entry.name] = str(error)
    dense = [name for name, part in parts.items() if _were_denser(part)]
    kept = [part for name, part in parts.items() if name not in dense]
    if len(kept) < 2:
        also = f"; left out, as they would send fewer floats for your model: {', '.join(dense)}" if dense else ""
        also += f"; left out, as they do not fit your model or workers: {', '.join(refused)}" if refused else ""
        raise UsageError(
            f"track={track}: fewer than two entries are left at this level{also}; take an easier level, or another "
            "track"
        )
    runs = pd.concat(kept)
    left_out = {"missed": [*reaches.index[~reaches]], "dense": dense, "refused": refused}
    runs.attrs = {"goal": f"level {level} of track {track}", **left_out}
    return runs


def _were_denser(runs: pd.DataFrame) -> bool:
    """Whether an entry's own runs sent only float32 on some task, and on this model it sends less."""
    was_dense = runs["bits"] == 64 * runs["entry_d"] * runs["round"]
    sends_less = runs["bits_up"] + runs["bits_down"] < 64 * runs["d"] * runs["round"]
    return bool((was_dense & sends_less).any())


def _needs_for_model(needs: pd.DataFrame, entry: Entry, track: Track, layout: Layout, workers: int) -> pd.DataFrame:
    """Return the needs of one entry's runs, with messages sized for a model of this layout.

    Columns `adds` and `is_whole` say whether an all-reduce can add all messages, and whether all are d floats.
    """
    candidate = Candidate(track, entry.name, entry.algorithm, entry.overrides, packages=entry.packages)
    cells = candidate.judged_runs({task: chosen.setting for task, chosen in entry.tasks.items()}, entry.seeds[:1])
    first, parts = tuple(block for block in layout if block.offset < LARGE), []
    d, first_d = (sum(block.size for block in blocks) for blocks in (layout, first))
    for run in (replace(cell.run, cluster=replace(cell.run.cluster, workers=workers)) for cell in cells):
        algorithm, how = build_algorithm(run, layout), " ".join([f"algorithm={entry.algorithm}", *entry.overrides])
        mine = needs.xs((run.task.name, entry.name), level=("task", "algorithm"), drop_level=False)
        stages = [(t, stage) for t in range(1, run.rounds + 1) for stage in algorithm.stages(t)]
        sent = pd.DataFrame(
            [(t, s.uplink.bits(s.message_size(d), t), s.downlink.bits(s.message_size(d), t), 1) for t, s in stages],
            columns=["round", "bits_up", "bits_down", "stages"],
        )
        sums = sent.groupby("round").sum().cumsum().reindex(range(1, run.rounds + 1), method="ffill").fillna(0)
        reached = sums.loc[mine["round"]].set_index(mine.index)
        reached["stages"] /= mine["round"]
        adds = all(isinstance(way.compressor, Identity | Cast) for _, s in stages for way in (s.uplink, s.downlink))
        about = {"adds": adds, "is_whole": adds and all(stage.message_size(d) == d for _, stage in stages)}
        about |= describe_exchange(build_algorithm(run, first), first_d, torch.float32)._asdict()
        parts.append(mine.assign(entry_d=mine["d"], d=d, period=run.rounds / len(stages), how=how, **about))
        parts[-1][reached.columns] = reached
    return pd.concat(parts)


def times(runs: pd.DataFrame, links: Network, compressing: float = 0.0) -> pd.DataFrame:
    """Return the rows of `contenders` once for each form of exchange that they support, with modelled `seconds`.

    compressing: milliseconds per parameter, in rounds with an exchange, for methods that do not always send d floats.
    """
    able = {"rank0": runs["servers"] > 0, "sharded": runs["servers"] > 1, "ring": runs["adds"], "tree": runs["adds"]}
    parts = []
    for form, part in ((form, runs[can]) for form, can in able.items()):
        more = (part["gradient_calls"] - part["round"]) * (links.computing or 0)
        more += compressing * part["d"] * part["stages"].clip(upper=1) * part["round"] * ~part["is_whole"]
        parts.append(part.assign(form=form, seconds=seconds(part, links, form) + more / 1e3))
    return pd.concat(parts)


def advise(runs: pd.DataFrame) -> pd.DataFrame:
    """Build the table of `plan` from the rows of `times`, each entry by its fastest form, with the advice in `attrs`.

    An entry ties with the fastest if the 95 % interval of their ratio over seeds contains 1, or if it takes less than
    TIE times as long. Among ties it recommends an entry that sends d floats in every round; of several, the one with
    the narrowest floats. If there is none, it recommends the fastest.
    """
    entry = runs.index.get_level_values("algorithm")
    form = runs["seconds"].groupby([entry, runs["form"]]).agg(stats.gmean).unstack().idxmin(axis=1)
    best = runs[runs["form"].to_numpy() == form[entry].to_numpy()]
    best = best.assign(bits=best["seconds"], Mbit=(best["bits_up"] + best["bits_down"]) / best["round"] / 1e6)
    entries = best.assign(exchanges=best["stages"].clip(upper=1) * best["round"]).groupby("algorithm")
    means = entries[["round", "Mbit", "exchanges"]].agg(stats.gmean)
    table = entries[["label", "how", "form", "is_whole", "period", "note"]].first().join(means)
    each, _ = statistics.average_tasks(best)  # seconds, a row for each seed
    intervals = (statistics.geometric_interval(each[name].dropna().to_numpy()) for name in table.index)
    table["seconds"], table["low"], table["high"] = zip(*intervals, strict=True)
    off = np.exp(np.hypot(np.log(table["seconds"] / table["low"]), np.log(ERROR)))
    table["low"], table["high"] = table["seconds"] / off, table["seconds"] * off
    table = table.sort_values("seconds", kind="stable").rename_axis("entry").reset_index()
    fastest = each[table["entry"][0]]
    lows = [statistics.geometric_interval((each[name] / fastest).dropna().to_numpy())[1] for name in table["entry"]]
    is_tie = ~(np.array(lows) > 1) | (table["seconds"] < TIE * table["seconds"][0])  # one seed has no interval
    is_plain = table["is_whole"] & (table["period"] == 1)
    place = table[is_tie & is_plain].sort_values("Mbit", kind="stable").index.append(pd.Index([0]))[0]
    table["verdict"] = np.where(is_tie, "tie", "slower")
    table.loc[place, "verdict"] = "recommended"
    table.attrs["advice"] = [*_advice(table, place, each, runs.attrs["goal"])]
    return table


def _advice(table: pd.DataFrame, place: int, each: pd.DataFrame, goal: str) -> Iterator[str]:
    """The recommendation, the runner-up, ties, and how much an exchange may compute, in sentences."""
    mine, after = ({**row, "by": FORMS[str(row["form"])]} for row in (table.loc[place], table.drop(place).iloc[0]))
    yield "Take {label} ({how}), {by}: {seconds:.3g} s [{low:.3g}, {high:.3g}] to {goal}.".format(**mine, goal=goal)

    def time_ratio(other: str) -> str:
        ratio = statistics.geometric_interval((each[other] / each[mine["entry"]]).dropna().to_numpy())
        return "takes {:.3g} times as long [{:.3g}, {:.3g}]".format(*ratio)

    yield "Runner-up: {label} ({how}), {by}, {}.".format(time_ratio(after["entry"]), **after)
    is_plain = table["is_whole"] & (table["period"] == 1)
    if ties := "; ".join(table.loc[table["verdict"] == "tie", "label"]):
        why = "sends all floats in every round" if is_plain[place] else "is the fastest"
        yield f"Too close to call: {ties}. The recommended one {why}."
    if is_plain.any() and not is_plain[place]:
        rival = table[is_plain].iloc[0]
        spare = (rival["seconds"] - mine["seconds"]) / mine["exchanges"]
        gone = f"The lead is gone if compressing takes {spare:.3g} s more per exchange."
        yield f"{rival['label']} {time_ratio(rival['entry'])}. {gone}"


def _extrapolations(runs: pd.DataFrame, table: pd.DataFrame, links: Network, compressing: float) -> list[str]:
    """What the advice extrapolates or leaves out, in sentences."""
    d, own, n = runs["d"].iloc[0], runs["entry_d"], sorted({*runs["workers"].astype(int)})
    is_far = (links.workers or 1) > 4 or not 100 <= links.bandwidth <= 1e4 or links.latency > 7
    sentences = {
        f"Numbers of rounds come from {', '.join(runs.index.unique('task'))}.": True,
        f"Your model has {d:,} parameters, theirs have {own.min():,.0f} to {own.max():,.0f}.": any(own != d),
        f"They were trained by {', '.join(map(str, n))} workers, you have {links.workers}.": n != [links.workers],
        "The model of time was measured with 2 to 4 nodes, 100 Mbit/s to 10 Gbit/s, up to 5 ms.": is_far,
        "Compressing takes no time here. A CPU took 5 ns per parameter; compressing=5ns counts it.": not compressing,
        f"Left out, because a run misses the level: {', '.join(runs.attrs['missed'])}.": runs.attrs["missed"],
        "Left out, because their runs sent all floats, and would send fewer for your model: "
        f"{', '.join(runs.attrs['dense'])}.": runs.attrs["dense"],
    } | {f"Left out, because it does not fit: {name} ({why}).": True for name, why in runs.attrs["refused"].items()}
    note = table.loc[table["verdict"] == "recommended", "note"].item()
    return [sentence for sentence, applies in sentences.items() if applies] + (
        [f"The entry's note: {note}."] if note else []
    )


if __name__ == "__main__":
    main()
