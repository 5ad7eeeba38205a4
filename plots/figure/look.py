"""How a figure fits into a page."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic.dataclasses import dataclass

from common.errors import UsageError
from plots.claims.check import OPTIONS

SIZE = 8.0
"""Points of the labels of axes and legends, unless another size is asked for."""

MOST = 7
"""Curves in a panel that can be told apart: of more, each of several blocks of panels has some."""

_SIZES = {
    "font.size": 7.5, "axes.titlesize": 8.5, "axes.labelsize": 8.0, "xtick.labelsize": 7.0, "ytick.labelsize": 7.0,
    "figure.titlesize": 9.0, "figure.labelsize": 6.5, "legend.fontsize": 8.0, "legend.title_fontsize": 8.5,
}  # fmt: skip
"""Those of everything, where labels have SIZE."""


@dataclass(frozen=True, kw_only=True, config=OPTIONS)
class Look:
    """The width of a figure in inches (None: as its panels ask for), its font family (empty: the project's), the
    points of its labels, where the caption stands, and whether legends name step sizes.

    A caption that is outside stands in a text beside the picture; a note of budget and seeds stays below the panels.
    """

    width: float | None = None
    font: str = ""
    font_size: float = SIZE
    caption: Literal["outside", "inside"] = "outside"
    step_sizes: bool = False

    def check(self, place: str = "") -> None:
        """Raise UsageError for a size that is none, and for a font that is not installed."""
        for name, value, least in (("width", self.width, 1.5), ("font_size", self.font_size, 3.0)):
            if value is not None and not least <= value <= 40:
                unit = "inches" if name == "width" else "points"
                raise UsageError(
                    f"{place}{name}={value:g}: must be from {least:g} to 40, in {unit} without saying so"
                )
        if self.font:
            from matplotlib.font_manager import FontProperties, findfont

            try:
                findfont(FontProperties(family=[self.font]), fallback_to_default=False)
            except ValueError as error:
                raise UsageError(
                    f"{place}font={self.font}: no such font is installed; serif, sans-serif and monospace always are"
                ) from error

    def settings(self) -> dict[str, Any]:
        """The settings of matplotlib that follow."""
        found: dict[str, Any] = {name: size * self.font_size / SIZE for name, size in _SIZES.items()}
        if self.width is not None:
            found["savefig.bbox"] = "standard"  # a box that fits what was drawn would have another width
        if self.font:
            name = re.sub(r"([-:,\\])", r"\\\1", self.font)  # as in patterns of fontconfig
            styles = {"rm": name, "it": f"{name}:italic", "bf": f"{name}:bold", "cal": name}
            found |= {"font.family": self.font, "mathtext.fontset": "custom"}
            found |= {f"mathtext.{style}": pattern for style, pattern in styles.items()}
        return found
