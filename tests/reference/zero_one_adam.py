"""0/1 Adam by loops over workers and coordinates.

Source: Lu, Li, Zhang, De Sa and He, "Maximizing Communication Efficiency for Large-scale Training via 0/1 Adam"
(2022), as its authors' DeepSpeed optimizer runs it, with its counters: I and J are doubled where they count to κ and
to `stretch`. Departures: one server for the whole vector; no dry first step; the last round that may change v is T_v;
what is averaged is zero where v = 0. Equations (t: round, δ zero at the start and once more at T_v):

    t ≤ T_v  (1) t mod I = 0: u = mean_i g_i, v ← β₂v + (1−β₂)u²
             (2) else w_i = g_i + δ_i, c_i = C(w_i), δ_i ← w_i − c_i, y = mean_i c_i + δ_s, u = C(y), δ_s ← y − u
             (3) m ← β₁m + (1−β₁)u, x ← x − α(m/(√v + ε) + λx)
    t > T_v  (4) m_i ← β₁m_i + (1−β₁)g_i, s_i = α(m_i/(√v + ε) + λx_i), x_i ← x_i − s_i, u_i ← u_i − s_i
             (5) t mod J = 0: x = x_i − u_i, z as u in (2) of u_i(√v + ε) for g_i
             (6) m_i = −z/Σα, x_i = x + z/(√v + ε), u_i = 0, Σα = 0
"""

from math import sqrt

from reference.compressors import scaled_sign_l2
from reference.methods import error_feedback
from reference.problem import Vector, mean


def zero_one_adam(gradient, x, n, lrs, freeze, kappa, stretch, longest,
                  beta2=0.999, weight_decay=0.0, compress=scaled_sign_l2):  # fmt: skip
    """The common x after each round, that of the last exchange, and what crossed: a letter a round, d(ense),
    c(ompressed) or a dot for nothing. Round t has the step size lrs[t − 1]."""
    d, beta1, eps = len(x), 0.9, 1e-8
    m, v = [[0.0] * d for _ in range(n)], [0.0] * d
    own, u = [list(x) for _ in range(n)], [[0.0] * d for _ in range(n)]
    channels = [error_feedback(compress, d=d) for _ in range(n + 1)]  # the last one's is the server
    interval, dense, spacing, steps, total = 1, 0, 1, 0, 0.0
    path, crossed = [], ""

    def averaged(vectors: list[Vector]) -> Vector:
        z = channels[n](mean([channel(w, 0) for channel, w in zip(channels, vectors, strict=False)]), 0)
        return [z[k] if v[k] > 0 else 0.0 for k in range(d)]

    for t, lr in enumerate(lrs, 1):
        g = [gradient(i, own[i]) for i in range(n)]
        if t <= freeze:
            if t % interval == 0:
                average = mean(g)
                v = [beta2 * v[k] + (1 - beta2) * average[k] ** 2 for k in range(d)]  # (1)
                dense += 1
                if dense == kappa:
                    dense, interval = 0, 2 * interval
                crossed += "d"
            else:
                average = averaged(g)  # (2)
                crossed += "c"
            for i in range(n):  # (3), alike on all
                m[i] = [beta1 * m[i][k] + (1 - beta1) * average[k] for k in range(d)]
                step = [lr * (m[i][k] / (sqrt(v[k]) + eps) + weight_decay * own[i][k]) for k in range(d)]
                own[i] = [own[i][k] - step[k] for k in range(d)]
            x = list(own[0])
        else:
            if t == freeze + 1:
                channels = [error_feedback(compress, d=d) for _ in range(n + 1)]
            root = [sqrt(a) + eps for a in v]
            total += lr
            for i in range(n):  # (4)
                m[i] = [beta1 * m[i][k] + (1 - beta1) * g[i][k] for k in range(d)]
                step = [lr * ((m[i][k] if v[k] > 0 else 0.0) / root[k] + weight_decay * own[i][k]) for k in range(d)]
                own[i] = [own[i][k] - step[k] for k in range(d)]
                u[i] = [u[i][k] - step[k] for k in range(d)]
            crossed += "." if t % spacing else "c"
            if t % spacing == 0:
                z = averaged([[u[i][k] * root[k] for k in range(d)] for i in range(n)])  # (5)
                x = [own[0][k] - u[0][k] + z[k] / root[k] for k in range(d)]  # (6)
                for i in range(n):
                    own[i], u[i], m[i] = list(x), [0.0] * d, [-a / total for a in z]
                total = 0.0
            steps += 1
            if steps == stretch:
                steps, spacing = 0, min(longest, 2 * spacing)
        path.append(list(x))
    return path, crossed
