"""The files of a figure: PDF, PNG, the CSV of every curve, and tables of claims and targets."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import matplotlib
import pandas as pd
from rich.console import Console

from common import tables
from common.files import naming
from plots.claims import claims
from plots.figure import curves, markdown, times
from plots.figure.caption import caption, is_diverged, note, rule, was_selected
from plots.figure.spec import Figure
from plots.runs.best import mark_best
from plots.runs.levels import bits_to_reach
from plots.runs.network import modelled_seconds
from plots.runs.read import beside, open_run, table
from plots.runs.seeds import at_mean_costs, in_order, repeated, while_all_go_on

Displays = Mapping[Path, tuple[Mapping[str, str], Mapping[str, str]]]
"""By run folder how a figure draws its task and its algorithm."""

_TEXTS = ("run", "commit", "precision", "budget", "compressor", "label", "task_label", "color", "marker")


def rows_of(folders: Iterable[Path], figure: Figure, displays: Displays | None = None) -> pd.DataFrame:
    """The table that a figure is drawn from and judged by: every evaluation of its runs.

    Another figure may have begun a run, so `displays` replace the looks that the run was begun with.
    """
    runs = [open_run(folder) for folder in folders]
    if displays:
        runs = [run.shown_as(*displays[run.folder]) for run in runs]
    facts = [{"commit": run.commit, "precision": run.config["task"].get("precision")} for run in runs]
    frame = table(runs).assign(budget=figure.budget)
    about = beside(runs, facts)
    frame = frame.assign(**{str(name): about[name] for name in about})
    if figure.times is None:
        frame["modelled_seconds"] = modelled_seconds(frame, figure.network)
    for derivation in figure.derive:
        frame = derivation.apply(frame)
    return frame


def read_rows(path: Path, rows: int | None = None) -> pd.DataFrame:
    """The table that `publish` has written."""
    return pd.read_csv(path, dtype=dict.fromkeys(_TEXTS, str), nrows=rows)


def publish(frame: pd.DataFrame, figure: Figure, target: Path) -> pd.DataFrame:
    """Draw a figure and judge its claims from the rows of `rows_of`, into the folder `target`; return the findings.

    Writes <name>.pdf, <name>.png, <name>.txt (the caption), <name>.csv (the rows, those of drawn curves with
    drawn = True), report.md and, where the figure asks for them, claims.csv and targets.csv.
    """
    matplotlib.use("Agg")
    figure = replace(figure, note=" ".join(figure.note.split()))
    with naming(target):
        target.mkdir(parents=True, exist_ok=True)
        findings = times.report(frame, figure, target) if figure.times else _report(frame, figure, target)
        if figure.claims:
            findings.to_csv(target / "claims.csv", index=False)
    return findings


def _report(frame: pd.DataFrame, figure: Figure, target: Path) -> pd.DataFrame:
    frame = mark_best(frame, figure.select, figure.held_out)
    if figure.published:
        frame["published"] = frame["lr"] == frame["algorithm"].map(figure.published)
    judged = frame[frame["seed"] != figure.held_out]
    tried = frame if figure.held_out is None else frame[frame["seed"] == figure.held_out]
    shown = at_mean_costs(while_all_go_on(_shown(judged, figure)))
    shown = shown.assign(front=shown["algorithm"] == _headline(figure), diverged=is_diverged(shown))
    text = caption(figure, shown, tried)
    drawn = curves.draw(shown, figure.rows, note(figure, shown), families=figure.families)
    curves.save(drawn, *(target / f"{figure.name}{suffix}" for suffix in (".pdf", ".png")))
    (target / f"{figure.name}.txt").write_text(f"{text}\n")
    frame.assign(drawn=frame.index.isin(shown.index)).to_csv(target / f"{figure.name}.csv", index=False)
    findings = claims.judge(judged, figure.claims)
    lines = [
        *markdown.head(figure, text, frame),
        *markdown.in_short(findings, figure),
        *_introduction(figure, judged, tried),
        *_targets(figure, judged, target),
    ]
    if figure.claims:
        lines += markdown.judged(findings, figure, repeated(judged))
    (target / "report.md").write_text("\n".join(lines) + "\n")
    return findings


def _targets(figure: Figure, judged: pd.DataFrame, target: Path) -> list[str]:
    """The tables of bits to the figure's levels, one for each metric; targets.csv has all of them."""
    parts: dict[str, list[pd.DataFrame]] = {}
    for some in figure.targets:
        rows = judged if some.task is None else judged[judged["task"] == some.task]
        reached = bits_to_reach(rows, some.metric, list(some.levels))
        parts.setdefault(some.metric, []).append(reached.assign(metric=some.metric))
    each = {metric: pd.concat(some) for metric, some in parts.items()}
    if each:
        pd.concat(each.values()).to_csv(target / "targets.csv", index=False)
    return [line for metric, some in each.items() for line in markdown.targets(some, metric, figure)]


def _shown(frame: pd.DataFrame, figure: Figure) -> pd.DataFrame:
    """The rows that are drawn. Published and best step sizes have panels of their own where there are both."""
    if figure.step_size != "best":
        return frame[frame["lr"] == figure.step_size]
    if not figure.published:
        return frame[frame["best"]]
    parts = []
    for task, rows in frame.groupby("task", sort=False):
        label, found = rows["task_label"].iloc[0], claims.protocols(rows)
        titles = {claims.PAPERS: f"{figure.published_as} step sizes", claims.BEST: "best step sizes"}
        named = {name: found[name] for name in titles if name in found}
        for name, some in named.items():
            apart = {"task": f"{task} · {name}", "task_label": f"{label}\n{titles[name]}"} if len(named) > 1 else {}
            parts.append(some.assign(**apart))
    return pd.concat(parts)


def _headline(figure: Figure) -> str | None:
    """The subject of the first claim that has one. Its curve lies above the others."""
    subjects = (getattr(claim.check, "subject", None) for claim in figure.claims)
    return next(filter(None, subjects), None)


def _introduction(figure: Figure, judged: pd.DataFrame, tried: pd.DataFrame) -> list[str]:
    """What was run, the best step sizes, and all that were tried where no claim's columns name them."""
    selected, seeds = was_selected(tried), f"seed{'s' * repeated(judged)} {in_order(judged['seed'])}"
    differ = tried.groupby(["task", "algorithm"])["lr"].agg(in_order).groupby("task").nunique().max() > 1
    names = tried.drop_duplicates("algorithm").set_index("algorithm")["label"]
    published = ", ".join(f"{names[name]} {lr:g}" for name, lr in figure.published.items() if name in names)
    return [
        f"Up to {judged['round'].max()} rounds, {seeds}.",
        "",
        *([f"The {figure.published_as} step sizes: {published}.", ""] if published else []),
        *(markdown.grids(tried) if differ and selected and figure.claims else []),
        f"Best step sizes, that is {rule(figure, tried)}:" if selected else "Step sizes, one a method:",
        "",
        *markdown.best_step_sizes(tried),
    ]


def show(findings: pd.DataFrame, figure: Figure, console: Console) -> None:
    """Print how often each claim holds."""
    tallies = {about: markdown.tally(some) for about, some in findings.groupby(["number", "statement"], sort=False)}
    kinds = list(dict.fromkeys(kind for tally in tallies.values() for kind in tally))
    rows = [
        [str(number), *(tally.get(kind, "–") for kind in kinds), statement]
        for (number, statement), tally in tallies.items()
    ]
    tables.show(console, ["claim", *(markdown.titled(kind, figure) for kind in kinds), ""], rows)
