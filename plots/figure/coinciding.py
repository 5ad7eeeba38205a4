"""Which curves of a panel cannot be told apart."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

LINE = 1 / 70
"""A line's width as a share of a panel's height."""

WIDER = 1.5
"""How much wider than high a panel is, about."""


def coinciding(axis: Axes, lines: Sequence[Line2D]) -> list[list[str]]:
    """The names of curves that begin and end at the same places and lie on one another, no further apart than a line
    is wide, along nine tenths of what is seen of them."""
    (left, right), (bottom, top) = axis.get_xlim(), axis.get_ylim()
    scales = [np.log10 if side.get_scale() == "log" else np.asarray for side in (axis.xaxis, axis.yaxis)]

    def seen(line: Line2D) -> np.ndarray:
        """x and y of its points as shares of the panel."""
        points = np.asarray(line.get_xydata(), dtype=float)
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = [
                (scale(values) - scale(low)) / (scale(high) - scale(low))
                for scale, values, low, high in zip(scales, points.T, (left, bottom), (right, top), strict=True)
            ]
        return np.array(shares)[:, np.isfinite(shares).all(0)]

    def alike(one: np.ndarray, other: np.ndarray) -> bool:
        if min(one.shape[1], other.shape[1]) < 2 or np.abs(one[0, [0, -1]] - other[0, [0, -1]]).max() > LINE:
            return False
        at = np.linspace(one[0, 0], one[0, -1], 200)
        first, second = (np.interp(at, *points) for points in (one, other))
        steep = np.hypot(1, np.gradient(first, at) / WIDER)
        is_there = ((first >= 0) & (first <= 1)) | ((second >= 0) & (second <= 1))
        is_near = np.abs(first - second) / steep < LINE
        return bool(is_there.any() and steep[is_near & is_there].sum() >= 0.9 * steep[is_there].sum())

    groups: list[tuple[np.ndarray, list[Line2D]]] = []
    for line in lines:
        points = seen(line)
        group = next((group for first, group in groups if alike(first, points)), None)
        if group is None:
            groups.append((points, [line]))
        else:
            group.append(line)
    return [[" ".join(str(line.get_label()).split()) for line in group] for _, group in groups if len(group) > 1]
