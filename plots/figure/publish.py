"""Everything a figure leaves behind: PDF, PNG, the CSV of every curve, and tables of claims and targets."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import matplotlib
import pandas as pd
from rich.console import Console

from common import tables
from common.files import naming
from plots.claims import claims
from plots.figure import curves, markdown, times
from plots.figure.derive import DERIVATIONS
from plots.figure.spec import Figure
from plots.runs.best import mark_best, on_edge, rule_in_words
from plots.runs.columns import ABOUT_BITS, in_words
from plots.runs.levels import bits_to_reach
from plots.runs.network import modelled_seconds
from plots.runs.read import RunRecord, open_run, table
from plots.runs.seeds import about_runs, at_mean_costs, in_order, repeated, while_all_go_on

_HIDDEN = ["label", "color", "marker", "task_label", "selected_by"]


def report(
    folders: Iterable[Path],
    figure: Figure,
    target: Path,
    console: Console,
    displays: Mapping[Path, tuple[Mapping[str, str], Mapping[str, str]]] | None = None,
    origin: str = "",
) -> None:
    """Draw a figure and judge its claims from run folders into the folder `target`, and show the verdicts.

    `displays` are those of a folder's task and algorithm in this figure, where they are not what the run was begun
    with: another figure may have begun it. `origin` is what the report says of where the runs are from.

    Writes <name>.pdf, <name>.png, <name>.csv (every row of every run, those of the drawn curves with drawn = True),
    report.md and, where the figure asks for them, claims.csv and targets.csv; of modelled times over bandwidth the
    CSV holds the lines.
    """
    matplotlib.use("Agg")
    figure = replace(figure, note=" ".join(figure.note.split()))
    with naming(target):
        runs = [open_run(folder) for folder in folders]
        runs = [run.shown_as(*displays[run.folder]) if displays else run for run in runs]
        findings = (
            _report(runs, figure, target, origin)
            if figure.times is None
            else times.report(table(runs), figure, target, origin)
        )
    if figure.claims:
        _show(findings, figure, console)
    console.print(f"figure, curves and report: {target}", soft_wrap=True, highlight=False)


def _report(runs: Sequence[RunRecord], figure: Figure, target: Path, origin: str) -> pd.DataFrame:
    """Everything but what is shown; the findings."""
    frame = table(runs)
    frame["modelled_seconds"] = modelled_seconds(frame, figure.network)
    for derivation in figure.derive:
        frame = DERIVATIONS[derivation.name](frame, **derivation.options)
    frame = mark_best(frame, figure.select, figure.held_out)
    if figure.published:
        frame["published"] = frame["lr"] == frame["algorithm"].map(figure.published)
    judged = frame[frame["seed"] != figure.held_out]
    tried = frame if figure.held_out is None else frame[frame["seed"] == figure.held_out]
    shown = at_mean_costs(while_all_go_on(_shown(judged, figure)))
    shown = shown.assign(front=shown["algorithm"] == _headline(figure), diverged=_is_diverged(shown))
    frame["drawn"] = frame.index.isin(shown.index)
    precisions = sorted({run.config["task"].get("precision") for run in runs} - {None})
    caption, inside = _caption(figure, shown, tried, precisions), figure.look.caption == "inside"
    drawn = curves.draw(shown, figure.rows, caption if inside else _note(figure, shown), figure.look, figure.families)
    curves.save(drawn, *(target / f"{figure.name}{suffix}" for suffix in (".pdf", ".png")), look=figure.look)
    target.mkdir(parents=True, exist_ok=True)
    (target / f"{figure.name}.txt").write_text(f"{caption}\n")
    frame.drop(columns=_HIDDEN).to_csv(target / f"{figure.name}.csv", index=False)
    findings = claims.judge(judged, figure.claims)
    text = [
        *markdown.head(figure, caption.removeprefix(f"{figure.note}\n"), origin),
        *markdown.in_short(findings, figure),
        *_introduction(figure, judged, tried),
    ]
    if figure.targets:
        parts: dict[str, list[pd.DataFrame]] = {}
        for some in figure.targets:
            reached = bits_to_reach(_of(judged, some.task), some.metric, list(some.levels))
            parts.setdefault(some.metric, []).append(reached.assign(metric=some.metric))
        each = {metric: pd.concat(some) for metric, some in parts.items()}
        pd.concat(each.values()).to_csv(target / "targets.csv", index=False)
        text += [line for metric, some in each.items() for line in markdown.targets(some, metric, figure)]
    if figure.claims:
        findings.to_csv(target / "claims.csv", index=False)
        text += markdown.judged(findings, figure, repeated(judged))
    (target / "report.md").write_text("\n".join(text) + "\n")
    return findings


def _of(frame: pd.DataFrame, task: str | None) -> pd.DataFrame:
    """The rows of one task, or of all."""
    return frame if task is None else frame[frame["task"] == task]


def _shown(frame: pd.DataFrame, figure: Figure) -> pd.DataFrame:
    """The rows that are drawn. Where there is a published step size beside the best, each has panels of its own."""
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
    """The method that the first claim about a single one is about; its curve lies above the others."""
    return next((claim.options["subject"] for claim in figure.claims if "subject" in claim.options), None)


_NAMED = 4
"""Best step sizes on the edge of their grid that a caption names; of more it says how many, and the report which."""


def _caption(figure: Figure, shown: pd.DataFrame, tried: pd.DataFrame, precisions: list[str]) -> str:
    """What stands below the panels of the rows `shown`, with best step sizes from `tried`."""
    about, chosen = [f"{figure.title}."], []
    if any(panel.x == "modelled_seconds" for panel in figure.rows):
        about.append(f"Modelled: {figure.network.in_words()}.")
    about += [ABOUT_BITS[x] for x in dict.fromkeys(panel.x for panel in figure.rows) if x in ABOUT_BITS]
    if precisions:
        about.append(f"Products in {' or '.join(precisions)}, also in evaluations.")
    if figure.step_size != "best":
        chosen.append(f"All methods with step size {figure.step_size:g}.")
    elif _was_selected(tried):
        which = "Best is" if figure.published else "Each method with"
        chosen.append(f"{which} {_rule(figure, tried)}.")
        if edge := on_edge(tried):
            first = tried.drop_duplicates(["task", "algorithm"]).set_index(["task", "algorithm"])
            several = tried["task"].nunique() > 1
            names = first["label"] + (" on " + first["task_label"] if several else "")
            few = len(edge) <= _NAMED
            named = ", ".join(names.loc[edge]) if few else f"{len(edge)} of {len(first)} best step sizes"
            chosen.append(f"On the edge of what was tried: {named}.")
    elif any(one.name == "by_step_size" for one in figure.derive):
        chosen.append("A curve a step size.")
    else:
        chosen.append("Each method with the one step size it was given.")
    if repeated(shown):
        is_log = any(panel.y_scale == "log" for panel in figure.rows)
        chosen.append(
            f"Lines are means over seeds {in_order(shown['seed'])}{', geometric on logarithmic axes,' * is_log} and "
            "bands go from the least to the greatest."
        )
    chosen += [*_beyond(figure, shown), *_of_zero(figure, shown)]
    if ended := _diverged(shown):
        chosen.append(f"Diverged: {', '.join(ended)}.")
    said = "\n".join([" ".join(about), " ".join(chosen)]).replace("e-0", "e-")
    return f"{figure.note}\n{said}" if figure.note else said


def _beyond(figure: Figure, shown: pd.DataFrame) -> list[str]:
    """Which quantities go on beyond their panels' ranges, in words."""
    said = []
    for panel in figure.rows:
        there = shown[shown["task"].map(panel.shows)]
        if panel.y_max is not None and there[panel.y].max() > panel.y_max:
            said.append(f"The {in_words(panel.y)} goes on above {panel.y_max:g}.")
        if panel.y_min is not None and there[panel.y].min() < panel.y_min:
            said.append(f"The {in_words(panel.y)} goes on below {panel.y_min:g}.")
    return list(dict.fromkeys(said))


