"""How a figure fits into a page: its width, letters and legend, shared ranges, and what is said of its curves."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from curve_support import curve, labelled
from folder_support import folder
from matplotlib.font_manager import FontProperties, findfont
from PIL import Image

from plots.figure import lettering
from plots.figure.curves import divided, draw, save
from plots.figure.look import MOST, Look
from plots.figure.spec import Panel
from plots.plot import main

NORM = Panel(x="round", y="grad_norm")


def falling(name: str, factor: float, task: str = "s", start: float = 1.0, lr: float = 0.1) -> pd.DataFrame:
    return labelled(name, task, curve(lambda r: start * factor**r), lr=lr)


def test_a_figure_is_exactly_as_wide_as_it_is_to_be(tmp_path: Path) -> None:
    frame = pd.concat(
        falling(f"a rather long name of a method {n}", 0.9 - n / 10, f"t{t}") for n in range(3) for t in range(4)
    )
    for width in (3.25, 6.0):
        look = Look(width=width)
        figure = draw(frame, [NORM], "note", look)
        figure.canvas.draw()
        for artist in (*figure.legends, *figure.axes):
            box = artist.get_tightbbox(figure.canvas.get_renderer())
            assert box.x0 >= 0
            assert box.x1 <= figure.bbox.width
        save(figure, tmp_path / "it.png", look=look)
        with Image.open(tmp_path / "it.png") as picture:
            assert picture.size[0] == pytest.approx(200 * width, abs=1)
        across = {round(axis.get_position().x0, 2) for axis in figure.axes}
        assert len(across) == (2 if width < 4 else 4)


def test_letters_have_the_size_and_the_font_that_are_asked_for() -> None:
    figure = draw(falling("a", 0.9), [NORM], "note", Look(font="serif", font_size=6.0))
    axis = figure.axes[0]
    texts = [axis.xaxis.label, *axis.get_xticklabels(), *figure.legends[0].get_texts()]
    assert axis.xaxis.label.get_size() == figure.legends[0].get_texts()[0].get_size() == 6.0
    fonts = {findfont(text.get_fontproperties()) for text in texts}
    assert fonts == {findfont(FontProperties(family=["serif"]))}
    assert fonts != {findfont(FontProperties(family=["sans-serif"]))}


def legend(figure) -> list[str]:
    return [" ".join(text.get_text().split()) for text in figure.legends[0].get_texts()]


def test_step_sizes_stand_in_the_legend_on_request() -> None:
    frame = pd.concat(
        [falling("a", 0.9, lr=0.1), falling("a", 0.9, "t", lr=0.3), *(falling("b", 0.8, t) for t in "st")]
    )
    assert legend(draw(frame, [NORM], "")) == ["A", "B"]
    assert legend(draw(frame, [NORM], "", Look(step_sizes=True))) == ["A (α = 0.1, 0.3)", "B (α = 0.1)"]


def test_a_panel_has_at_most_seven_curves_and_every_method_is_in_one() -> None:
    names = [f"m{n}" for n in range(16)]
    frame = pd.concat(falling(name, 0.9 - n / 50) for n, name in enumerate(names))
    figure = draw(frame, [NORM], "")
    each = [[text.get_text() for text in block.legends[0].get_texts()] for block in figure.subfigs]
    assert [len(some) for some in each] == [7, 7, 2]
    assert [name.lower() for some in each for name in some] == names
    assert len({axis.get_ylim() for axis in figure.axes}) == 1  # so that blocks can be compared
    assert divided(names[:MOST]) == [names[:MOST]]
    variants = [f"{name}, ratio={ratio}" for name in "abc" for ratio in range(4)]
    assert divided(variants) == [variants[:4], variants[4:8], variants[8:]]  # those of a method together
    assert [len(some) for some in divided([f"a, ratio={ratio}" for ratio in range(10)])] == [5, 5]


def test_families_are_those_that_are_given_and_a_method_may_be_in_two() -> None:
    frame = pd.concat(falling(name, 0.9) for name in "abc")
    figure = draw(frame, [NORM], "", families=[["a", "b"], ["c", "a"]])
    lines = [[line.get_label() for line in axis.get_lines()] for axis in figure.axes]
    assert [sorted(some) for some in lines] == [["A", "B"], ["A", "C"]]


@pytest.mark.parametrize(("ends", "shared"), [((1e-6, 1e-4), True), ((1e-9, 1e-1), False)])
def test_panels_share_a_range_unless_one_would_be_squashed(ends: tuple[float, float], shared: bool) -> None:
    frame = pd.concat(falling("a", end**0.01, task) for task, end in zip("st", ends, strict=True))
    limits = [axis.get_ylim() for axis in draw(frame, [NORM], "").axes]
    assert (limits[0] == limits[1]) == shared
    for (low, high), end in zip(limits, ends, strict=True):
        assert low < end * 1.001
        assert high > 1


def test_other_quantities_have_ranges_of_their_own() -> None:
    frame = pd.concat(falling("a", 0.9, task).assign(train_loss=7.0 + np.arange(11)) for task in "st")
    axes = draw(frame, [NORM, Panel(x="round", y="train_loss")], "").axes
    assert len({axis.get_ylim() for axis in axes}) == 2


def test_curves_that_lie_on_one_another_are_named() -> None:
    frame = pd.concat([
        *(falling(name, factor, "s") for name, factor in (("a", 0.9), ("b", 0.9), ("c", 0.8))),
        *(falling(name, factor, "t") for name, factor in (("a", 0.9), ("b", 0.85), ("c", 0.8))),
    ])  # fmt: skip
    assert draw(frame, [NORM], "").get_supxlabel() == "A and B coincide over rounds on S."
    twice = pd.concat([frame, frame[frame["task"] == "s"].assign(task="u", task_label="U")])
    assert draw(twice, [NORM], "").get_supxlabel() == "A and B coincide over rounds on S and U."
    one = draw(frame[frame["task"] == "s"], [NORM], "note").get_supxlabel()
    assert one.splitlines() == ["note", "A and B coincide over rounds."]
    assert draw(frame[frame["task"] == "t"], [NORM], "note").get_supxlabel() == "note"


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("font=Nonsense Grotesk", "font=Nonsense Grotesk: no such font is installed; serif,"),
        ("width=0.5", "width=0.5: must be from 1.5 to 40, in inches"),
        ("font_size=100", "font_size=100: must be from 3 to 40, in points"),
        ("caption=below", "caption=below: no such choice; Valid: outside, inside"),
    ],
)
def test_what_fits_no_page_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str, message: str
) -> None:
    folder(tmp_path, "a")
    with pytest.raises(SystemExit) as stop:
        main([f"results_dir={tmp_path}", key])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "plots").exists()


def test_curves_evaluated_at_other_rounds_coincide_too() -> None:
    dense = falling("a", 0.9, "s")
    sparse = falling("b", 0.9, "s")[lambda rows: rows["round"] % 20 == 0]
    assert draw(pd.concat([dense, sparse]), [NORM], "").get_supxlabel() == "A and B coincide over rounds."
    late = dense.assign(
        algorithm="b", label="B", grad_norm=dense["grad_norm"] * np.where(dense["round"] > 5, 3.0, 1.0)
    )
    assert draw(pd.concat([dense, late]), [NORM], "").get_supxlabel() == ""


def test_the_curve_of_a_run_that_diverged_ends_in_a_cross() -> None:
    frame = pd.concat([falling("a", 0.9, "s").assign(diverged=False), falling("b", 0.8, "s").assign(diverged=True)])
    [axis] = draw(frame, [NORM], "").axes
    [cross] = axis.collections
    last = frame[frame["algorithm"] == "b"].iloc[-1]
    assert cross.get_offsets().tolist() == [[last["round"], pytest.approx(last["grad_norm"])]]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (r"gradient norm  $\|\nabla f(x)\|_2$", ["gradient norm", r"$\|\nabla f(x)\|_2$"]),
        (r"$\sum \hat v$ over uncompressed", [r"$\sum \hat v$ over", "uncompressed"]),
        ("test accuracy", ["test accuracy"]),
    ],
)
def test_a_label_breaks_between_words_and_formulas_and_never_in_one(text: str, lines: list[str]) -> None:
    assert lettering.in_lines(text, 16).split("\n") == lines


def test_no_word_of_a_note_stands_alone() -> None:
    words = "word " * 21
    lines = lettering.balanced(words.strip(), 100).split("\n")  # of which the first would have twenty
    assert [len(line.split()) for line in lines] == [12, 9]


def test_a_curve_that_ends_early_or_has_no_values_coincides_with_none() -> None:
    whole, gone = (pd.concat([falling(name, 0.9, "s")]) for name in ("a", "b"))
    gone.loc[gone["round"] > gone["round"].min(), "grad_norm"] = np.nan
    assert draw(pd.concat([whole, gone]), [NORM], "note").get_supxlabel() == "note"
    never = gone.assign(grad_norm=np.nan)
    assert draw(pd.concat([whole, never]), [NORM], "note").get_supxlabel() == "note"
