"""Muon by loops over workers, tensors and entries.

Source: Jordan et al. 2024 (KellerJordan/Muon) with AdamW for what is no matrix:

    (1) ḡ = mean_i g_i
    (2) B ← μB + (1−μ)ḡ
    (3) U = (1−μ)ḡ + μB with Nesterov, else B
    (4) Y = U/(‖U‖ + 1e-7), transposed where it is tall; five times A = YYᵀ, Y ← aY + (bA + cA²)Y
    (5) X ← X − αλX − αsY
"""

import math

from reference.loops import Gradient, Vector, mean
from reference.matrices import TENSORS, Matrix, as_matrix, combined, flat, norm, parts, product, transposed

SCALES = {
    "original": lambda m, n: math.sqrt(max(1.0, m / n)),
    "spectral": lambda m, n: math.sqrt(m / n),
    "none": lambda m, n: 1.0,
    "match_rms_adamw": lambda m, n: 0.2 * math.sqrt(max(m, n)),
}


def newton_schulz(u: Matrix) -> Matrix:
    """(4)"""
    is_tall = len(u) > len(u[0])
    y = transposed(u) if is_tall else u
    length = norm(y) + 1e-7
    y = [[value / length for value in row] for row in y]
    for _ in range(5):
        a = product(y, transposed(y))
        y = combined(3.4445, y, 1.0, product(combined(-4.7750, a, 2.0315, product(a, a)), y))
    return transposed(y) if is_tall else y


class AdamW:
    """torch.optim.AdamW on one tensor."""

    def __init__(self, size: int, beta1: float, beta2: float, eps: float) -> None:
        self.m, self.v, self.t = [0.0] * size, [0.0] * size, 0
        self.beta1, self.beta2, self.eps = beta1, beta2, eps

    def step(self, x: Vector, u: Vector, lr: float, weight_decay: float) -> Vector:
        self.t += 1
        moved = []
        for k in range(len(x)):
            self.m[k] = self.beta1 * self.m[k] + (1 - self.beta1) * u[k]
            self.v[k] = self.beta2 * self.v[k] + (1 - self.beta2) * u[k] ** 2
            m_hat, v_hat = self.m[k] / (1 - self.beta1**self.t), self.v[k] / (1 - self.beta2**self.t)
            moved.append(x[k] - lr * weight_decay * x[k] - lr * m_hat / (math.sqrt(v_hat) + self.eps))
        return moved


def muon(
    gradient: Gradient,
    x: Vector,
    n: int,
    lr: float,
    rounds: int,
    momentum: float,
    nesterov: bool,
    scale: str,
    others_lr: float,
    weight_decay: float,
) -> list[Vector]:
    """x after every round."""
    b = [[0.0] * len(part) for part in parts(x)]
    adam = [AdamW(len(part), 0.9, 0.95, 1e-10) for part in parts(x)]
    path = []
    for _ in range(rounds):
        average = mean([gradient(i, x) for i in range(n)])  # (1)
        moved: Vector = []
        for j, (part, g) in enumerate(zip(parts(x), parts(average), strict=True)):
            _, shape, role = TENSORS[j]
            if role != "matrix":
                moved += adam[j].step(part, g, others_lr * lr, weight_decay)
                continue
            b[j] = [momentum * old + (1 - momentum) * new for old, new in zip(b[j], g, strict=True)]  # (2)
            u = b[j]
            if nesterov:
                u = [(1 - momentum) * new + momentum * old for old, new in zip(b[j], g, strict=True)]  # (3)
            step = flat(newton_schulz(as_matrix(u, shape)))
            s = SCALES[scale](shape[0], len(part) // shape[0])
            moved += [v - lr * weight_decay * v - lr * s * o for v, o in zip(part, step, strict=True)]  # (5)
        x = moved
        path.append(x)
    return path
