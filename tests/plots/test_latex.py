"""Tables in LaTeX: their numbers against loops over the rows, their form, and that a LaTeX compiles them."""

import math
import re
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from folder_support import folder

from plots.latex import escaped, latex_tables, number
from plots.runs.find import find
from plots.runs.variants import distinguish, latest, variant_rows

ODD = r"a&b_c%d$e#f{g}h~i^j\k<l>m|n β₂ α − × é"


def rows(place: Path) -> pd.DataFrame:
    """Two methods with two step sizes on two tasks, one of them with two seeds, and one that only one task has."""
    for task in ("one", "two"):
        for seed in (0, 1):
            folder(place, f"plain-{task}-{seed}", task=task, seed=seed, lrs=(0.1, 0.2, 0.3))
        folder(place, f"noisy-{task}", task=task, algorithm="noisy", lrs=(0.1, 0.2))
    folder(place, "odd", task="two", algorithm="odd", algorithm__display={"label": ODD, "color": "k", "marker": "o"})
    return variant_rows(latest(distinguish(find(place))))


def parts(text: str) -> list[tuple[str, list[list[str]]]]:
    """Caption and cells of every table, after its form is verified."""
    found = []
    for body in re.findall(r"\\begin\{table\*?\}(.*?)\\end\{table\*?\}", text, re.DOTALL):
        caption, columns, head, lines = re.fullmatch(
            r"\s*\\centering\s*\\caption\{(.*)\}\s*\\begin\{tabular\}\{(\w+)\}\s*\\toprule\s*(.*?) \\\\\s*"
            r"\\midrule\s*(.*?)\s*\\bottomrule\s*\\end\{tabular\}\s*", body, re.DOTALL,
        ).groups()  # fmt: skip
        cells = [re.split(r"(?<!\\) & ", line.strip()) for line in [head, *re.split(r" \\\\(?:\n|$)", lines)] if line]
        assert {len(line) for line in cells} == {len(columns)}
        plain = re.sub(r"\\[\\{}$%#&_]", "", body)
        assert plain.count("{") == plain.count("}")
        assert plain.count("$") % 2 == 0
        found.append((caption, cells))
    return found


def test_the_tables_of_runs(tmp_path: Path) -> None:
    best, ends, *levels = parts(latex_tables(rows(tmp_path)))
    assert best[0].startswith(
        "Best step sizes: the step size with the lowest geometric mean of the gradient norm over"
    )
    assert best[1][0] == ["Method", "ONE", "TWO"]
    assert {line[0]: line[1:] for line in best[1][1:]} == {
        "Plain": ["$0.3^{*}$", "$0.3^{*}$"], "Noisy": ["$0.2^{*}$", "$0.2^{*}$"], escaped(ODD): ["--", "$0.1$"]
    }  # fmt: skip
    assert "means over seeds 0, 1, the least and the greatest in brackets" in ends[0]
    low = 0.7**100
    shown = f"{number(low * math.sqrt(2))} [{number(low)}, {number(2 * low)}]"
    assert {line[0]: line[1] for line in ends[1]}["Plain"] == shown
    assert [caption.partition(":")[0] for caption, _ in levels] == ["ONE", "TWO"]
    caption, cells = levels[0]
    assert "bits of one worker, both directions, until the gradient norm was first seen at or below" in caption
    assert cells[0][1:] == ["$0.1$", "$0.01$", "$0.001$", "$10^{-4}$", "$10^{-5}$"]
    firsts = [next(t for t in range(0, 101, 10) if (1 + seed) * 0.7**t <= 1e-3) for seed in (0, 1)]
    [line] = [line for line in cells if line[0] == "Plain"]
    assert line[3].startswith(number(80 * sum(firsts) / 2))


def test_the_metric_and_what_is_counted_can_be_asked_for(tmp_path: Path) -> None:
    _, ends, *levels = parts(latex_tables(rows(tmp_path), "train_accuracy", "bits_up"))
    assert ends[0].startswith("The training accuracy at the last evaluation")
    assert all(
        "uplink bits until the training accuracy was first seen at or above a level" in some for some, _ in levels
    )
    assert {line[0]: line[1] for line in levels[0][1]}["Noisy"] == number(40 * 30)  # 0.5 + 0.4 · 30/100 ≥ 0.6


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.001, "$0.001$"), (0, "$0$"), (1234.5, "$1230$"), (123456, r"$1.23\times10^{5}$"), (1e-5, "$10^{-5}$"),
     (2.997e-7, r"$3\times10^{-7}$"), (math.nan, "--"), (-0.00012, r"$-1.2\times10^{-4}$"), (9999.7, "$10000$")],
)  # fmt: skip
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


def test_no_special_character_is_left() -> None:
    assert escaped("100% of $5 & a_b {x}") == r"100\% of \$5 \& a\_b \{x\}"
    assert escaped("β₂ = 0.99, x²") == r"$\beta$$_{2}$ = 0.99, x$^{2}$"


@pytest.mark.skipif(not any(map(shutil.which, ("pdflatex", "tectonic"))), reason="no LaTeX here")
def test_a_latex_compiles_them(tmp_path: Path) -> None:
    (tmp_path / "tables.tex").write_text(latex_tables(rows(tmp_path)))
    head = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\\input{tables}\\end{document}"
    (tmp_path / "paper.tex").write_text(head)
    program = ["pdflatex", "-halt-on-error"] if shutil.which("pdflatex") else ["tectonic"]
    done = subprocess.run([*program, "paper.tex"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "paper.pdf").read_bytes().startswith(b"%PDF")
