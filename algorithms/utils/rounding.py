"""Shares of integers, exact for decimal numbers."""

from fractions import Fraction
from math import ceil, floor


def floored_share(share: float, whole: int) -> int:
    """Return ⌊share·whole⌋ for the decimal number that `share` prints as: 29 for 0.29 of 100.

    With the binary number nearest to 0.29 the product is below 29. Raises ValueError for a share that is not finite.
    """
    return floor(Fraction(str(share)) * whole)


def ceiled_share(share: float, whole: int) -> int:
    """Return ⌈share·whole⌉ like `floored_share`: 7 for 0.07 of 100."""
    return ceil(Fraction(str(share)) * whole)