def _of_zero(figure: Figure, shown: pd.DataFrame) -> list[str]:
    """Whose curves a logarithmic axis does not show, since they are 0, in words."""
    said = []
    for panel in figure.rows:
        if panel.y_scale == "log":
            greatest = shown[shown["task"].map(panel.shows)].groupby("label", sort=False)[panel.y].max()
            if names := list(greatest[greatest == 0].index):
                said.append(f"The {in_words(panel.y)} of {', '.join(names)} is 0.")
    return list(dict.fromkeys(said))


def _is_diverged(shown: pd.DataFrame) -> pd.Series:
    """Whether a row's curve ends before the last round of its runs."""
    each = shown.groupby(["task", "algorithm"])
    return each["round"].transform("max") < each["planned_rounds"].transform("max")


def _diverged(shown: pd.DataFrame) -> list[str]:
    """Whose curves end before the last round of their runs, and where, in words."""
    several, said = shown["task"].nunique() > 1, []
    for _, rows in shown[_is_diverged(shown)].groupby(["task", "algorithm"], sort=False):
        first = rows.iloc[0]
        place = f" on {', '.join(first['task_label'].splitlines())}" if several else ""
        said.append(f"{first['label']}{place} after round {rows['round'].max():g}")
    return said


def _note(figure: Figure, shown: pd.DataFrame) -> str:
    """What stands in the picture even where its caption stands outside: what marks it, the budget and the seeds."""
    about = about_runs(shown, [panel.y for panel in figure.rows])
    step = f"Step size α = {figure.step_size:g}" if figure.step_size != "best" else ""
    cross = "Crosses: diverged" * bool(_diverged(shown))
    return ". ".join(filter(None, [figure.note, step, cross, about[:1].upper() + about[1:]]))


