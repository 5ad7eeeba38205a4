"""Local SGD, local AdamW and DiLoCo by loops over workers and coordinates.

Sources: McMahan et al. 2016; Douillard et al. 2023, arXiv 2311.08105. In every round t

    worker i  (1) x_i ← x_i − α g_i, or AdamW's step with m_i and v_i of its own, g_i = ∇f_i(x_i)
    where H divides t:
    all       (2) Δ̄ = mean_i (x − x_i)
              (3) b ← μb + Δ̄
              (4) x ← x − η(Δ̄ + μb), x_i ← x

With a compressor (2) is Δ̄ = mean_i c_i, c_i = C(Δ_i + βe_i), e_i ← Δ_i + βe_i − c_i.
"""

from collections.abc import Callable
from math import sqrt

from reference.loops import Gradient, Vector, mean

Inner = Callable[[int, int, Vector, Vector], Vector]


def sgd(lr: float) -> Inner:
    """What a worker of a number becomes in a round, from its model and gradient."""
    return lambda i, t, x, g: [a - lr * b for a, b in zip(x, g, strict=True)]


def adamw(lr: float, beta1: float, beta2: float, eps: float, weight_decay: float) -> Inner:
    """AdamW as torch has it, with moments for every worker."""
    m: dict[int, Vector] = {}
    v: dict[int, Vector] = {}

    def step(i: int, t: int, x: Vector, g: Vector) -> Vector:
        m[i] = [beta1 * a + (1 - beta1) * b for a, b in zip(m.get(i, [0.0] * len(x)), g, strict=True)]
        v[i] = [beta2 * a + (1 - beta2) * b * b for a, b in zip(v.get(i, [0.0] * len(x)), g, strict=True)]
        moved = []
        for a, first, second in zip(x, m[i], v[i], strict=True):
            first, second = first / (1 - beta1**t), second / (1 - beta2**t)
            moved.append(a - lr * weight_decay * a - lr * first / (sqrt(second) + eps))
        return moved

    return step


def local_steps(
    gradient: Gradient,
    x: Vector,
    n: int,
    inner: Inner,
    rounds: int,
    period: int,
    eta: float = 1.0,
    mu: float = 0.0,
    compress: Callable[[Vector], Vector] = lambda x: x,
    beta: float = 0.0,
) -> list[Vector]:
    """The common x after every round."""
    d = len(x)
    own, errors = [list(x) for _ in range(n)], [[0.0] * d for _ in range(n)]
    b, path = [0.0] * d, []
    for t in range(1, rounds + 1):
        for i in range(n):
            own[i] = inner(i, t, own[i], gradient(i, own[i]))  # (1)
        if t % period == 0:
            sent = []
            for i in range(n):
                wanted = [x[k] - own[i][k] + beta * errors[i][k] for k in range(d)]
                c = compress(wanted)
                errors[i] = [wanted[k] - c[k] for k in range(d)]
                sent.append(c)
            delta = mean(sent)  # (2)
            b = [mu * b[k] + delta[k] for k in range(d)]  # (3)
            x = [x[k] - eta * (delta[k] + mu * b[k]) for k in range(d)]  # (4)
            own = [list(x) for _ in range(n)]
        path.append(list(x))
    return path
