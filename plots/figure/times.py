"""Everything a figure of modelled times over bandwidth leaves behind."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Picture

from plots.claims import claims
from plots.claims.seconds import AsMeasured
from plots.figure import bandwidth, curves, markdown
from plots.figure.spec import ROOT, Figure, Times
from plots.runs.columns import in_words
from plots.runs.network import pays

_COLORS = ("#222222", "#D55E00", "#009E73", "#6A51A3", "#0072B2", "#A6611A", "#CC79A7")
"""One a method."""

_MARKERS = "osD^vPX"
"""One a form of it."""


def report(frame: pd.DataFrame, figure: Figure, target: Path) -> pd.DataFrame:
    """Draw the times of a figure from the rows of its runs, judge its claims, and return the findings.

    Writes what `plots.figure.publish` writes, the modelled lines as lines.csv and, where there are measured rounds,
    <name>_measured.pdf and .png.
    """
    times = figure.times
    assert times is not None
    lines = bandwidth.over_bandwidth(frame, times, figure.network)
    rounds = read_measured(ROOT / times.measured) if times.measured else None
    findings = _judged(lines, rounds, figure, _protocol(frame, figure))
    caption = f"{figure.title}. {bandwidth.caption(frame, times, figure.network)}"
    about = ". ".join(filter(None, [figure.note, bandwidth.note(frame, lines)]))
    _save(bandwidth.draw(lines, times, about), figure.name, target)
    if rounds is not None:
        said = "Lines: modelled. Points: measured; without a line: no model."
        _save(draw_measured(rounds, said), f"{figure.name}_measured", target)
    (target / f"{figure.name}.txt").write_text("\n".join(filter(None, [figure.note, caption])) + "\n")
    frame.to_csv(target / f"{figure.name}.csv", index=False)
    bandwidth.rows(lines).to_csv(target / "lines.csv", index=False, float_format="%.6g")
    text = [*markdown.head(figure, caption, frame), *markdown.in_short(findings, figure)]
    text += [*_paying(lines), *_seconds(lines), *_rests_on(frame, times)]
    text += _about_measured(figure.name, times.measured) if times.measured else []
    if figure.claims:
        text += markdown.judged(findings, figure, several_seeds=False)
    (target / "report.md").write_text("\n".join(text) + "\n")
    return findings


def _about_measured(name: str, file: str) -> list[str]:
    picture = f"![Seconds a round over bandwidth, modelled and measured]({name}_measured.png)"
    caption = f"*Seconds of a round over bandwidth: lines are modelled, points were measured (`{file}`). "
    return ["", "## Measured rounds", "", picture, "", f"{caption}Points without a line have no model.*"]


def _save(picture: curves.Figure, name: str, target: Path) -> None:
    curves.save(picture, *(target / f"{name}{suffix}" for suffix in (".pdf", ".png")))


def _protocol(frame: pd.DataFrame, figure: Figure) -> str:
    """The paper's where runs have its step sizes alone, and otherwise best: the fastest that were run."""
    published = frame["lr"] == frame["algorithm"].map(figure.published)
    return claims.PAPERS if published.all() else claims.BEST


def _judged(lines: pd.DataFrame, rounds: pd.DataFrame | None, figure: Figure, protocol: str) -> pd.DataFrame:
    """The verdicts: of modelled times, and of rounds where they were measured, one a panel."""
    of_rounds = [claim for claim in figure.claims if isinstance(claim.check, AsMeasured)]
    of_times = [claim for claim in figure.claims if not isinstance(claim.check, AsMeasured)]
    panels = lines.assign(algorithm=lines["method"], best=True, lr=float("nan"))
    parts = [claims.judge(panels, of_times).assign(step_size=protocol)]
    if rounds is not None:
        found = claims.judge(rounds.assign(best=True, lr=float("nan")), of_rounds)
        parts.append(found.assign(step_size=claims.MEASURED))
    return pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)


def _paying(lines: pd.DataFrame) -> list[str]:
    found = pays(lines.rename(columns={"seconds_to_level": "seconds"})).reset_index()
    if found.empty:
        return []
    least, most = lines["bandwidth"].min(), lines["bandwidth"].max()
    ends = found[["least", "greatest"]].map(lambda place: f"{float(f'{place:.2g}'):g}")
    found["cell"] = ends.agg(" to ".join, axis=1).where(found["least"].notna(), "–")
    return [
        "## Where compression pays", "",
        f"At how many Mbit/s, of {least:g} to {most:g}, a compressed method is faster than all uncompressed ones.",
        "A dash: at none.", "",
        *markdown.cross_table(found.assign(method=found["label"]), "method", "task"), "",
    ]  # fmt: skip


