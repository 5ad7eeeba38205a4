"""Quantizers with a scale a group, bin means and top-k by chunk, by loops over coordinates.

The randomised ones are given their uniform numbers.
"""

import math
from statistics import NormalDist


def _parts(x: list[float], size: int) -> list[list[float]]:
    return [x[begin : begin + size] for begin in range(0, len(x), size)]


def int4(x: list[float], block: int, top: int = 7) -> list[float]:
    out = []
    for group in _parts(x, block):
        scale = max(map(abs, group))
        out += [scale and scale * round(value / scale * top) / top for value in group]
    return out


def nearest(x: list[float], values: tuple[float, ...], block: int) -> list[float]:
    """Of equally near values the lower."""
    out = []
    for group in _parts(x, block):
        scale = max(map(abs, group))
        out += [scale and scale * min((abs(value / scale - one), one) for one in values)[1] for value in group]
    return out


def nf4() -> tuple[float, ...]:
    """Quantiles of the normal distribution from 1/2 to 0.9677083, 8 of them above zero and 7 below, over the last."""
    last, quantile = 0.9677083, NormalDist().inv_cdf
    above = [quantile(0.5 + (last - 0.5) * k / 8) for k in range(9)]
    below = [-quantile(0.5 + (last - 0.5) * k / 7) for k in range(7, 0, -1)]
    return tuple(value / above[-1] for value in below + above)


def dynamic4() -> tuple[float, ...]:
    """Middles of 1, 2 and 4 equal parts of 0.1 to 1, times 0.01, 0.1 and 1, in both signs; 0 and 1."""
    above = [10.0 ** (e - 2) * (0.1 + 0.9 * (k + 0.5) / 2**e) for e in range(3) for k in range(2**e)]
    return (*(-value for value in reversed(above)), 0.0, *above, 1.0)


def linf_dither(x: list[float], levels: int, block: int, uniform: list[float]) -> list[float]:
    out = []
    for group, draws in zip(_parts(x, block), _parts(uniform, block), strict=True):
        scale = max(map(abs, group))
        for value, u in zip(group, draws, strict=True):
            level = levels * abs(value) / scale if scale else 0.0
            level = math.floor(level) + (u < level - math.floor(level))
            out.append(math.copysign(scale * level / levels, value))
    return out


def nuqsgd(x: list[float], levels: int, block: int, uniform: list[float]) -> list[float]:
    known = [0.0, *(2.0 ** (k - levels) for k in range(1, levels + 1))]
    out = []
    for group, draws in zip(_parts(x, block), _parts(uniform, block), strict=True):
        norm = math.hypot(*group)
        for value, u in zip(group, draws, strict=True):
            size = abs(value) / norm if norm else 0.0
            low = max(level for level in known if level <= size)
            high = min((level for level in known if level > size), default=low)
            chance = (size - low) / (high - low) if high > low else 0.0
            out.append(math.copysign(norm * (high if u < chance else low), value))
    return out


def adaptive_levels(x: list[float], mean_bits: float, block: int) -> list[float]:
    parts = _parts(x, block)
    scales = [max(abs(value) for value in part) for part in parts]
    bits = [0] * len(parts)
    for _ in range(math.floor(mean_bits * len(parts) / 2)):
        # Of groups as large in what is left, the one with fewer bits, then the first.
        left = [b for b in range(len(parts)) if bits[b] < 8]
        bits[min(left, key=lambda b: (-scales[b] / 2 ** bits[b], bits[b], b))] += 2
    out = []
    for part, scale, b in zip(parts, scales, bits, strict=True):
        top = 2 ** (b - 1) - 1 if b else 0
        out += [scale * round(value / scale * top) / top if scale and b else 0.0 for value in part]
    return out


def bin_means(x: list[float], bits: int) -> list[float]:
    d, bins = len(x), 2**bits
    shift = math.fsum(x) / d
    c = [value - shift for value in x]
    sigma = math.hypot(*c) / math.sqrt(d - 1) if d > 1 else 0.0
    step = 6 * sigma / bins or 1.0
    codes = [min(max(round(value / step + bins // 2), 0), bins - 1) for value in c]
    sums = {code: math.fsum(v for v, k in zip(c, codes, strict=True) if k == code) for code in codes}
    return [sums[code] / codes.count(code) + shift for code in codes]


def chosen(x: list[float], k: int, chunk: int) -> list[int]:
    """The places of the k largest of every chunk, zeros too where there are fewer others."""
    return [
        begin + j
        for begin in range(0, len(x), chunk)
        for j in sorted(range(len(x[begin : begin + chunk])), key=lambda j: (-abs(x[begin + j]), j))[:k]
    ]


def chunk_top_k_bins(x: list[float], k: int, chunk: int, bits: int) -> list[float]:
    kept = chosen(x, k, chunk)
    out = [0.0] * len(x)
    for j, value in zip(kept, bin_means([x[j] for j in kept], bits), strict=True):
        out[j] = value
    return out


def chunk_top_k(x: list[float], k: int, chunk: int) -> list[float]:
    kept = chosen(x, k, chunk)
    return [value if j in kept else 0.0 for j, value in enumerate(x)]
