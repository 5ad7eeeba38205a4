"""Casts to short floats by exact fractions; the randomised ones are given their uniform numbers."""

import math
from fractions import Fraction

import numpy as np

BF16 = (8, -126, Fraction(255 * 2**120))
FP16 = (11, -14, Fraction(65504))
E4M3 = (4, -6, Fraction(448))
E5M2 = (3, -14, Fraction(57344))
"""Bits of precision, the exponent of the smallest normal number, and the largest number."""


def _unit(x: float, digits: int, least: int) -> Fraction:
    """How far numbers of this precision are apart at x and beyond."""
    return Fraction(2) ** (max(math.frexp(x)[1] - 1, least) - digits + 1)


def nearest(x: float, digits: int, least: int, most: Fraction) -> float:
    unit = _unit(x, digits, least)
    return math.copysign(min(abs(round(Fraction(x) / unit) * unit), most), x)  # halfway to the even one


def either(x: float, digits: int, least: int, most: Fraction, u: float) -> float:
    unit = _unit(x, digits, least)
    whole, rest = divmod(Fraction(x), unit)
    return max(-most, min((whole + (u < rest / unit)) * unit, most)) + 0.0


def cast(x: list[float], kind: tuple, uniform: list[float] | None = None) -> list[float]:
    if uniform is None:
        return [nearest(float(np.float32(value)), *kind) for value in x]  # casts round to float32 first
    return [float(either(value, *kind, u)) for value, u in zip(x, uniform, strict=True)]


def fp8(x: list[float], kind: tuple, block: int, uniform: list[float] | None = None) -> list[float]:
    most, out = float(kind[-1]), []
    for begin in range(0, len(x), block):
        group = x[begin : begin + block]
        scale = max(map(abs, group))
        draws = None if uniform is None else uniform[begin : begin + block]
        codes = cast([value / scale * most if scale else 0.0 for value in group], kind, draws)
        out += [scale * (code / most) for code in codes]
    return out
