"""Local SGD, local AdamW, DiLoCo, SparseLoCo and SPARTA by loops over workers and coordinates.

Sources: McMahan et al. 2016; Douillard et al. 2023, arXiv 2311.08105; Sarfi et al. 2025, arXiv 2508.15706; EXO Labs
2025, exo-explore/gym. In every round t

    worker i  (1) x_i ← x_i − α g_i, or AdamW's step with m_i and v_i of its own, g_i = ∇f_i(x_i)
    where H divides t:
    worker i  (2) e_i ← βe_i + x − x_i, c_i = C(e_i), e_i ← e_i − c_i
    all       (3) Δ̄ = mean_i c_i, or of every coordinate the mean over those that sent it, be it 0
              (4) b ← μb + Δ̄,  x ← x − η(Δ̄ + μb), x_i ← x

and in place of what is behind (1) for SPARTA, with coordinates S that are given

    all       (5) x_i[k] ← mean_j x_j[k] for k in S

Streaming (Douillard et al. 2025, arXiv 2501.18512): the coordinates fall into P fragments. Where t = kH/P, (2) to (4)
without x_i ← x are of fragment (k − 1) mod P alone. After (1) of the round that is τ later, or after (4) for τ = 0,

    worker i  (6) x_i ← (1 − a)x_i + ax for the coordinates of the fragment
"""

from collections.abc import Callable

from reference.methods import plus
from reference.muon import AdamW
from reference.problem import Vector

Inner = Callable[[int, int, Vector, Vector], Vector]
"""What a worker of a number becomes in a round, from its model and gradient."""


def sgd(lr: float) -> Inner:
    return lambda i, t, x, g: plus(x, g, -lr)


def adamw(lr: float, beta1: float, beta2: float, eps: float, weight_decay: float) -> Inner:
    """AdamW with moments for every worker."""
    own: dict[int, AdamW] = {}

    def step(i: int, t: int, x: Vector, g: Vector) -> Vector:
        return own.setdefault(i, AdamW(len(x), beta1, beta2, eps)).step(x, g, lr, weight_decay)

    return step


def local_steps(
    gradient, x, n, inner, rounds, period, eta=1.0, mu=0.0, compress=list, beta=0.0, chosen=None, down=None,
    fragments=None, delay=0, a=1.0,
):  # fmt: skip
    """The common x after every round.

    `chosen`: the coordinates of a vector that are sent. `down`: C of the mean. `fragments`: their coordinates.
    """
    d, x = len(x), list(x)
    fragments = fragments or [range(d)]
    own, errors = [list(x) for _ in range(n)], [[0.0] * d for _ in range(n)]
    b, lost, path, taken, each = [0.0] * d, [0.0] * d, [], {}, period // len(fragments)
    for t in range(1, rounds + 1):
        for i in range(n):
            own[i] = inner(i, t, own[i], gradient(i, own[i]))  # (1)
        if t % each == 0:
            part = taken[t + delay] = fragments[(t // each - 1) % len(fragments)]
            total, senders = [0.0] * len(part), [0] * len(part)
            for i in range(n):
                e = [x[k] - own[i][k] + beta * errors[i][k] for k in part]
                c = compress(e)
                total = plus(total, c)
                for k, error in zip(part, plus(e, c, -1), strict=True):
                    errors[i][k] = error  # (2)
                for j in chosen(e) if chosen else range(len(part)):
                    senders[j] += 1
            delta = [one / max(1, count) for one, count in zip(total, senders, strict=True)]  # (3)
            if down:
                wanted = plus(delta, [lost[k] for k in part], beta)
                delta = down(wanted)
                for k, error in zip(part, plus(wanted, delta, -1), strict=True):
                    lost[k] = error
            for k, one in zip(part, delta, strict=True):
                b[k] = mu * b[k] + one
                x[k] -= eta * (one + mu * b[k])  # (4)
        for k in taken.pop(t, []):
            for i in range(n):
                own[i][k] = (1 - a) * own[i][k] + a * x[k]  # (4), or (6) of fragments
        path.append(list(x))
    return path


def sparta(gradient, x, n, inner, rounds, chosen):
    """The workers' models after every round, S of round t being chosen(t)."""
    own, path = [list(x) for _ in range(n)], []
    for t in range(1, rounds + 1):
        for i in range(n):
            own[i] = inner(i, t, own[i], gradient(i, own[i]))  # (1)
        for k in chosen(t):
            average = sum(own[i][k] for i in range(n)) / n
            for i in range(n):
                own[i][k] = average  # (5)
        path.append([list(one) for one in own])
    return path
