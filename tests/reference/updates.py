"""One replica's step by loops over coordinates; each class keeps its own moments."""

import math


class SGD:
    """x ← x − αu."""

    def step(self, x: list[float], u: list[float], lr: float) -> list[float]:
        return [x[k] - lr * u[k] for k in range(len(x))]


class Adam:
    """Algorithm 1, lines 13 to 16: no bias correction, ν inside the root; Adam is without line 15."""

    def __init__(self, d: int, amsgrad: bool, beta1: float = 0.9, beta2: float = 0.99, nu: float = 1e-8) -> None:
        self.m, self.v, self.v_hat = [0.0] * d, [0.0] * d, [0.0] * d
        self.amsgrad, self.beta1, self.beta2, self.nu = amsgrad, beta1, beta2, nu

    def step(self, x: list[float], u: list[float], lr: float) -> list[float]:
        moved = list(x)
        for k in range(len(x)):
            self.m[k] = self.beta1 * self.m[k] + (1 - self.beta1) * u[k]  # line 13
            self.v[k] = self.beta2 * self.v[k] + (1 - self.beta2) * u[k] ** 2  # line 14
            self.v_hat[k] = max(self.v_hat[k], self.v[k]) if self.amsgrad else self.v[k]  # line 15
            moved[k] = x[k] - lr * self.m[k] / math.sqrt(self.v_hat[k] + self.nu)  # line 16
        return moved
