"""Dion by loops over workers, tensors and entries.

Source: Ahn, Xu, Abreu et al. 2025, and their reference code:

    (1) M_i ← M_i + G_i, transposed where it is wide
    (2) P = mean_i M_i Q, its columns made orthonormal;  R = mean_i M_iᵀ P
    (3) M_i ← M_i − (1−μ)P Rᵀ
    (4) Q ← the columns of R, each divided by its norm + 1e-8
    (5) X ← X − αλX − α√(m/n)·P Qᵀ;  AdamW of what is no matrix
"""

import math

from reference.matrices import TENSORS, as_matrix, combined, flat, orthonormalised, parts, product, transposed
from reference.muon import AdamW
from reference.problem import Vector, mean


def dion(gradient, x, n, lr, rounds, q, momentum, others_lr, weight_decay):
    """x after every round; `q` is the first Q of every matrix, by name."""
    q = dict(q)
    momenta = [{} for _ in range(n)]
    adam = [AdamW(len(part), 0.9, 0.95, 1e-8) for part in parts(x)]
    path = []
    for _ in range(rounds):
        gradients = [parts(gradient(i, x)) for i in range(n)]
        moved: Vector = []
        for j, ((name, shape, _), part) in enumerate(zip(TENSORS, parts(x), strict=True)):
            if name not in q:
                moved += adam[j].step(part, mean([g[j] for g in gradients]), others_lr * lr, weight_decay)
                continue
            rows, columns = shape[0], len(part) // shape[0]
            is_wide = rows < columns
            for i in range(n):
                g = as_matrix(gradients[i][j], shape)
                g = transposed(g) if is_wide else g
                momenta[i][name] = combined(1.0, momenta[i][name], 1.0, g) if name in momenta[i] else g  # (1)
            rank = len(q[name][0])
            left = mean([flat(product(momenta[i][name], q[name])) for i in range(n)])
            p = orthonormalised([left[k : k + rank] for k in range(0, len(left), rank)])
            average = mean([flat(product(transposed(momenta[i][name]), p)) for i in range(n)])
            right = [average[k : k + rank] for k in range(0, len(average), rank)]  # (2)
            for i in range(n):
                taken = product(p, transposed(right))
                momenta[i][name] = combined(1.0, momenta[i][name], momentum - 1, taken)  # (3)
            lengths = [math.sqrt(sum(row[k] ** 2 for row in right)) + 1e-8 for k in range(rank)]
            q[name] = [[row[k] / lengths[k] for k in range(rank)] for row in right]  # (4)
            step = product(p, transposed(q[name]))
            step = flat(transposed(step) if is_wide else step)
            s = math.sqrt(rows / columns)
            moved += [v - lr * weight_decay * v - lr * s * o for v, o in zip(part, step, strict=True)]  # (5)
        x = moved
        path.append(x)
    return path
