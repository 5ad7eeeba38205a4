"""What is on the drawn figure, its ticks, and the rows it is drawn from."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from curve_support import curve, labelled
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from PIL import Image

from plots.figure.curves import draw, save
from plots.figure.spec import Panel
from plots.runs.columns import label

NORM = Panel(x="round", y="grad_norm")
ROWS = [Panel(x="bits", x_scale="log", y="grad_norm"), NORM.replace(y_scale="linear")]

GRAD_NORM = label("grad_norm").replace("  ", "\n")
"""Its label in two lines, which a panel is high enough for."""


def two_by_two(second_task: str = "t") -> pd.DataFrame:
    """Two methods on two tasks, rows in disorder."""
    frame = pd.concat(
        [
            labelled("a", "s", curve(lambda r: 2.0 * 0.9**r, bits=3)),
            labelled("b", "s", curve(lambda r: 1.0 * 0.95**r, bits=100), color="red"),
            labelled("a", second_task, curve(lambda r: 4.0 * 0.8**r, bits=3)),
            labelled("b", second_task, curve(lambda r: 5.0 + r, bits=100), color="red"),
        ],
        ignore_index=True,
    )
    return frame.sort_values(["task", "algorithm", "round"], ascending=[True, True, False])


def panels(frame: pd.DataFrame, rows: list[Panel]) -> list[Axes]:
    return draw(frame, rows, "caption").axes


def lines(axis: Axes) -> dict[str, Line2D]:
    return {line.get_label(): line for line in axis.get_lines()}


def test_one_panel_for_each_row_and_task() -> None:
    figure = draw(two_by_two(), ROWS, "caption")
    axes = figure.axes
    assert len(axes) == 4
    assert figure.subfigs[0].legends[0].get_title().get_text() == ""
    assert [(axis.get_xscale(), axis.get_yscale()) for axis in axes] == [("log", "log")] * 2 + [("linear",) * 2] * 2
    assert [axis.get_title() for axis in axes] == ["S", "T", "", ""]
    assert [axis.get_xlabel() for axis in axes] == [label("bits")] * 2 + [label("round")] * 2
    assert [axis.get_ylabel() for axis in axes] == [GRAD_NORM, ""] * 2
    assert len(panels(two_by_two().query("task == 's'"), ROWS[:1])) == 1


def test_a_panel_of_one_task_is_drawn_of_that_alone() -> None:
    frame = two_by_two()
    rows = [ROWS[0].replace(task="s"), ROWS[1].replace(task="t")]
    axes = panels(frame, rows)
    assert [axis.get_title() for axis in axes] == ["S", "T"]
    assert [axis.get_xlabel() for axis in axes] == [label("bits"), label("round")]
    assert [axis.get_ylabel() for axis in axes] == [GRAD_NORM] * 2
    assert len({round(axis.get_position().y0, 2) for axis in axes}) == 1
    protocols = frame.assign(task=frame["task"] + " · best step sizes")  # the same task, drawn by protocol
    assert [axis.get_xlabel() for axis in panels(protocols, rows)] == [label("bits"), label("round")]


@pytest.mark.parametrize(("panel", "task", "row"), [(0, "s", 0), (1, "t", 0), (2, "s", 1), (3, "t", 1)])
def test_lines_are_the_data(panel: int, task: str, row: int) -> None:
    frame = two_by_two()
    drawn = lines(panels(frame, ROWS)[panel])
    assert set(drawn) == {"A", "B"}
    for algorithm in "ab":
        rows = frame[(frame["task"] == task) & (frame["algorithm"] == algorithm)].sort_values("round")
        if row == 0:
            rows = rows[rows["round"] > 0]  # it has no place on a logarithmic axis
        line = drawn[algorithm.upper()]
        assert np.array_equal(line.get_xdata(), rows[ROWS[row].x])
        assert np.array_equal(line.get_ydata(), rows["grad_norm"])


@pytest.mark.parametrize(("side", "far", "near"), [("y_min", 1e-30, 1e-2), ("y_max", 1e30, 0.1)])
def test_curves_are_cut_where_it_is_said_and_nowhere_else(side: str, far: float, near: float) -> None:
    frame = two_by_two()
    free, loose, tight = (
        panels(frame, [panel])[0] for panel in (NORM, *(NORM.replace(**{side: at}) for at in (far, near)))
    )
    kept, cut = (0, 1) if side == "y_max" else (1, 0)
    assert loose.get_ylim() == pytest.approx(free.get_ylim())
    assert tight.get_ylim()[cut] == near
    values = np.concatenate([line.get_ydata() for line in tight.get_lines()])
    furthest, beyond = (values.min(), values.max())[kept], free.get_ylim()[kept]
    assert min(furthest, beyond) <= tight.get_ylim()[kept] <= max(furthest, beyond)
    assert np.array_equal(lines(tight)["A"].get_ydata(), lines(free)["A"].get_ydata())


# how it fits into a page


def falling(name: str, factor: float, task: str = "s", start: float = 1.0, lr: float = 0.1) -> pd.DataFrame:
    return labelled(name, task, curve(lambda r: start * factor**r), lr=lr)


@pytest.mark.slow
def test_a_figure_is_exactly_as_wide_as_it_is_to_be(tmp_path: Path) -> None:
    frame = pd.concat(falling(f"a rather long name {n}", 0.9 - n / 10, f"t{t}") for n in range(2) for t in range(3))
    figure = draw(frame, [NORM], "note", 3.25)
    figure.canvas.draw()
    for artist in (*figure.subfigs[0].legends, *figure.axes):
        box = artist.get_tightbbox(figure.canvas.get_renderer())
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.width
    save(figure, tmp_path / "it.png")
    with Image.open(tmp_path / "it.png") as picture:
        assert picture.size[0] == pytest.approx(200 * 3.25, abs=1)
    assert len({round(axis.get_position().x0, 2) for axis in figure.axes}) == 2


def test_no_setting_of_a_users_matplotlibrc_changes_a_picture(tmp_path: Path) -> None:
    theirs = {"text.usetex": True, "axes.facecolor": "yellow", "axes.grid": True, "figure.dpi": 30, "font.size": 20,
              "image.cmap": "jet", "legend.loc": "center", "lines.linewidth": 5, "savefig.bbox": "tight",
              "savefig.transparent": True, "xtick.bottom": False}  # fmt: skip
    for name, settings in (("plain", {}), ("theirs", theirs)):
        with mpl.rc_context(settings):
            save(draw(two_by_two(), ROWS, "note"), tmp_path / f"{name}.png")
    assert (tmp_path / "plain.png").read_bytes() == (tmp_path / "theirs.png").read_bytes()


def test_families_are_those_that_are_given_and_a_method_may_be_in_two() -> None:
    frame = pd.concat(falling(name, 0.9) for name in "abc")
    figure = draw(frame, [NORM], "", families=[["a", "b"], ["c", "a"]])
    lines = [[line.get_label() for line in axis.get_lines()] for axis in figure.axes]
    assert [sorted(some) for some in lines] == [["A", "B"], ["A", "C"]]


def test_the_curve_of_a_run_that_diverged_ends_in_a_cross() -> None:
    frame = pd.concat([falling("a", 0.9, "s").assign(diverged=False), falling("b", 0.8, "s").assign(diverged=True)])
    [axis] = draw(frame, [NORM], "").axes
    [cross] = axis.collections
    last = frame[frame["algorithm"] == "b"].iloc[-1]
    assert cross.get_offsets().tolist() == [[last["round"], pytest.approx(last["grad_norm"])]]


def test_a_panel_has_at_most_seven_curves_and_every_method_is_in_one() -> None:
    names = [f"m{n}" for n in range(16)]
    figure = draw(pd.concat(falling(name, 0.9 - n / 50) for n, name in enumerate(names)), [NORM], "")
    each = [[text.get_text().lower() for text in block.legends[0].get_texts()] for block in figure.subfigs]
    assert [len(some) for some in each] == [6, 6, 4]
    assert [name for some in each for name in some] == names
    assert len({axis.get_ylim() for axis in figure.axes}) == 1  # so that blocks can be compared
