"""Write the files of a figure: PDF, PNG, caption, the CSV of its curves, and the table of claims."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import matplotlib
import pandas as pd
from rich.console import Console

from common import tables
from common.errors import UsageError
from common.files import name_in_errors
from common.names import explain_unknown
from plots.claims import claims
from plots.figure import curves, markdown, times
from plots.figure.derive import ByStepSize
from plots.figure.spec import Figure
from plots.runs.best import find_edges, mark_best, rule_in_words
from plots.runs.columns import column, in_words
from plots.runs.network import modelled_seconds
from plots.runs.read import open_run, repeat_by_row, table
from plots.runs.seeds import (
    average_costs,
    describe_axes,
    describe_hidden,
    describe_runs,
    ends_early,
    has_several_seeds,
    join_sorted,
    keep_common_rounds,
    list_early_ends,
    seeds_in_words,
)

Displays = Mapping[Path, tuple[Mapping[str, str], Mapping[str, str]]]
"""A figure's display of task and algorithm, by run folder."""

_TEXTS = ("run", "commit", "precision", "budget", "compressor", "label", "task_label", "color", "marker")


def rows_of(folders: Iterable[Path], figure: Figure, displays: Displays | None = None) -> pd.DataFrame:
    """Return the table of a figure: every evaluation of its runs.

    Another figure may have begun a run, so `displays` replace the run's own display.
    """
    runs = [open_run(folder) for folder in folders]
    facts = [(run.commit, run.config["task"].get("precision"), not run.is_over) for run in runs]
    columns = ["commit", "precision", "stopped"]
    frame = table(runs).assign(budget=figure.budget)
    if displays:
        looks = [{"task_label": task["label"], **look} for task, look in (displays[run.folder] for run in runs)]
        frame[[*looks[0]]] = repeat_by_row(runs, looks)
    frame[columns] = repeat_by_row(runs, [dict(zip(columns, values, strict=True)) for values in facts])
    if figure.times is None:
        frame["modelled_seconds"] = modelled_seconds(frame, figure.network)
    for derivation in figure.derive:
        frame = derivation.apply(frame)
    return frame


def read_rows(path: Path) -> pd.DataFrame:
    """Read a table that `publish` wrote."""
    return pd.read_csv(path, dtype=dict.fromkeys(_TEXTS, str))


def publish(frame: pd.DataFrame, figure: Figure, target: Path) -> pd.DataFrame:
    """Draw a figure, judge its claims, and return the findings. frame: the rows of `rows_of`.

    The folder `target` gets <name>.pdf, <name>.png, report.md, and <name>.csv with all rows; `drawn` marks the rows
    of drawn curves. A figure with claims also gets claims.csv. Raises UsageError for a metric that no run has.
    """
    for metric in filter(
        None, [figure.select, figure.times and figure.times.metric, *(row.y for row in figure.rows)]
    ):
        if metric not in frame:
            measured = [name for name in map(str, frame) if column(name).better]
            raise UsageError(explain_unknown(f"figure={figure.name}: {metric}: no run measured it", metric, measured))
    matplotlib.use("Agg")
    figure = figure.replace(note=" ".join(figure.note.split()))
    with name_in_errors(target):
        target.mkdir(parents=True, exist_ok=True)
        report = times.report if figure.times else _report
        findings, caption, own = report(frame, figure, target)
        lines = [*markdown.head(figure, caption, frame), *markdown.summarize_claims(findings, figure), *own]
        if figure.claims:
            named = findings.replace({"step_size": {claims.PAPERS: figure.published_as}})
            tables.write_csv(named, target / "claims.csv")
            several_seeds = not figure.times and has_several_seeds(frame[frame["seed"] != figure.held_out])
            lines += markdown.claim_tables(findings, figure, several_seeds)
        (target / "report.md").write_text("\n".join(lines) + "\n")
    return findings


