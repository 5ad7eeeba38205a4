"""Everything a figure of modelled times over bandwidth leaves behind."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from common import tables
from plots.claims import claims
from plots.claims.seconds import OF_MEASURED
from plots.figure import bandwidth, curves, markdown, measured
from plots.figure.spec import Figure
from plots.runs.columns import in_words


def report(frame: pd.DataFrame, figure: Figure, target: Path, origin: str = "") -> pd.DataFrame:
    """Draw the times of a figure from the rows of its runs, judge its claims, and return the findings.

    `origin` is what the report says of where the runs are from.

    Writes <name>.pdf, <name>.png, <name>.csv (the lines), <name>.txt (the caption), report.md, claims.csv where there
    are claims, and, where there are measured rounds, <name>_measured.pdf and .png. Raises ValueError for a file of
    measured rounds that is damaged.
    """
    times = figure.times
    assert times is not None
    target.mkdir(parents=True, exist_ok=True)
    lines = bandwidth.over_bandwidth(frame, times, figure.network)
    protocol = _protocol(frame, figure)
    caption = f"{figure.title}. {bandwidth.caption(frame, times, figure.network)}"
    about = ". ".join(filter(None, [figure.note, bandwidth.note(frame, lines)]))
    inside = figure.look.caption == "inside"
    _save(bandwidth.draw(lines, times, caption if inside else about, figure.look), figure.name, figure, target)
    (target / f"{figure.name}.txt").write_text("\n".join(filter(None, [figure.note, caption])) + "\n")
    bandwidth.rows(lines).to_csv(target / f"{figure.name}.csv", index=False, float_format="%.6g")

    rounds = _measured(figure, dict(zip(frame["label"], frame["color"], strict=True)))
    findings = _judged(lines, rounds, figure, protocol)
    text = [*markdown.head(figure, caption, origin), *markdown.in_short(findings, figure)]
    text += [*_paying(lines), *_seconds(lines), *_rests_on(frame, figure)]
    if times.measured:
        text += ["", "## Measured rounds", ""]
        text += [f"There is no `{times.measured}`: nothing was measured."] if rounds is None else [
            f"![Seconds a round over bandwidth, modelled and measured]({figure.name}_measured.png)", "",
            f"*Seconds of a round over bandwidth: lines are modelled, points were measured (`{times.measured}`). "
            "What has no line has no model.*",
        ]  # fmt: skip
    if rounds is not None:
        _save(
            measured.draw(rounds, "Lines: modelled. Points: measured; without a line: no model.", figure.look),
            f"{figure.name}_measured",
            figure,
            target,
        )
    if figure.claims:
        findings.to_csv(target / "claims.csv", index=False)
        text += markdown.judged(findings, figure, several_seeds=False)
    (target / "report.md").write_text("\n".join(text) + "\n")
    return findings


def _save(picture: curves.Figure, name: str, figure: Figure, target: Path) -> None:
    curves.save(picture, *(target / f"{name}{suffix}" for suffix in (".pdf", ".png")), look=figure.look)


def _measured(figure: Figure, colors: Mapping[str, str]) -> pd.DataFrame | None:
    """The measured rounds, methods in their colours; None where none are asked for, or nothing was measured."""
    assert figure.times is not None
    path = measured.ROOT / figure.times.measured
    return measured.read(path, colors) if figure.times.measured and path.exists() else None


def _protocol(frame: pd.DataFrame, figure: Figure) -> str:
    """The paper's where runs have its step sizes alone, and otherwise best: the fastest that were run."""
    published = frame["lr"] == frame["algorithm"].map(figure.published)
    return claims.PAPERS if published.all() else claims.BEST


def _judged(lines: pd.DataFrame, rounds: pd.DataFrame | None, figure: Figure, protocol: str) -> pd.DataFrame:
    """The verdicts: of modelled times and of measured rounds one a panel; none where nothing was measured."""
    of_rounds = [claim for claim in figure.claims if claim.check in OF_MEASURED]
    of_times = [claim for claim in figure.claims if claim.check not in OF_MEASURED]
    panels = lines.assign(algorithm=lines["method"], best=True, lr=float("nan"))
    parts = [claims.judge(panels, of_times).assign(step_size=protocol)]
    if rounds is not None:
        found = claims.judge(rounds.assign(best=True, lr=float("nan")), of_rounds)
        parts.append(found.assign(step_size=claims.MEASURED))
    else:
        parts.append(claims.unjudged(of_rounds, "no network", claims.MEASURED, "not measured"))
    return pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)


def _paying(lines: pd.DataFrame) -> list[str]:
    """Where compression pays: methods down, panels across."""
    found = bandwidth.paying(lines)
    if found.empty:
        return []
    least, most = lines["bandwidth"].min(), lines["bandwidth"].max()
    ends = found[["least", "greatest"]].to_numpy(dtype=float)
    found["cell"] = [_stretch(begin, end, least, most) for begin, end in ends]
    return [
        "## Where compression pays", "",
        f"At how many Mbit/s, of {least:g} to {most:g}, a compressed method is faster than all uncompressed ones.",
        "",
        *markdown.table(found.assign(method=found["label"]), "method", "task"), "",
    ]  # fmt: skip


def _stretch(begin: float, end: float, least: float, most: float) -> str:
    """From where to where, of a range, in words of two digits."""
    if math.isnan(begin):
        return "nowhere here"
    begins, ends = (f"{float(f'{place:.2g}'):g}" for place in (begin, end))
    if begin > least:
        return f"from {begins}" if end == most else f"{begins} to {ends}"
    return "everywhere here" if end == most else f"up to {ends}"


def _seconds(lines: pd.DataFrame) -> list[str]:
    """The modelled seconds at powers of ten."""
    text = ["## Modelled seconds", "", "Over Mbit/s; a dash: never at the level.", ""]
    for task, rows in lines.groupby("task", sort=False):
        rows = rows[np.log10(rows["bandwidth"]).round(9) % 1 == 0]
        rows = rows.assign(place=[f"{tried:.6g}" for tried in rows["bandwidth"]])
        rows = rows.assign(
            cell=["–" if value != value else f"{value:.4g}" for value in rows["seconds_to_level"]],
            method=rows["label"],
        )
        text += [f"### {task}", "", *markdown.table(rows, "method", "place"), ""]
    return text


def _rests_on(frame: pd.DataFrame, figure: Figure) -> list[str]:
    """What a round took and cost, and how many there were."""
    assert figure.times is not None
    found = bandwidth.reached(frame, figure.times)
    said = f"{in_words(figure.times.metric)} {figure.times.level:g}"
    heads = [
        "task",
        "method",
        "computing of a worker, ms a round",
        "bits a round",
        f"rounds to {said}",
        "seeds there",
    ]
    return [
        "## What that rests on", "", "The least and the greatest over seeds and step sizes, as recorded.", "",
        *tables.markdown(heads, found.to_numpy().tolist()),
    ]  # fmt: skip
