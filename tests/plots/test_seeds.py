"""One curve from several seeds, as numbers and on the figure."""

import numpy as np
import pandas as pd
import pytest
from curve_support import curve, labelled
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba

from plots.figure.curves import draw
from plots.figure.spec import Panel
from plots.runs.seeds import at_mean_costs, over_seeds, while_all_go_on

VALUES = {0: [8.0, 1.0, 0.01], 1: [2.0, 4.0, 1.0]}


def seeds(values: dict[int, list[float]] = VALUES, bits: int = 10, name: str = "a", color: str = "k") -> pd.DataFrame:
    """One method with this curve a seed, rows in disorder."""
    frames = [labelled(name, "t", curve(some, (0, 10, 20), bits), seed=seed, color=color)
              for seed, some in values.items()]  # fmt: skip
    return pd.concat(frames).sort_values("grad_norm")


def test_mean_and_spread() -> None:
    geometric = over_seeds(seeds(), "bits", "grad_norm", geometric=True)
    assert geometric["x"].tolist() == [0, 100, 200]
    assert geometric["mean"].tolist() == pytest.approx([4.0, 2.0, 0.1])
    assert geometric["low"].tolist() == [2.0, 1.0, 0.01]
    assert geometric["high"].tolist() == [8.0, 4.0, 1.0]
    arithmetic = over_seeds(seeds(), "round", "grad_norm", geometric=False)
    assert arithmetic["x"].tolist() == [0, 10, 20]
    assert arithmetic["mean"].tolist() == pytest.approx([5.0, 2.5, 0.505])


def test_one_seed_is_its_curve_to_the_last_bit() -> None:
    values = [1 / 3, 0.1, 1e-300]
    for geometric in (True, False):
        line = over_seeds(seeds({4: values}), "bits", "grad_norm", geometric)
        for column in ("mean", "low", "high"):
            assert line[column].tolist() == values


def test_a_value_that_one_seed_lacks_has_no_mean() -> None:
    line = over_seeds(seeds({0: [8.0, 1.0, np.nan], 1: [2.0, 4.0, 1.0]}), "bits", "grad_norm", geometric=True)
    assert line["mean"].tolist()[:2] == pytest.approx([4.0, 2.0])
    assert line.loc[2, ["mean", "low", "high"]].isna().all()


@pytest.mark.parametrize("other", [{"rounds": (0, 10, 30)}, {"rounds": (0, 10)}, {"rounds": (0, 10, 20), "bits": 11}])
def test_seeds_evaluated_at_different_places_have_no_mean(other: dict) -> None:
    values = [1.0, 1.0, 1.0][: len(other["rounds"])]
    frame = pd.concat([seeds({0: [1.0, 1.0, 1.0]}), labelled("a", "t", curve(values, **other), seed=3)])
    with pytest.raises(ValueError, match="a on t: seeds 0, 3 were not evaluated at the same rounds and bits"):
        over_seeds(frame, "bits", "grad_norm", geometric=True)


# on the figure


def panel(frame: pd.DataFrame, **options: object) -> Axes:
    """The one panel of a figure, over rounds unless said."""
    return draw(frame, [Panel(x="round", y="grad_norm", **options)], "").axes[0]


def test_several_seeds_are_a_line_in_a_band() -> None:
    frame = pd.concat([seeds(), seeds({0: [3.0, 3.0, 3.0]}, name="b", color="red")])
    axis = panel(frame)
    a, b = axis.get_lines()
    assert a.get_ydata().tolist() == pytest.approx([4.0, 2.0, 0.1])
    assert b.get_ydata().tolist() == [3.0, 3.0, 3.0]
    [band] = axis.collections  # the single seed has none
    corners = {tuple(corner) for corner in band.get_paths()[0].vertices.tolist()}
    assert corners == {(0, 2), (10, 1), (20, 0.01), (0, 8), (10, 4), (20, 1)}
    assert band.get_facecolor()[0].tolist() == [*to_rgba("k")[:3], 0.2]
    assert [text.get_text() for text in axis.figure.legends[0].get_texts()] == ["A", "B"]
    [line] = panel(seeds(), y_scale="linear").get_lines()
    assert line.get_ydata().tolist() == pytest.approx([5.0, 2.5, 0.505])


def test_bits_that_a_coin_decides_are_averaged_over_seeds() -> None:
    one, other = (labelled("a", "t", curve(lambda r: 1.0 + 0 * r, bits=bits)).assign(seed=bits) for bits in (10, 30))
    drawn = over_seeds(at_mean_costs(pd.concat([one, other], ignore_index=True)), "bits", "grad_norm", False)
    assert (drawn["x"] == 2 * one["bits"].to_numpy()).all()


def test_a_mean_ends_where_one_of_its_seeds_does() -> None:
    rounds = {("a", 0): 3, ("a", 1): 2, ("b", 0): 3}
    frame = pd.DataFrame([
        {"task": "t", "algorithm": method, "lr": 0.1, "seed": seed, "round": t}
        for (method, seed), last in rounds.items()
        for t in range(last + 1)
    ])  # fmt: skip
    ends = while_all_go_on(frame).groupby(["algorithm", "seed"])["round"].max().to_dict()
    assert ends == {("a", 0): 2, ("a", 1): 2, ("b", 0): 3}
