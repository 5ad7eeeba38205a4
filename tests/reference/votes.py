"""Signum with majority vote and Distributed Lion by loops over workers and coordinates, votes counted in integers.

Sources: Bernstein et al. 2019; Liu et al. 2024, arXiv 2404.00438. s± is +1 at zero:

    Signum    (1) m_i ← βm_i + (1−β)g_i,  s_i = s±(m_i)
    Lion      (2) s_i = s±(β₁m_i + (1−β₁)g_i),  then m_i ← β₂m_i + (1−β₂)g_i
    server    (3) for every coordinate the sign that more workers sent; on a tie +1, or 0
              (4) or the mean of the signs
    all       (5) x ← (1 − αλ)x − αV
"""

from reference.loops import Gradient, Vector


def signum(
    gradient: Gradient,
    x: Vector,
    n: int,
    lr: float,
    rounds: int,
    beta: float,
    tie: int = 1,
    weight_decay: float = 0.0,
) -> list[Vector]:
    """x after every round."""
    m = [[0.0] * len(x) for _ in range(n)]
    path = []
    for _ in range(rounds):
        signs = []
        for i in range(n):
            g = gradient(i, x)
            m[i] = [beta * m[i][k] + (1 - beta) * g[k] for k in range(len(x))]  # (1)
            signs.append([1 if value >= 0 else -1 for value in m[i]])
        x = [_decayed(x[k], lr, weight_decay) - lr * _vote([s[k] for s in signs], tie) for k in range(len(x))]  # (5)
        path.append(x)
    return path


def distributed_lion(
    gradient: Gradient,
    x: Vector,
    n: int,
    lr: float,
    rounds: int,
    beta1: float,
    beta2: float,
    combine: str = "vote",
    tie: int = 1,
    weight_decay: float = 0.0,
) -> list[Vector]:
    """x after every round."""
    m = [[0.0] * len(x) for _ in range(n)]
    path = []
    for _ in range(rounds):
        signs = []
        for i in range(n):
            g = gradient(i, x)
            signs.append([1 if beta1 * m[i][k] + (1 - beta1) * g[k] >= 0 else -1 for k in range(len(x))])  # (2)
            m[i] = [beta2 * m[i][k] + (1 - beta2) * g[k] for k in range(len(x))]
        moved = []
        for k in range(len(x)):
            of_all = [s[k] for s in signs]
            step = sum(of_all) / n if combine == "mean" else _vote(of_all, tie)  # (4), (3)
            moved.append(_decayed(x[k], lr, weight_decay) - lr * step)
        x = moved
        path.append(x)
    return path


def _vote(signs: list[int], tie: int) -> int:
    """(3)"""
    plus, minus = signs.count(1), signs.count(-1)
    return tie if plus == minus else 1 if plus > minus else -1


def _decayed(value: float, lr: float, weight_decay: float) -> float:
    return (1 - lr * weight_decay) * value
