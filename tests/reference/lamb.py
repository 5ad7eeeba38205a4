"""LAMB and 1-bit LAMB by loops over workers, tensors and coordinates.

Sources: You et al. 2020, arXiv 1904.00962; Li et al. 2021, arXiv 2104.06069, as its authors' DeepSpeed optimizer runs
it, with its constants. Departures: one server for the whole vector and no padding; no dry first step; m is zero where
v is; σ is 1 where m is zero. Equations (t: round; j: tensor; δ zero at the start):

    warm-up   (1) u = mean_i g_i, m ← β₁m + (1−β₁)u, v ← β₂v + (1−β₂)u², U = m/(√v + ε) + λx
              (2) r_j = ‖x_j‖/‖U_j‖ within [0.01, 10], 1 where one is zero;  x_j ← x_j − α r_j U_j
              (3) c̄_j ← 0.9c̄_j + 0.1r_j where r_j ≠ 1
    at its end (4) w ← v;  ρ_j = ‖m_j‖/√d_j, σ_j = mean_k ρ_k / ρ_j
    then      (5) w_i = (β₁m + (1−β₁)g_i)σ + δ_i, c_i = C(w_i), δ_i ← w_i − c_i
              (6) y = mean_i c_i + δ_s, z = C(y), δ_s ← y − z
              (7) m' = z/σ, zero where v = 0;  g' = (m' − β₁m)/(1−β₁), w ← β₂w + (1−β₂)g'², m ← m'
              (8) P = m/(√v + ε), U = P + λx, f = max((√v + ε)/(√w + ε)), and for λ > 0 f ← fs + 1 − s with
                  s = min(1, ‖P‖/‖U‖);  f within [0.5, 4], then within 0.9 and 1.1 times the last;  x ← x − α c̄ f U
"""

from math import hypot, sqrt

from reference.methods import error_feedback
from reference.problem import mean


def within(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def onebit_lamb(gradient, x, n, lr, rounds, warmup, sizes, compress, beta2=0.999, weight_decay=0.0):
    """x after each round; with `warmup` = `rounds` it is LAMB."""
    d, x, beta1, eps = len(x), list(x), 0.9, 1e-8
    tensors = [range(sum(sizes[:j]), sum(sizes[: j + 1])) for j in range(len(sizes))]
    m, v, fresh = [0.0] * d, [0.0] * d, [0.0] * d
    average, last, scale = [0.0] * len(sizes), [1.0] * len(sizes), [1.0] * len(sizes)
    ups, down = [error_feedback(compress, d=d) for _ in range(n)], error_feedback(compress, d=d)
    path = []
    for t in range(1, rounds + 1):
        g = [gradient(i, x) for i in range(n)]
        if t <= warmup:
            u = mean(g)
            m = [beta1 * m[k] + (1 - beta1) * u[k] for k in range(d)]  # (1)
            v = [beta2 * v[k] + (1 - beta2) * u[k] ** 2 for k in range(d)]
            for j, tensor in enumerate(tensors):
                step = {k: m[k] / (sqrt(v[k]) + eps) + weight_decay * x[k] for k in tensor}
                length, of_step = hypot(*(x[k] for k in tensor)), hypot(*step.values())
                r = within(length / of_step, 0.01, 10.0) if length > 0 and of_step > 0 else 1.0  # (2)
                for k in tensor:
                    x[k] -= lr * r * step[k]
                if r != 1:
                    average[j] = 0.9 * average[j] + 0.1 * r  # (3)
            if t == warmup:
                fresh = list(v)
                rho = [hypot(*(m[k] for k in tensor)) / sqrt(len(tensor)) for tensor in tensors]
                scale = [sum(rho) / len(rho) / one if one > 0 else 1.0 for one in rho]  # (4)
        else:
            sigma = [scale[j] for j, tensor in enumerate(tensors) for _ in tensor]
            w = [[(beta1 * m[k] + (1 - beta1) * own[k]) * sigma[k] for k in range(d)] for own in g]
            z = down(mean([up(own, t) for up, own in zip(ups, w, strict=True)]), t)  # (5), (6)
            new = [z[k] / sigma[k] if v[k] > 0 else 0.0 for k in range(d)]  # (7)
            for k in range(d):
                fresh[k] = beta2 * fresh[k] + (1 - beta2) * ((new[k] - beta1 * m[k]) / (1 - beta1)) ** 2
            m = new
            for j, tensor in enumerate(tensors):  # (8)
                plain = {k: m[k] / (sqrt(v[k]) + eps) for k in tensor}
                step = {k: plain[k] + weight_decay * x[k] for k in tensor}
                f = max((sqrt(v[k]) + eps) / (sqrt(fresh[k]) + eps) for k in tensor)
                if weight_decay > 0:
                    share = min(1.0, hypot(*plain.values()) / hypot(*step.values()))
                    f = f * share + 1 - share
                f = within(within(f, 0.5, 4.0), 0.9 * last[j], 1.1 * last[j])
                last[j] = f
                for k in tensor:
                    x[k] -= lr * average[j] * f * step[k]
        path.append(list(x))
    return path
