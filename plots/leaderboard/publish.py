"""The files of a ranking: tables as CSV and LaTeX, pictures, and a page."""

import base64
import html
import json
import re
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import pandas as pd

from common.tables import write_csv
from plots.figure import curves
from plots.leaderboard import draw, effects
from plots.leaderboard.ranking import ALL, Goals, Levels, in_words
from plots.page.page import STYLE

CAPTIONS = {
    "bits": "Bits of one worker in both directions until a level is first seen, with 95 % intervals. "
    "Hollow arrows are lower bounds: some seed missed the level.",
    "front": "All bits of a run against its final metric. The line joins the entries that no other beats in both. "
    "Metrics below 1e-12 are drawn at 1e-12. Entries with a diverged seed are left out.",
    "curves": "The curves of all entries: means over seeds, with bands from the least to the greatest. "
    "A mean ends where the first seed ends, in a cross if that seed diverged. Arrows: the curve leaves the panel.",
    "effects": "Entries that differ in one part alone: how many times fewer bits the second value needs.",
}
FILTERS = ["level", "task", "family", "compressed", "memory", "warm-up"]


def publish(
    name: str,
    frame: pd.DataFrame,
    ranking: pd.DataFrame,
    pairs: pd.DataFrame,
    claims: pd.DataFrame,
    goals: Goals,
    levels: Levels,
    target: Path,
) -> None:
    """Write the files of a ranking into the folder `target`.

    These are ranking.csv, pairs.csv, claims.csv, effects.csv, ranking.tex, the page ranking.html, and the pictures
    bits, front, curves and, if entries differ in one part alone, effects, as .pdf and .png.
    """
    table = effects.effects_by_level(frame, levels)
    target.mkdir(parents=True, exist_ok=True)
    for key, rows in {"ranking": ranking, "pairs": pairs, "claims": claims, "effects": table}.items():
        write_csv(rows, target / f"{key}.csv")
    (target / "ranking.tex").write_text(_latex(name, ranking))
    matplotlib.use("Agg")
    pictures = {"bits": draw.dots(ranking), "front": draw.front(ranking), "curves": draw.entry_curves(frame, goals)}
    comparable = table[table[["both", *effects.ALONE]].any(axis=1)]
    if not comparable.empty:
        pictures["effects"] = effects.draw(comparable)
    for key, picture in pictures.items():
        curves.save(picture, target / f"{key}.pdf", target / f"{key}.png")
    (target / "ranking.html").write_text(_page(name, ranking, [target / f"{key}.png" for key in pictures]))


def _page(name: str, ranking: pd.DataFrame, pictures: Sequence[Path]) -> str:
    target = ranking["target"].map(lambda level: "" if pd.isna(level) else f"{level:g}")
    places = ranking[["level", "task"]].assign(target=target)
    warm_up = ranking["warm_up"].map(lambda share: f"{100 * share:.2g} % of the rounds" if share > 0 else "none")
    facts = ranking[["family", "compressed", "memory"]].assign(**{"warm-up": warm_up, "note": ranking["note"]})
    shown = pd.concat([places, in_words(ranking), facts], axis=1)
    figure = (
        '<figure><img alt="{}" src="data:image/png;base64,{}">\n<figcaption class="note">{}</figcaption></figure>'
    )
    content = [(file.stem, base64.b64encode(file.read_bytes()).decode(), CAPTIONS[file.stem]) for file in pictures]
    parts = {
        "title": html.escape(f"Bits to target: {name}"),
        "summary": f"{ranking['entry'].nunique()} entries. docs/leaderboard.md explains the comparison.",
        "style": STYLE.read_text(),
        "table": shown.to_html(index=False, border=0),
        "filters": json.dumps(FILTERS),
        "figures": "\n".join(figure.format(*words) for words in content),
    }
    template = Path(__file__).with_name("page.html").read_text()
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], template)


def _latex(name: str, ranking: pd.DataFrame) -> str:
    """A table for each level of all tasks together, for a document with booktabs."""
    parts = ["% needs \\usepackage{booktabs}, and XeLaTeX or LuaLaTeX for names with Greek letters"]
    for level, rows in ranking[ranking["task"] == ALL].groupby("level"):
        text = in_words(rows).drop(columns="gradients").replace("–", "--")
        style = text.style.hide(axis="index").format(escape="latex").format_index(escape="latex", axis=1)
        noted = " An asterisk: has a note in ranking.csv." if rows["note"].any() else ""
        caption = f"Bits to level {level} of track {name}, with 95\\,\\% intervals.{noted}"
        parts.append(style.to_latex(hrules=True, caption=caption.replace("_", r"\_"), position_float="centering"))
    return "\n".join(parts).replace("×", r"$\times$").replace("> ", "$>$ ")
