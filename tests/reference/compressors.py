"""C(x) by loops over coordinates."""

import math


def identity(x: list[float]) -> list[float]:
    return list(x)


def scaled_sign(x: list[float]) -> list[float]:
    scale = sum(abs(value) for value in x) / len(x)
    return [scale if value >= 0 else -scale for value in x]


def scaled_sign_l2(x: list[float]) -> list[float]:
    scale = math.sqrt(sum(value * value for value in x)) / math.sqrt(len(x))
    return [scale if value >= 0 else -scale for value in x]


def top_2(x: list[float]) -> list[float]:
    order = sorted(range(len(x)), key=lambda k: (-abs(x[k]), k))
    return [x[k] if k in order[:2] else 0.0 for k in range(len(x))]
