"""Every logarithmic axis has ticks that can be read."""

from __future__ import annotations

import pytest
from curve_support import curve, labelled
from matplotlib.axes import Axes

from plots.figure.curves import draw
from plots.figure.spec import Panel


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
    assert labels(spanning(0.9, 11)) == [rf"$\mathdefault{{10^{{{n}}}}}$" for n in (0, 1)]  # decades where they do


def test_a_short_axis_of_bits_has_ticks_too() -> None:
    assert labels(spanning(0.1, 1.0, bits=2 * 10**8), "x") == [rf"${n}\times10^{{9}}$" for n in (2, 3, 4)]


def test_ticks_are_of_what_is_left_in_view() -> None:
    frame = labelled("a", "s", curve([2.0, 1.0, 1e-9], (0, 10, 20)))
    figure = draw(frame, [Panel(x="round", y="grad_norm", y_min=0.5)], "")
    figure.canvas.draw()
    assert {"0.5", "1", "2"} <= set(labels(figure.axes[0]))
