"""Shares of whole numbers, of the decimal number that was written."""

from fractions import Fraction
from math import ceil, floor


def floored_share(share: float, whole: int) -> int:
    """⌊share·whole⌋, exactly for the shortest decimal number that `share` prints as: 29 for 0.29 of 100.

    The product of the binary number nearest to 0.29 lies below 29. Raises ValueError for a share that is not finite.
    """
    return floor(Fraction(str(share)) * whole)


def ceiled_share(share: float, whole: int) -> int:
    """⌈share·whole⌉, exactly as `floored_share`: 7 for 0.07 of 100."""
    return ceil(Fraction(str(share)) * whole)
