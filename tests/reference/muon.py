"""Muon, EF21-Muon, and the inner step of MuLoCo, by loops over workers, tensors and entries.

Sources: Jordan et al. 2024 (KellerJordan/Muon) with AdamW for what is no matrix; Gruntkowska, Gaponov, Tovmasyan and
Richtárik 2025, in the order of rounds that begin with gradients; Thérien et al. 2025, arXiv 2505.23725, of which all
else is `local_steps`.

    step      (1) B ← μB + (1−μ)u,  U = (1−μ)u + μB with Nesterov, else B
              (2) Y = U/(‖U‖ + 1e-7), transposed where it is tall; five times A = YYᵀ, Y ← aY + (bA + cA²)Y
              (3) X ← X − αλX − αsY;  AdamW with ρα of what is no matrix
    EF21-Muon (4) M_i ← (1−β)M_i + β∇f_i(W); M_i = ∇f_i(W) in round 1 of a dense start
              (5) G = mean_i G_i of the Markov sequences G_i of M_i
              (6) X by (1) to (3) along G with μ = 0,  W the Markov sequence of X from its start
"""

import math

from reference.matrices import TENSORS, Matrix, as_matrix, combined, flat, norm, parts, product, transposed
from reference.methods import direct, markov, plus
from reference.problem import Vector, mean

SCALES = {
    "original": lambda m, n: math.sqrt(max(1.0, m / n)),
    "spectral": lambda m, n: math.sqrt(m / n),
    "none": lambda m, n: 1.0,
    "match_rms_adamw": lambda m, n: 0.2 * math.sqrt(max(m, n)),
}


def newton_schulz(u: Matrix) -> Matrix:
    """(2)"""
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


class Muon:
    """One model's step."""

    def __init__(self, lr, momentum, nesterov, scale, others_lr, weight_decay, beta2=0.95, eps=1e-10) -> None:
        self.lr, self.mu, self.nesterov, self.scale = lr, momentum, nesterov, SCALES[scale]
        self.others_lr, self.weight_decay = others_lr, weight_decay
        self.b = [[0.0] * math.prod(shape) for _, shape, _ in TENSORS]
        self.adam = [AdamW(len(b), 0.9, beta2, eps) for b in self.b]

    def step(self, x: Vector, u: Vector) -> Vector:
        moved: Vector = []
        for j, ((_, shape, role), part, g) in enumerate(zip(TENSORS, parts(x), parts(u), strict=True)):
            if role != "matrix":
                moved += self.adam[j].step(part, g, self.others_lr * self.lr, self.weight_decay)
                continue
            self.b[j] = [self.mu * old + (1 - self.mu) * new for old, new in zip(self.b[j], g, strict=True)]  # (1)
            ahead = [(1 - self.mu) * new + self.mu * old for old, new in zip(self.b[j], g, strict=True)]
            y = flat(newton_schulz(as_matrix(ahead if self.nesterov else self.b[j], shape)))  # (2)
            s = self.scale(shape[0], len(part) // shape[0])
            pairs = zip(part, y, strict=True)
            moved += [a - self.lr * self.weight_decay * a - self.lr * s * o for a, o in pairs]  # (3)
        return moved


def muon(gradient, x, n, rounds, step):
    """x after every round, of a `Muon`."""
    path = []
    for _ in range(rounds):
        x = step.step(x, mean([gradient(i, x) for i in range(n)]))
        path.append(x)
    return path


def ef21_muon(gradient, x, n, rounds, step, compress, beta, dense_start, dense_down):
    """W after every round, of a `Muon` without momentum."""
    d, w, path = len(x), list(x), []
    m, ups = [[0.0] * d for _ in range(n)], [markov(compress, dense_start, [0.0] * d) for _ in range(n)]
    down = direct() if dense_down else markov(compress, start=x)
    for t in range(1, rounds + 1):
        for i in range(n):
            g = gradient(i, w)
            m[i] = g if dense_start and t == 1 else plus([(1 - beta) * a for a in m[i]], g, beta)  # (4)
        x = step.step(x, mean([up(own, t) for up, own in zip(ups, m, strict=True)]))  # (5)
        w = down(x, t)  # (6)
        path.append(w)
    return path