def _introduction(figure: Figure, judged: pd.DataFrame, tried: pd.DataFrame) -> list[str]:
    """What was run, and the step sizes: the best, and all that were tried where no claim's columns name them."""
    selected, seeds = _was_selected(tried), f"seed{'s' * repeated(judged)} {in_order(judged['seed'])}"
    differ = tried.groupby(["task", "algorithm"])["lr"].agg(in_order).groupby("task").nunique().max() > 1
    names = tried.drop_duplicates("algorithm").set_index("algorithm")["label"]
    published = ", ".join(f"{names[name]} {lr:g}" for name, lr in figure.published.items() if name in names)
    return [
        f"{figure.title}. Up to {judged['round'].max()} rounds, {seeds}.",
        "",
        *([f"The {figure.published_as} step sizes: {published}.", ""] if published else []),
        *(markdown.grids(tried) if differ and selected and figure.claims else []),
        f"Best step sizes, that is {_rule(figure, tried)}:" if selected else "Step sizes, one a method:",
        "",
        *markdown.best_step_sizes(tried),
    ]


def _rule(figure: Figure, tried: pd.DataFrame) -> str:
    """What the best step sizes were chosen by."""
    rule = rule_in_words(tried, figure.select)
    if figure.held_out is None:
        return rule
    share = f" and {figure.trial_share:.0%} of the rounds" if figure.trial_share < 1 else ""
    return f"{rule}, on seed {figure.held_out}{share} alone, which is judged nowhere"


def _was_selected(frame: pd.DataFrame) -> bool:
    """Whether some method had several step sizes to select from."""
    return bool((frame.groupby(["task", "algorithm"])["lr"].nunique() > 1).any())


def _show(findings: pd.DataFrame, figure: Figure, console: Console) -> None:
    tallies = {about: markdown.tally(some) for about, some in findings.groupby(["number", "statement"], sort=False)}
    kinds = list(dict.fromkeys(kind for tally in tallies.values() for kind in tally))
    rows = [
        [str(number), *(tally.get(kind, "–") for kind in kinds), statement]
        for (number, statement), tally in tallies.items()
    ]
    tables.show(console, ["claim", *(markdown.titled(kind, figure) for kind in kinds), ""], rows)
