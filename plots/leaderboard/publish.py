"""The files of a ranking: tables as CSV and LaTeX, pictures, and a page."""

import base64
import html
import json
import re
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import pandas as pd

from plots.figure import curves
from plots.leaderboard import draw
from plots.leaderboard.ranking import ALL, Goals, in_words
from plots.page.page import STYLE

FILTERS = ["level", "task", "family", "compressed", "memory", "warm-up"]


def publish(
    name: str, frame: pd.DataFrame, ranking: pd.DataFrame, pairs: pd.DataFrame, goals: Goals, target: Path
) -> None:
    """Write the files of a ranking into the folder `target`.

    These are ranking.csv, pairs.csv, ranking.tex, the page ranking.html, and the pictures bits, front and curves as
    .pdf and .png.
    """
    matplotlib.use("Agg")
    pictures = {"bits": draw.dots(ranking), "front": draw.front(ranking), "curves": draw.behind(frame, goals)}
    for key, picture in pictures.items():
        curves.save(picture, target / f"{key}.pdf", target / f"{key}.png")
    ranking.to_csv(target / "ranking.csv", index=False)
    pairs.to_csv(target / "pairs.csv", index=False)
    (target / "ranking.tex").write_text(_latex(name, ranking))
    (target / "ranking.html").write_text(_page(name, ranking, [target / f"{key}.png" for key in pictures]))


def _page(name: str, ranking: pd.DataFrame, pictures: Sequence[Path]) -> str:
    target = ranking["target"].map(lambda level: "" if pd.isna(level) else f" ({level:g})")
    places = pd.DataFrame({"level": ranking["level"].astype(str) + target, "task": ranking["task"]})
    warm_up = ranking["warm_up"].map(lambda share: f"{100 * share:.2g} % of the rounds" if share else "none")
    facts = ranking[["family", "compressed", "memory"]].assign(**{"warm-up": warm_up, "note": ranking["note"]})
    shown = pd.concat([places, in_words(ranking), facts], axis=1)
    content = {file.stem: base64.b64encode(file.read_bytes()).decode() for file in pictures}
    parts = {
        "title": html.escape(f"Bits to target: {name}"),
        "summary": f"{ranking['entry'].nunique()} entries. docs/leaderboard.md explains the comparison.",
        "style": STYLE.read_text(),
        "table": shown.to_html(index=False, border=0),
        "filters": json.dumps(FILTERS),
        **content,
    }
    template = Path(__file__).with_name("page.html").read_text()
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], template)


def _latex(name: str, ranking: pd.DataFrame) -> str:
    """A table for each level of all tasks together, for a document with booktabs."""
    parts = ["% needs \\usepackage{booktabs}, and XeLaTeX or LuaLaTeX for names with Greek letters"]
    for level, rows in ranking[ranking["task"] == ALL].groupby("level"):
        text = in_words(rows).drop(columns="gradients").replace("–", "--")
        style = text.style.hide(axis="index").format(escape="latex").format_index(escape="latex", axis=1)
        caption = f"Bits to level {level} of track {name}, with 95\\,\\% intervals."
        parts.append(style.to_latex(hrules=True, caption=caption.replace("_", r"\_"), position_float="centering"))
    return "\n".join(parts).replace("×", r"$\times$")
