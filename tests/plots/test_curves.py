"""What is on the drawn figure, its ticks, the rows it is drawn from, and the columns that are derived for it."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from curve_support import check, curve, label_curve
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.lines import Line2D
from PIL import Image

from plots.claims.check import FAILS, HOLDS
from plots.figure.curves import draw, save
from plots.figure.derive import ByStepSize, LeastSoFar, MinimumOverRounds, Ratio
from plots.figure.spec import Panel
from plots.runs.columns import label
from plots.runs.results import bits_to_reach
from plots.runs.seeds import average_costs, average_seeds, keep_common_rounds

NORM = Panel(x="round", y="grad_norm")
ROWS = [Panel(x="bits", x_scale="log", y="grad_norm"), NORM.replace(y_scale="linear")]

GRAD_NORM = label("grad_norm").replace("  ", "\n")
"""Its label in two lines, which a panel is high enough for."""


def two_by_two(second_task: str = "t") -> pd.DataFrame:
    """Two methods on two tasks, rows in disorder."""
    frame = pd.concat(
        [
            label_curve("a", "s", curve(lambda r: 2.0 * 0.9**r, bits=3)),
            label_curve("b", "s", curve(lambda r: 1.0 * 0.95**r, bits=100), color="red"),
            label_curve("a", second_task, curve(lambda r: 4.0 * 0.8**r, bits=3)),
            label_curve("b", second_task, curve(lambda r: 5.0 + r, bits=100), color="red"),
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
    free, loose, tight = (panels(frame, [NORM.replace(**{side: at})])[0] for at in (None, far, near))
    kept, cut = (0, 1) if side == "y_max" else (1, 0)
    assert loose.get_ylim() == pytest.approx(free.get_ylim())
    assert tight.get_ylim()[cut] == near
    values = np.concatenate([line.get_ydata() for line in tight.get_lines()])
    furthest, beyond = (values.min(), values.max())[kept], free.get_ylim()[kept]
    assert min(furthest, beyond) <= tight.get_ylim()[kept] <= max(furthest, beyond)
    assert np.array_equal(lines(tight)["A"].get_ydata(), lines(free)["A"].get_ydata())


# how it fits into a page


def falling(name: str, factor: float, task: str = "s", start: float = 1.0, lr: float = 0.1) -> pd.DataFrame:
    return label_curve(name, task, curve(lambda r: start * factor**r), lr=lr)


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


@pytest.mark.parametrize("y_scale", ["linear", "log"])
def test_a_panel_is_as_high_as_the_runs_that_did_not_diverge(y_scale: str) -> None:
    """A curve that goes on above leaves it, with a mark and its cross at the edge; below all others it is seen."""
    others = seeds({0: [3.0, 2.0, 1.0], 1: [6.0, 2.0, 1.0]}).assign(diverged=False)
    odd = label_curve("c", "t", curve([1.0, 0.01, 1e15], (0, 10, 20))).assign(diverged=True)
    alone, both = (over_rounds(some, y_scale=y_scale) for some in (others, pd.concat([others, odd])))
    assert both.get_ylim()[1] == pytest.approx(alone.get_ylim()[1], rel=0.3)
    assert both.get_ylim()[0] < 0.01
    top = both.get_ylim()[1]
    low, high, end = np.log([0.01, 1e15, top]) if y_scale == "log" else (0.01, 1e15, top)
    cross, mark = (tuple(drawn.get_offsets()[0].tolist()) for drawn in both.collections[-2:])
    assert (cross, mark) == ((20, top), pytest.approx((10 + 10 * (end - low) / (high - low), top)))
    assert over_rounds(odd, y_scale=y_scale).get_ylim()[1] > 1e15  # where no other is drawn
    rising = label_curve("c", "t", curve([1.0, 2.0, 4.0], (1, 10, 100)))
    assert over_rounds(rising, y_scale=y_scale, guide=1.0).get_ylim()[1] >= 100


def test_a_panel_has_at_most_seven_curves_and_every_method_is_in_one() -> None:
    names = [f"m{n}" for n in range(16)]
    figure = draw(pd.concat(falling(name, 0.9 - n / 50) for n, name in enumerate(names)), [NORM], "")
    each = [[text.get_text().lower() for text in block.legends[0].get_texts()] for block in figure.subfigs]
    assert [len(some) for some in each] == [6, 6, 4]
    assert [name for some in each for name in some] == names
    assert len({axis.get_ylim() for axis in figure.axes}) == 1  # so that blocks can be compared


VALUES = {0: [8.0, 1.0, 0.01], 1: [2.0, 4.0, 1.0]}


def seeds(values: dict[int, list[float]] = VALUES, bits: int = 10, name: str = "a", color: str = "k") -> pd.DataFrame:
    """One method with this curve a seed, rows in disorder."""
    frames = [label_curve(name, "t", curve(some, (0, 10, 20), bits), seed=seed, color=color)
              for seed, some in values.items()]  # fmt: skip
    return pd.concat(frames).sort_values("grad_norm")


def test_one_seed_is_its_curve_to_the_last_bit() -> None:
    values = [1 / 3, 0.1, 1e-300]
    for geometric in (True, False):
        line = average_seeds(seeds({4: values}), "bits", "grad_norm", geometric)
        for column in ("mean", "low", "high"):
            assert line[column].tolist() == values


def test_a_value_that_one_seed_lacks_has_no_mean() -> None:
    line = average_seeds(seeds({0: [8.0, 1.0, np.nan], 1: [2.0, 4.0, 1.0]}), "bits", "grad_norm", geometric=True)
    assert line["mean"].tolist()[:2] == pytest.approx([4.0, 2.0])
    assert line.loc[2, ["mean", "low", "high"]].isna().all()


@pytest.mark.parametrize("other", [{"rounds": (0, 10, 30)}, {"rounds": (0, 10)}, {"rounds": (0, 10, 20), "bits": 11}])
def test_seeds_evaluated_at_different_places_have_no_mean(other: dict) -> None:
    values = [1.0, 1.0, 1.0][: len(other["rounds"])]
    frame = pd.concat([seeds({0: [1.0, 1.0, 1.0]}), label_curve("a", "t", curve(values, **other), seed=3)])
    with pytest.raises(ValueError, match="a on t: seeds 0, 3 were not evaluated at the same rounds and bits"):
        average_seeds(frame, "bits", "grad_norm", geometric=True)


def over_rounds(frame: pd.DataFrame, **options: object) -> Axes:
    """The one panel of a figure, over rounds unless said."""
    return draw(frame, [Panel(x="round", y="grad_norm", **options)], "").axes[0]


def test_several_seeds_are_a_line_in_a_band() -> None:
    frame = pd.concat([seeds(), seeds({0: [3.0, 3.0, 3.0]}, name="b", color="red")])
    axis = over_rounds(frame)
    a, b = axis.get_lines()
    assert a.get_ydata().tolist() == pytest.approx([4.0, 2.0, 0.1])
    assert b.get_ydata().tolist() == [3.0, 3.0, 3.0]
    [band] = axis.collections  # the single seed has none
    corners = {tuple(corner) for corner in band.get_paths()[0].vertices.tolist()}
    assert corners == {(0, 2), (10, 1), (20, 0.01), (0, 8), (10, 4), (20, 1)}
    assert band.get_facecolor()[0].tolist() == [*to_rgba("k")[:3], 0.2]
    assert [text.get_text() for text in axis.figure.legends[0].get_texts()] == ["A", "B"]
    [line] = over_rounds(seeds(), y_scale="linear").get_lines()
    assert line.get_ydata().tolist() == pytest.approx([5.0, 2.5, 0.505])


def test_bits_that_a_coin_decides_are_averaged_over_seeds() -> None:
    one, other = (
        label_curve("a", "t", curve(lambda r: 1.0 + 0 * r, bits=bits)).assign(seed=bits) for bits in (10, 30)
    )
    drawn = average_seeds(average_costs(pd.concat([one, other], ignore_index=True)), "bits", "grad_norm", False)
    assert (drawn["x"] == 2 * one["bits"].to_numpy()).all()


def test_a_mean_ends_where_one_of_its_seeds_does() -> None:
    rounds = {("a", 0): 3, ("a", 1): 2, ("b", 0): 3}
    frame = pd.DataFrame([
        {"task": "t", "algorithm": method, "lr": 0.1, "seed": seed, "round": t}
        for (method, seed), last in rounds.items()
        for t in range(last + 1)
    ])  # fmt: skip
    ends = keep_common_rounds(frame).groupby(["algorithm", "seed"])["round"].max().to_dict()
    assert ends == {("a", 0): 2, ("a", 1): 2, ("b", 0): 3}


falls_with_rounds = check("falls_with_rounds")


def test_the_ratio_is_taken_at_the_same_task_batch_step_size_seed_and_round():
    def rows(scale: float, lr: float, batch: int | None) -> pd.DataFrame:
        return curve([1.0, 1.0], (1, 2), second_moment=[scale, scale * lr * 10], batch_size=batch)

    frames = [
        label_curve(name, task, rows(scale, lr, batch), lr, seed=seed)
        for task, seed, batch, noisy in (("a", 0, None, 10), ("b", 0, 4, 4), ("b", 0, 1, 8), ("a", 1, None, 6))
        for name, scale in (("plain", 2.0 + seed), ("noisy", noisy))
        for lr in (0.1, 0.5)
    ]
    frame = Ratio(metric="second_moment", over="plain").apply(pd.concat(frames, ignore_index=True))
    frame["batch_size"] = frame["batch_size"].fillna(0)
    ratios = frame.groupby(["algorithm", "task", "seed", "batch_size"])["second_moment_ratio"].unique()
    keys = (("a", 0, 0), ("b", 0, 4), ("b", 0, 1), ("a", 1, 0))
    assert [ratios["noisy", *key].tolist() for key in keys] == [[5.0], [2.0], [4.0], [2.0]]
    assert ratios["plain", "a", 0, 0].tolist() == [1.0]
    frame = label_curve("noisy", "a", curve([1.0, 1.0], (1, 2), second_moment=[1.0, 2.0], batch_size=None))
    assert Ratio(metric="second_moment", over="plain").apply(frame)["second_moment_ratio"].isna().all()


def test_the_least_so_far_is_of_each_run_and_trial_in_the_order_of_rounds():
    first = label_curve("m", "a", curve([3.0, 0.5, 2.0], (0, 1, 2))).assign(run="x", trial=0)
    other_trial = label_curve("m", "a", curve([9.0, 1.5, 1.0], (0, 1, 2))).assign(run="x", trial=1)
    mixed = pd.concat([first.iloc[::-1], other_trial], ignore_index=True)
    found = LeastSoFar(metric="grad_norm").apply(mixed)
    assert found["grad_norm"].tolist() == [0.5, 0.5, 3.0, 9.0, 1.5, 1.0]
    assert mixed["grad_norm"].tolist() == [2.0, 0.5, 3.0, 9.0, 1.5, 1.0]


def test_the_minimum_is_over_the_rounds_of_each_run_and_trial():
    first = label_curve("m", "a", curve([3.0, 0.5, 2.0], (0, 1, 2))).assign(run="x", trial=0)
    other_trial = label_curve("m", "a", curve([3.0, 1.5, 4.0], (0, 1, 2))).assign(run="x", trial=1)
    longer = label_curve("m", "a", curve([3.0, 0.25, 0.1, 0.2], (0, 1, 2, 4))).assign(run="y", trial=0)
    planned = pd.concat([first, other_trial, longer], ignore_index=True).assign(planned_rounds=2)
    frame = MinimumOverRounds().apply(planned)
    assert list(frame[["round", "grad_norm", "min_grad_norm_squared"]].itertuples(index=False, name=None)) == [
        (2, 0.5, 0.25),
        (2, 1.5, 2.25),
        (4, 0.1, pytest.approx(0.01)),
    ]
    cut = MinimumOverRounds().apply(planned.assign(planned_rounds=4))  # two of them did not come that far
    assert cut["min_grad_norm_squared"].isna().tolist() == [True, True, False]


def test_every_step_size_of_one_method_becomes_a_curve():
    frames = [
        label_curve(name, "a", curve([1.0, lr], (1, 2)), lr, seed=seed)
        for name in ("plain", "noisy")
        for seed in (0, 1)
        for lr in (0.5, 0.003)
    ]
    apart = ByStepSize(algorithm="noisy").apply(pd.concat(frames, ignore_index=True))
    assert apart["algorithm"].unique().tolist() == ["noisy 0.003", "noisy 0.5"]
    assert apart["label"].unique().tolist() == ["α = 0.003", "α = 0.5"]
    assert apart.groupby("algorithm")["lr"].agg(set).to_dict() == {"noisy 0.003": {0.003}, "noisy 0.5": {0.5}}
    assert apart.groupby("lr")["color"].nunique().tolist() == [1, 1]
    assert apart["color"].nunique() == apart["marker"].nunique() == 2
    assert len(apart) == 8


def test_targets_over_seeds_are_means_of_step_sizes_with_which_all_got_there():
    def reaching(at, lr, seed):
        values = [1.0 if r < at else 0.1 for r in range(0, 50, 10)]
        return label_curve("m", "a", curve(values, range(0, 50, 10)), lr=lr, seed=seed)

    frame = pd.concat([
        reaching(10, 0.1, 0), reaching(40, 0.1, 1),    # on average 250 bits
        reaching(20, 0.2, 0), reaching(20, 0.2, 1),    # 200
        reaching(10, 0.3, 0), reaching(99, 0.3, 1),    # one seed never
    ])  # fmt: skip
    [row] = bits_to_reach(frame, "grad_norm", [0.5]).to_dict("records")
    assert row == {"task": "a", "algorithm": "m", "label": "M", "level": 0.5, "bits": 200, "round": 20, "lr": 0.2,
                   "bits_min": 200, "bits_max": 200}  # fmt: skip
    [row] = bits_to_reach(frame[frame["lr"] == 0.1], "grad_norm", [0.5]).to_dict("records")
    assert [row[name] for name in ("bits", "round", "bits_min", "bits_max")] == [250, 25, 100, 400]
    [row] = bits_to_reach(frame[frame["lr"] == 0.3], "grad_norm", [0.5]).to_dict("records")
    assert pd.isna([row[name] for name in ("bits", "round", "lr", "bits_min", "bits_max")]).all()


@pytest.mark.parametrize(("slope", "verdict"), [(-1.0, HOLDS), (-0.5, HOLDS), (-0.46, HOLDS), (-0.44, FAILS)])
def test_the_slope_of_a_power_law_is_found(slope, verdict):
    rounds = np.array([100, 200, 400, 800])
    frame = pd.DataFrame({"round": rounds, "min_grad_norm_squared": 3.0 * rounds**slope})
    finding = falls_with_rounds({"m": frame}, "m", exponent=-0.5, tolerance=0.05)
    assert finding.verdict == verdict
    assert finding.measured == f"T^{slope:.2f}, 4 runs"
    diverged = pd.concat([frame, pd.DataFrame({"round": [900], "min_grad_norm_squared": [np.nan]})])
    assert falls_with_rounds({"m": diverged}, "m", exponent=-0.5, tolerance=0.05) == finding
