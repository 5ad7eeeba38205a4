"""What is on the drawn figure, its ticks, and the rows it is drawn from."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from curve_support import curve, labelled
from folder_support import folder
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plots.figure.curves import draw
from plots.figure.lettering import drawable
from plots.figure.spec import Panel
from plots.runs.columns import label
from plots.runs.read import open_run, table

NORM = Panel(x="round", y="grad_norm")
ROWS = [Panel(x="bits", x_scale="log", y="grad_norm"), replace(NORM, y_scale="linear")]

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


def test_of_curves_on_one_another_each_has_markers_of_its_own_and_the_headline_lies_above() -> None:
    rounds = np.arange(0, 1001, 5)
    names = ("a", "b", "c")
    frame = pd.concat([labelled(name, "s", curve(lambda r: 0.99**r, rounds)) for name in names], ignore_index=True)
    for panel in (NORM, ROWS[0]):
        [axis] = panels(frame.assign(front=frame["algorithm"] == "b"), [panel])
        found = lines(axis)
        marked = [set(found[name.title()].get_markevery()) for name in names]
        assert all(5 <= len(some) <= 7 for some in marked)
        late = [{index for index in some if index > 20} for some in marked]  # with evaluations to choose among
        assert all(one.isdisjoint(other) for one, other in pairwise([*late, late[0]]))
        assert max(found, key=lambda name: found[name].get_zorder()) == "B"


def test_one_panel_for_each_row_and_task() -> None:
    figure = draw(two_by_two(), ROWS, "caption")
    axes = figure.axes
    assert len(axes) == 4
    assert figure.legends[0].get_title().get_text() == ""
    assert [(axis.get_xscale(), axis.get_yscale()) for axis in axes] == [("log", "log")] * 2 + [("linear",) * 2] * 2
    assert [axis.get_title() for axis in axes] == ["S", "T", "", ""]
    assert [axis.get_xlabel() for axis in axes] == [label("bits")] * 2 + [label("round")] * 2
    assert [axis.get_ylabel() for axis in axes] == [GRAD_NORM, ""] * 2
    assert len(panels(two_by_two().query("task == 's'"), ROWS[:1])) == 1


FOUR = [
    Panel(x="epoch", y="grad_norm"),
    ROWS[0],
    Panel(x="bits", x_scale="log", y="train_loss"),
    Panel(x="bits", x_scale="log", y="test_accuracy", y_scale="linear"),
]


def one_task(panels: int) -> Figure:
    frame = two_by_two().query("task == 's'")
    frame = frame.assign(epoch=frame["round"] / 10, train_loss=frame["grad_norm"], test_accuracy=0.5)
    figure = draw(frame, (FOUR * 3)[:panels], "caption")
    figure.canvas.draw()
    return figure


@pytest.mark.parametrize(("count", "rows"), [(1, [1]), (4, [4]), (5, [3, 2]), (9, [3, 3, 3])])
def test_panels_of_a_single_task_stand_beside_each_other(count: int, rows: list[int]) -> None:
    axes = one_task(count).axes
    heights = [round(axis.get_position().y0, 2) for axis in axes]
    assert [heights.count(height) for height in dict.fromkeys(heights)] == rows
    assert heights == sorted(heights, reverse=True)
    for above, below in pairwise(axes):  # in reading order
        assert below.get_position().x0 > above.get_position().x0 or below.get_position().y1 < above.get_position().y0


def test_tasks_of_a_single_panel_stand_four_to_a_row() -> None:
    frame = two_by_two().query("task == 's'")
    each = [frame.assign(task=f"{number}", task_label=f"T{number}") for number in range(6)]
    axes = panels(pd.concat(each), ROWS[:1])
    assert [axis.get_title() for axis in axes] == [f"T{number}" for number in range(6)]
    assert [axis.get_xlabel() for axis in axes] == [""] * 3 + [label("bits")] * 3
    assert [axis.get_ylabel() for axis in axes] == [GRAD_NORM, "", ""] * 2
    assert len({round(axis.get_position().y0, 2) for axis in axes}) == 2


def test_a_panel_of_one_task_is_drawn_of_that_alone() -> None:
    frame = two_by_two()
    rows = [replace(ROWS[0], task="s"), replace(ROWS[1], task="t")]
    axes = panels(frame, rows)
    assert [axis.get_title() for axis in axes] == ["S", "T"]
    assert [axis.get_xlabel() for axis in axes] == [label("bits"), label("round")]
    assert [axis.get_ylabel() for axis in axes] == [GRAD_NORM] * 2
    assert len({round(axis.get_position().y0, 2) for axis in axes}) == 1
    protocols = frame.assign(task=frame["task"] + " · best step sizes")  # the same task, drawn by protocol
    assert [axis.get_xlabel() for axis in panels(protocols, rows)] == [label("bits"), label("round")]


def test_a_family_has_no_panel_of_a_task_without_its_curves() -> None:
    frame = two_by_two().query("not (task == 't' and algorithm == 'b')")
    axes = draw(frame, ROWS[:1], "caption", families=[["a"], ["b"]]).axes
    assert [axis.get_title() for axis in axes] == ["S", "T", "S"]


def test_panels_of_a_single_task_say_what_they_show() -> None:
    figure = one_task(4)
    assert [axis.get_xlabel() for axis in figure.axes] == ["epochs"] + ["communication bits"] * 3
    assert [axis.get_ylabel() for axis in figure.axes] == [
        GRAD_NORM, GRAD_NORM, "training loss", "test accuracy"
    ]  # fmt: skip
    assert [axis.get_yscale() for axis in figure.axes] == ["log"] * 3 + ["linear"]
    assert {axis.get_title() for axis in figure.axes} == {""}
    assert figure.legends[0].get_title().get_text() == "S"
    renderer = figure.canvas.get_renderer()
    for axis in figure.axes:
        text = axis.yaxis.label.get_window_extent(renderer)
        assert text.height <= axis.get_window_extent(renderer).height  # or it would stand in the legend
        assert text.x0 >= 0


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


def test_a_method_looks_the_same_everywhere() -> None:
    axes = panels(two_by_two(), ROWS)
    for name, color, marker in (("A", "k", "o"), ("B", "red", "s")):
        looks = {(to_rgba(lines(axis)[name].get_color()), lines(axis)[name].get_marker()) for axis in axes}
        assert looks == {(to_rgba(color), marker)}


def test_markers_lie_on_points_and_reach_from_end_to_end() -> None:
    frame = labelled("a", "s", curve(lambda r: 1.0 + r, tuple(range(1001))))
    for axis, first in zip(panels(frame, ROWS), (1, 0), strict=True):
        (line,) = axis.get_lines()
        marks = line.get_markevery()
        assert (marks[0], marks[-1]) == (0, 1000 - first)
        assert len(marks) == 7
        places = line.get_xdata()[marks]
        steps = np.diff(np.log(places) if first else places)
        assert steps == pytest.approx([steps.mean()] * 6, rel=0.1)


@pytest.mark.parametrize(("side", "far", "near"), [("y_min", 1e-30, 1e-2), ("y_max", 1e30, 0.1)])
def test_curves_are_cut_where_it_is_said_and_nowhere_else(side: str, far: float, near: float) -> None:
    frame = two_by_two()
    free, loose, tight = (
        panels(frame, [panel])[0] for panel in (NORM, *(replace(NORM, **{side: at}) for at in (far, near)))
    )
    kept, cut = (0, 1) if side == "y_max" else (1, 0)
    assert loose.get_ylim() == pytest.approx(free.get_ylim())
    assert tight.get_ylim()[cut] == near
    values = np.concatenate([line.get_ydata() for line in tight.get_lines()])
    furthest, beyond = (values.min(), values.max())[kept], free.get_ylim()[kept]
    assert min(furthest, beyond) <= tight.get_ylim()[kept] <= max(furthest, beyond)
    assert np.array_equal(lines(tight)["A"].get_ydata(), lines(free)["A"].get_ydata())


def test_what_is_cut_off_takes_no_room_at_the_other_end() -> None:
    frame = labelled("a", "s", curve([1e19, 90.0, 20.0], (0, 50, 100)))
    [axis] = panels(frame, [replace(NORM, y_max=100.0)])
    low, high = axis.get_ylim()
    assert high == 100.0
    assert 15 < low < 20


def test_a_range_with_both_ends_is_that_of_every_panel() -> None:
    flat = labelled("a", "t", curve([1.0, 1.01], (0, 100)))
    steep = labelled("a", "s", curve([1.0, 5.0], (0, 100)))
    figure = panels(pd.concat([steep, flat]), [Panel(x="round", y="grad_norm", y_min=0.5, y_max=10.0)])
    assert [axis.get_ylim() for axis in figure] == [(0.5, 10.0), (0.5, 10.0)]


def test_one_evaluation_can_be_drawn() -> None:
    # With eval_every above the number of rounds all there is are round 0 and the last.
    frame = labelled("a", "s", curve([2.0, 1.0], (0, 100)))
    logarithmic, linear = panels(frame, ROWS)
    assert len(lines(logarithmic)["A"].get_xdata()) == 1
    assert len(lines(linear)["A"].get_xdata()) == 2


def test_drawing_leaves_the_style_of_others_alone() -> None:
    before = dict(mpl.rcParams)
    draw(two_by_two(), ROWS, "caption")
    assert dict(mpl.rcParams) == before


def test_the_legend_names_methods_that_the_first_task_lacks() -> None:
    extra = labelled("c", "t", curve(lambda r: 1.0 + r), color="blue")
    (legend,) = draw(pd.concat([two_by_two(), extra]), ROWS, "caption").legends
    assert [text.get_text() for text in legend.get_texts()] == ["A", "B", "C"]


def test_the_rows_of_runs(tmp_path: Path) -> None:
    for algorithm in ("plain", "noisy"):
        folder(tmp_path, algorithm, algorithm=algorithm, lrs=(0.1, 0.3), seed=3, norm=lambda t, lr, seed: 1 / (3 + t))
    folders = [tmp_path / "toy" / name / name for name in ("plain", "noisy")]
    frame = table([open_run(path) for path in folders])
    written = [json.loads(line) for path in folders for line in (path / "metrics.jsonl").read_text().splitlines()]
    assert len(frame) == len(written) == 2 * 11 * 2
    for (_, row), expected in zip(frame.iterrows(), written, strict=True):
        assert expected.pop("crc32")
        for name, value in expected.items():
            assert row[name] == value, name  # to the last bit
    for name in ("algorithm", "run", "label"):
        assert frame[name].str.lower().tolist() == ["plain"] * 22 + ["noisy"] * 22
    for name, value in {"task": "toy", "task_label": "TOY", "compressor": "ScaledSign", "seed": 3, "d": 8}.items():
        assert set(frame[name]) == {value}


# ticks of logarithmic axes


def spanning(low: float, high: float, bits: int = 10) -> Axes:
    """A drawn panel whose curve goes from high to low over bits, both axes logarithmic."""
    frame = labelled("a", "s", curve([high, high, low], (0, 10, 20), bits))
    figure = draw(frame, [Panel(x="bits", x_scale="log", y="grad_norm")], "")
    figure.canvas.draw()
    return figure.axes[0]


def labels(axis: Axes, side: str = "y") -> list[str]:
    """The texts of the ticks in view, in plain letters."""
    low, high = getattr(axis, f"get_{side}lim")()
    ticks, texts = getattr(axis, f"get_{side}ticks")(), getattr(axis, f"get_{side}ticklabels")()
    return [text.get_text() for tick, text in zip(ticks, texts, strict=True) if low <= tick <= high]


@pytest.mark.parametrize(
    ("low", "high"),
    [(0.5, 2.3), (1.4, 2.2), (1.01, 1.02), (2.0, 5.0), (0.2, 8.0), (0.9, 11.0), (1e-8, 1e4), (2.1e-6, 4.9e-6),
     (1e-12, 1.1e-12), (0.11, 0.95)],
)  # fmt: skip
def test_at_least_two_ticks_are_labelled_and_not_too_many(low: float, high: float) -> None:
    texts = labels(spanning(low, high))
    assert 2 <= len(texts) <= 6
    assert len(set(texts)) == len(texts)
    assert "" not in texts


def test_what_the_labels_say() -> None:
    assert labels(spanning(0.5, 2.3)) == ["0.5", "1", "2"]
    assert labels(spanning(1.4, 2.2)) == ["1.5", "1.75", "2", "2.25"]
    assert labels(spanning(2.1e-6, 4.9e-6)) == [rf"${n}\times10^{{-6}}$" for n in (3, 4, 5)]
    assert labels(spanning(0.9, 11)) == ["1", "2", "5", "10"]  # two decades alone would say little
    assert labels(spanning(0.9, 110)) == [rf"$\mathdefault{{10^{{{n}}}}}$" for n in (0, 1, 2)]  # where they do


def test_a_short_axis_of_bits_has_ticks_too() -> None:
    assert labels(spanning(0.1, 1.0, bits=2 * 10**8), "x") == [rf"${n}\times10^{{9}}$" for n in (2, 3, 4)]


def test_ticks_are_of_what_is_left_in_view() -> None:
    frame = labelled("a", "s", curve([2.0, 1.0, 1e-9], (0, 10, 20)))
    figure = draw(frame, [Panel(x="round", y="grad_norm", y_min=0.5)], "")
    figure.canvas.draw()
    assert {"0.5", "1", "2"} <= set(labels(figure.axes[0]))


BAD = ["$\\frac{1}$", "$x_$ and $y$", "costs $5 and $6_", "$\\nope$", "$$", "${x$", "\\$a$b_$", "a\x1b[2Jb"]


@pytest.mark.parametrize("text", [BAD[0], *(pytest.param(text, marks=pytest.mark.slow) for text in BAD[1:])])
def test_what_is_no_formula_is_drawn_as_text(text: str, tmp_path: Path) -> None:
    frame = two_by_two()
    frame["task_label"] = frame["label"] = text
    for some in (frame, frame[frame["task"] == "s"]):
        draw(some, ROWS, f"caption {text}").savefig(tmp_path / "x.png")
    assert drawable("$x^2$ of $y$") == "$x^2$ of $y$"
    assert all(drawable(label(one)) == label(one) for one in ("grad_norm", "second_moment", "signal_error"))
