"""Tables in LaTeX: their numbers against loops over the rows, and that what is special in LaTeX is escaped."""

import math
import re

import pandas as pd
import pytest
from folder_support import folder

from plots.latex import latex_tables
from plots.runs.find import find
from plots.runs.variants import distinguish, latest, variant_rows


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """Two methods with several step sizes on two tasks, one of them with two seeds, and a third on one."""
    place = tmp_path_factory.mktemp("results")
    for task in ("one", "two"):
        for seed in (0, 1):
            folder(place, f"plain-{task}-{seed}", task=task, seed=seed, lrs=(0.1, 0.2, 0.3))
        folder(place, f"noisy-{task}", task=task, algorithm="noisy", lrs=(0.1, 0.2))
    look = {"label": r"a&b_c%d$e#f{g}", "color": "k", "marker": "o"}
    folder(place, "odd", task="two", algorithm="odd", algorithm__display=look)
    return variant_rows(latest(distinguish(find(place))))


def parts(text: str) -> list[tuple[str, dict[str, list[str]]]]:
    """Caption and cells by method of every table."""
    tables = re.findall(r"\\caption\{(.*?)\}\n.*?\\toprule\n(.*?)\\bottomrule", text, re.DOTALL)
    lines = [(caption, body.replace("\\midrule\n", "").strip().split(" \\\\\n")) for caption, body in tables]
    cells = [
        (caption, [re.split(r"(?<!\\) & ", line.removesuffix(" \\\\")) for line in some]) for caption, some in lines
    ]
    return [(caption, {first: rest for first, *rest in some}) for caption, some in cells]


def test_the_tables_of_runs(rows: pd.DataFrame) -> None:
    best, ends, *levels = parts(latex_tables(rows))
    assert best[0].startswith(
        "Best step sizes: the step size with the lowest geometric mean of the gradient norm over"
    )
    assert best[1] == {
        "Method": ["one", "two"], "Plain": ["0.3", "0.3"], "Noisy": ["0.2", "0.2"],
        r"a\&b\_c\%d\$e\#f\{g\}": ["--", "0.1"],
    }  # fmt: skip
    low = 0.7**100
    assert ends[1]["Plain"][0] == f"{low * math.sqrt(2):.3g} [{low:.3g}, {2 * low:.3g}]"
    assert [caption.partition(":")[0] for caption, _ in levels] == ["ONE", "TWO"]
    caption, cells = levels[0]
    assert "communication bits until the gradient norm reaches a level" in caption
    assert cells["Method"] == ["0.1", "0.01", "0.001", "0.0001", "1e-05"]
    firsts = [next(t for t in range(0, 101, 10) if (1 + seed) * 0.7**t <= 1e-3) for seed in (0, 1)]
    assert cells["Plain"][2].startswith(f"{80 * sum(firsts) / 2:.3g}".replace("e+0", "e"))


def test_the_metric_and_what_is_counted_can_be_asked_for(rows: pd.DataFrame) -> None:
    _, ends, *levels = parts(latex_tables(rows, "train_accuracy", "bits_up"))
    assert ends[0].startswith("The training accuracy at the last evaluation")
    assert "uplink bits until the training accuracy reaches a level" in levels[0][0]
    assert levels[0][1]["Noisy"][0] == "1.2e3"  # 40 · 30: 0.5 + 0.4 · 30/100 ≥ 0.6
