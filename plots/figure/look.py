"""How a figure fits into a page."""

from __future__ import annotations

from typing import Annotated, Any

from annotated_types import Ge, Le
from pydantic.dataclasses import dataclass

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
    points of its labels, and whether legends name step sizes."""

    width: Annotated[float, Ge(1.5), Le(40)] | None = None
    font: str = ""
    font_size: Annotated[float, Ge(3), Le(40)] = SIZE
    step_sizes: bool = False

    def settings(self) -> dict[str, Any]:
        """The settings of matplotlib that follow."""
        found: dict[str, Any] = {name: size * self.font_size / SIZE for name, size in _SIZES.items()}
        if self.width is not None:
            found["savefig.bbox"] = "standard"  # a box that fits what was drawn would have another width
        if self.font:
            styles = {"rm": "", "it": ":italic", "bf": ":bold", "cal": ""}
            found |= {"font.family": self.font, "mathtext.fontset": "custom"}
            found |= {f"mathtext.{style}": f"{self.font}{suffix}" for style, suffix in styles.items()}
        return found
