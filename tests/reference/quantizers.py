"""Quantizers by loops over coordinates; the randomised ones are given their uniform numbers."""

import math


def min_max_uint8(x: list[float]) -> list[float]:
    steps = 255 / (max(x) - min(x) + 1e-7)
    upper = round(max(x) * steps)
    lower = upper - 255
    codes = [min(round(value * steps), upper) - lower for value in x]
    assert all(0 <= code <= 255 for code in codes)
    return [(code + lower) / steps for code in codes]


def log_quantize(x: list[float], bits: int) -> list[float]:
    scale = max(abs(value) for value in x)
    powers = [2.0**-k for k in range(2 ** (bits - 1) - 1)]
    levels = [0.0, *powers, *(-power for power in powers)]
    assert len(levels) == 2**bits - 1
    # Of two as near, the larger.
    return [scale and scale * min(levels, key=lambda level: (abs(value / scale - level), -abs(level))) for value in x]


def uniform_quantize(x: list[float], bits: int) -> list[float]:
    scale = max(abs(value) for value in x)
    top = 2 ** (bits - 1) - 1
    return [scale and scale * round(value / scale * top) / top for value in x]


def qsgd(x: list[float], levels: int, uniform: list[float]) -> list[float]:
    norm = math.hypot(*x)
    out = []
    for value, u in zip(x, uniform, strict=True):
        level = levels * abs(value) / norm if norm else 0.0
        level = math.floor(level) + (1 if u < level - math.floor(level) else 0)
        out.append(math.copysign(norm * level / levels, value))
    return out


def natural(x: list[float], uniform: list[float]) -> list[float]:
    out = []
    for value, u in zip(x, uniform, strict=True):
        size = abs(value)
        if size < 2.0**-126:
            low, high = 0.0, 2.0**-126
        else:
            low = 2.0 ** math.floor(math.log2(size))
            low = low / 2 if low > size else low  # log2 may round up to a whole number
            high = 2 * low
        power = high if u < (size - low) / (high - low) else low
        out.append(math.copysign(min(power, 2.0**127), value))
    return out
