"""Ticks of logarithmic axes, also where they span less than a decade."""

from __future__ import annotations

import math

from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator


def set_log_ticks(side: Axis) -> None:
    """About six labelled ticks at most, at decades; where fewer than two of these are in view, at 1, 2 and 5 times
    them, and on a still shorter axis at evenly spaced round numbers."""
    side.set_minor_locator(NullLocator())
    low, high = sorted(side.get_view_interval())
    if _in_view(low, high, (1,)) >= 2:
        side.set_major_locator(LogLocator(numticks=6))
        return
    shorter = _in_view(low, high, (1, 2, 5)) < 2
    side.set_major_locator(
        MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]) if shorter else LogLocator(subs=(1, 2, 5), numticks=6)
    )
    side.set_major_formatter(FuncFormatter(_label))


def _in_view(low: float, high: float, multiples: tuple[int, ...]) -> int:
    """How many of these multiples of powers of ten lie between low and high."""
    decades = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
    return sum(low <= multiple * 10.0**decade <= high for decade in decades for multiple in multiples)


def _label(value: float, _: int) -> str:
    if 1e-3 <= value < 1e4:
        return f"{value:g}"
    mantissa, exponent = f"{value:e}".split("e")
    return rf"${float(mantissa):g}\times10^{{{int(exponent)}}}$"