def _seconds(lines: pd.DataFrame) -> list[str]:
    text = ["## Modelled seconds", "", "Over Mbit/s; a dash: never at the level.", ""]
    for task, rows in lines.groupby("task", sort=False):
        rows = rows[np.log10(rows["bandwidth"]).round(9) % 1 == 0]
        rows = rows.assign(place=[f"{tried:.6g}" for tried in rows["bandwidth"]])
        rows = rows.assign(
            cell=["–" if value != value else f"{value:.4g}" for value in rows["seconds_to_level"]],
            method=rows["label"],
        )
        text += [f"### {task}", "", *markdown.cross_table(rows, "method", "place"), ""]
    return text


def _rests_on(frame: pd.DataFrame, times: Times) -> list[str]:
    found = bandwidth.reached(frame, times)
    said = f"{in_words(times.metric)} {times.level:g}"
    costs = ("computing of a worker, ms a round", "bits a round", f"rounds to {said}")
    return [
        "## What that rests on", "", "The least and the greatest over seeds and step sizes, as recorded.", "",
        *markdown.row_table(["task", "method", *costs, "seeds there"], found.to_numpy().tolist()),
    ]  # fmt: skip


def read_measured(path: Path) -> pd.DataFrame:
    """The CSV of `benchmarks.network` as claims are judged by it: a task of every number of nodes and latency, an
    algorithm of every label and form, bandwidth in Mbit/s, and `seconds_of_round`, which was measured. `modelled` is
    missing where there is no model."""
    found = pd.read_csv(path).fillna({"form": ""}).sort_values(["nodes", "latency", "bandwidth"], kind="stable")
    names = found["label"].str.cat(found["form"], sep=", ").str.removesuffix(", ")
    tasks = [f"{nodes:g} nodes, {1e3 * seconds:g} ms" for nodes, seconds in found[["nodes", "latency"]].to_numpy()]
    found = found.assign(
        bandwidth=found["bandwidth"] / 1e6, seconds_of_round=found["seconds"], task=tasks, algorithm=names, seed=0
    )
    return found.assign(round=found.groupby(["task", "algorithm"]).cumcount())


def draw_measured(rounds: pd.DataFrame, note: str) -> Picture:
    """A panel a number of nodes and latency, over bandwidth: lines are modelled, points were measured."""
    tasks, labels = list(rounds.groupby("task", sort=False)), list(rounds["label"].unique())
    with plt.style.context(str(curves.STYLE)):
        across = min(2, len(tasks))
        down = -(-len(tasks) // across)
        figure, axes = plt.subplots(down, across, sharey=True, squeeze=False, layout="constrained")
        figure.set_size_inches(6.6, 1.2 + 2.2 * down)
        for axis, (task, rows) in zip(axes.flat, tasks, strict=False):
            axis.set(title=task, xscale="log", yscale="log", xlabel="Mbit/s of every link")
            for name, some in rows.groupby("algorithm", sort=False):
                label = some["label"].iloc[0]
                color = _COLORS[labels.index(label) % len(_COLORS)]
                forms = list(rounds.loc[rounds["label"] == label, "algorithm"].unique())
                axis.plot(*_between(some), color=color)
                axis.plot(
                    some["bandwidth"], some["seconds_of_round"], color=color, label=name, linestyle="",
                    marker=_MARKERS[forms.index(name) % len(_MARKERS)], markersize=5,
                )  # fmt: skip
        for row in axes:
            row[0].set_ylabel("seconds a round")
        handles = axes[0, 0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside upper center", ncols=3)
        figure.supxlabel(note)
    return figure


def _between(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Bandwidths and modelled seconds: between those that were measured the model is linear in 1/bandwidth."""
    known = rows.dropna(subset="modelled").sort_values("bandwidth", ascending=False)
    if known.empty:
        return np.array([]), np.array([])
    places = np.geomspace(known["bandwidth"].min(), known["bandwidth"].max(), 61)
    return places, np.interp(1 / places, 1 / known["bandwidth"], known["modelled"])
