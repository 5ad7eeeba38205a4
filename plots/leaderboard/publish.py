"""The files of a ranking: its tables as CSV, LaTeX and a page, and its pictures."""

import base64
import html
import json
import re
from collections.abc import Mapping
from pathlib import Path

import matplotlib
import pandas as pd

from common.files import atomic
from plots.figure import curves
from plots.leaderboard import draw
from plots.leaderboard.ranking import ALL, Goals, in_words
from plots.page.page import STYLE

FILTERS = ("level", "task", "family", "compressed", "warm-up")

_PICTURES = {
    "bits": "Bits of one worker, both directions, until a level is first seen, with 95 % intervals. Hollow arrows: "
    "not every seed got there.",
    "front": "All bits of a run against where it ends. The line joins entries that no other beats in both.",
    "curves": "The curves behind both: means over seeds, bands from the least to the greatest.",
}


def publish(
    name: str, frame: pd.DataFrame, ranking: pd.DataFrame, pairs: pd.DataFrame, goals: Goals, target: Path
) -> None:
    """Write ranking.csv, pairs.csv, ranking.tex, the pictures bits, front and curves as .pdf and .png, and the page
    ranking.html into the folder `target`."""
    matplotlib.use("Agg")
    pictures = {"bits": draw.dots(ranking), "front": draw.front(ranking), "curves": draw.behind(frame, goals)}
    for key, picture in pictures.items():
        curves.save(picture, target / f"{key}.pdf", target / f"{key}.png")
    texts = {
        "ranking.csv": ranking.to_csv(index=False),
        "pairs.csv": pairs.to_csv(index=False),
        "ranking.tex": _latex(name, ranking),
        "ranking.html": _page(name, ranking, {key: (target / f"{key}.png").read_bytes() for key in pictures}),
    }
    for file, text in texts.items():
        with atomic(target / file) as place:
            place.write_text(text)


def _page(name: str, ranking: pd.DataFrame, pictures: Mapping[str, bytes]) -> str:
    target = ranking["target"].map(lambda level: "" if pd.isna(level) else f" ({level:g})")
    places = pd.DataFrame({"level": ranking["level"].astype(str) + target, "task": ranking["task"]})
    warm_up = ranking["warm_up"].map(lambda share: f"{100 * share:.2g} % of the rounds" if share else "none")
    facts = ranking[["family", "compressed"]].assign(**{"warm-up": warm_up, "note": ranking["note"]})
    shown = pd.concat([places, in_words(ranking), facts], axis=1)
    images = [
        f'<figure><img alt="{key}" src="data:image/png;base64,{base64.b64encode(content).decode()}">'
        f"<figcaption class=note>{html.escape(_PICTURES[key])}</figcaption></figure>"
        for key, content in pictures.items()
    ]
    parts = {
        "title": html.escape(f"Bits to target: {name}"),
        "summary": f"{ranking['entry'].nunique()} entries. docs/leaderboard.md says how they are compared.",
        "style": STYLE.read_text(),
        "table": shown.to_html(index=False, border=0),
        "pictures": "\n".join(images),
        "filters": json.dumps(FILTERS),
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