def _report(frame: pd.DataFrame, figure: Figure, target: Path) -> tuple[pd.DataFrame, str, list[str]]:
    """Draw the panels of a figure. Returns the findings, the caption, and the report's own lines."""
    frame = mark_best(frame, figure.select, figure.held_out)
    if figure.published:
        frame["published"] = frame["lr"] == frame["algorithm"].map(figure.published)
    judged = frame[frame["seed"] != figure.held_out]
    tried = frame if figure.held_out is None else frame[frame["seed"] == figure.held_out]
    shown = average_costs(keep_common_rounds(_drawn_rows(judged, figure)))
    subjects = (getattr(claim.check, "subject", None) for claim in figure.claims)
    headline = next(filter(None, subjects), None)  # of the first claim with a subject
    shown = shown.assign(front=shown["algorithm"] == headline, diverged=ends_early(shown, stopped=False))
    drawn = curves.draw(shown, figure.rows, _note(figure, shown), families=figure.families)
    curves.save(drawn, *(target / f"{figure.name}{suffix}" for suffix in (".pdf", ".png")))
    tables.write_csv(frame.assign(drawn=frame.index.isin(shown.index)), target / f"{figure.name}.csv")
    findings = claims.judge(judged, figure.claims)
    return findings, _caption(figure, shown, tried), _introduction(figure, judged, tried)


def _drawn_rows(frame: pd.DataFrame, figure: Figure) -> pd.DataFrame:
    """The drawn rows. If there are both, published and best step sizes have panels of their own."""
    if figure.step_size != "best":
        return frame[frame["lr"] == figure.step_size]
    if not figure.published:
        return frame[frame["best"]]
    parts = []
    for task, rows in frame.groupby("task", sort=False):
        label, protocols = rows["task_label"].iloc[0], claims.protocols(rows)
        titles = {claims.PAPERS: f"{figure.published_as} step sizes", claims.BEST: "best step sizes"}
        named = {name: protocols[name] for name in titles if name in protocols}
        for name, part in named.items():
            apart = {"task": f"{task} · {name}", "task_label": f"{label}\n{titles[name]}"} if len(named) > 1 else {}
            parts.append(part.assign(**apart))
    return pd.concat(parts)


def _introduction(figure: Figure, judged: pd.DataFrame, tried: pd.DataFrame) -> list[str]:
    """Lines about the runs, their best step sizes, and all step sizes tried if no claim's columns name them."""
    selected, seeds = _has_selection(tried), f"seed{'s' * has_several_seeds(judged)} {join_sorted(judged['seed'])}"
    grids = tried.groupby(["task", "algorithm"], sort=False)["lr"].agg(join_sorted).reset_index(name="cell")
    differ = grids.groupby("task")["cell"].nunique().max() > 1
    table = ["Step sizes tried:", "", *markdown.cross_table(grids, "task", "algorithm"), ""]
    names = tried.drop_duplicates("algorithm").set_index("algorithm")["label"]
    published = ", ".join(f"{names[name]} {lr:g}" for name, lr in figure.published.items() if name in names)
    return [
        f"Up to {judged['round'].max()} rounds, {seeds}.",
        "",
        *([f"The {figure.published_as} step sizes: {published}.", ""] if published else []),
        *(table if differ and selected and figure.claims else []),
        f"Best step sizes, that is {_rule(figure, tried)}:" if selected else "Step sizes, one a method:",
        "",
        *markdown.best_step_sizes(tried),
    ]


def print_tallies(findings: pd.DataFrame, figure: Figure, console: Console) -> None:
    """Print how often each claim holds."""
    claims = findings.groupby(["number", "statement"], sort=False)
    tallies = [{"claim": number} | markdown.tally(rows, figure) | {"": text} for (number, text), rows in claims]
    heads = dict.fromkeys(head for tally in tallies for head in tally if head)
    tables.print_table(
        console, [*heads, ""], [[str(tally.get(head, "–")) for head in (*heads, "")] for tally in tallies]
    )


def _caption(figure: Figure, shown: pd.DataFrame, tried: pd.DataFrame) -> str:
    """The text below the panels of the rows `shown`, with best step sizes from `tried`."""
    about = [f"{figure.title}."]
    if any(panel.x == "modelled_seconds" for panel in figure.rows):
        about.append(f"Modelled: {figure.network.in_words()}.")
    axes = describe_axes(shown)
    about += [axes[x] for x in dict.fromkeys(panel.x for panel in figure.rows) if x in axes]
    if precisions := sorted(shown["precision"].dropna().unique()):
        about.append(f"Products in {' or '.join(precisions)}, also in evaluations.")
    curves = _step_sizes(figure, tried)
    if has_several_seeds(shown):
        geometric = ", geometric on logarithmic axes," * any(panel.y_scale == "log" for panel in figure.rows)
        means = f"means over seeds {seeds_in_words(shown)}{geometric}"
        curves.append(f"Lines are {means} and bands go from the least to the greatest.")
    curves += _describe_cuts(figure, shown)
    for word, stopped in (("Diverged", False), ("Stopped", True)):
        if ends := list_early_ends(shown, stopped):
            curves.append(f"{word}: {', '.join(ends)}.")
    text = re.sub(r"(?<=\d)e-0(?=\d)", "e-", "\n".join([" ".join(about), " ".join(curves)]))  # 1e-05 to 1e-5
    return f"{figure.note}\n{text}" if figure.note else text


def _step_sizes(figure: Figure, tried: pd.DataFrame) -> list[str]:
    if figure.step_size != "best":
        return [f"All methods with step size {figure.step_size:g}."]
    if not _has_selection(tried):
        by_step_size = any(isinstance(derivation, ByStepSize) for derivation in figure.derive)
        return ["A curve for each step size." if by_step_size else "Each method with the one step size it was given."]
    sentences = [f"{'Best is' if figure.published else 'Each method with'} {_rule(figure, tried)}."]
    if edge := find_edges(tried):
        methods = len(tried.drop_duplicates(["task", "algorithm"]))
        sentences.append(f"On the edge of what was tried: {len(edge)} of {methods} best step sizes.")
    return sentences


def _describe_cuts(figure: Figure, shown: pd.DataFrame) -> list[str]:
    """Say which quantities go on beyond their panels, and which methods a logarithmic axis cannot show."""
    sentences = []
    for panel in figure.rows:
        there, name = shown[shown["task"].map(panel.shows)], in_words(panel.y)
        if panel.y_max is not None and there[panel.y].max() > panel.y_max:
            sentences.append(f"The {name} goes on above {panel.y_max:g}.")
        if panel.y_min is not None and there[panel.y].min() < panel.y_min:
            sentences.append(f"The {name} goes on below {panel.y_min:g}.")
        if panel.y_scale == "log":
            sentences.append(describe_hidden(there, panel.y))
    return list(dict.fromkeys(filter(None, sentences)))


def _note(figure: Figure, shown: pd.DataFrame) -> str:
    """The text inside the picture: the figure's note, early ends, the budget and the seeds."""
    step = f"Step size α = {figure.step_size:g}" if figure.step_size != "best" else ""
    return ". ".join(filter(None, [figure.note.removesuffix("."), step, describe_runs(shown)]))


def _rule(figure: Figure, tried: pd.DataFrame) -> str:
    chosen = rule_in_words(tried, figure.select)
    if figure.held_out is None:
        return chosen
    share = f" and {figure.trial_share:.0%} of the rounds" if figure.trial_share < 1 else ""
    return f"{chosen}, on seed {figure.held_out}{share} alone, which is judged nowhere"


def _has_selection(frame: pd.DataFrame) -> bool:
    return bool((frame.groupby(["task", "algorithm"])["lr"].nunique() > 1).any())
