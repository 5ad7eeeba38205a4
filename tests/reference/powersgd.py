"""PowerSGD by loops over workers, tensors and entries.

Source: Vogels, Karimireddy and Jaggi 2019, Algorithms 1 and 2, and their code's step:

    (1) M_i = G_i + E_i, of every tensor of two axes
    (2) P = mean_i M_i Q, its columns made orthonormal
    (3) R = mean_i M_iᵀ P
    (4) D = P Rᵀ;  of other tensors the mean gradient
    (5) E_i ← M_i − D (global), or M_i − P (M_iᵀ P)ᵀ (local)
    (6) Q ← R
    (7) m ← μm + D + λx,  x ← x − α(D + λx + m)
"""

from reference.matrices import TENSORS, as_matrix, flat, orthonormalised, parts, product, transposed
from reference.methods import plus
from reference.problem import Vector, mean


def powersgd(gradient, x, n, lr, rounds, q, momentum, weight_decay, residual):
    """x after every round; `q` is the first Q of every tensor that is compressed, by name."""
    q = dict(q)
    errors = [[[0.0] * len(part) for part in parts(x)] for _ in range(n)]
    m, path = [0.0] * len(x), []
    for _ in range(rounds):
        gradients = [parts(gradient(i, x)) for i in range(n)]
        d: Vector = []
        for j, (name, shape, _) in enumerate(TENSORS):
            if name not in q:
                d += mean([g[j] for g in gradients])
                continue
            sent = [plus(gradients[i][j], errors[i][j]) for i in range(n)]  # (1)
            matrices = [as_matrix(one, shape) for one in sent]
            rank = len(q[name][0])
            left = mean([flat(product(one, q[name])) for one in matrices])
            p = orthonormalised([left[row * rank : (row + 1) * rank] for row in range(shape[0])])  # (2)
            own = [product(transposed(one), p) for one in matrices]
            average = mean([flat(one) for one in own])
            right = [average[row * rank : (row + 1) * rank] for row in range(len(matrices[0][0]))]  # (3)
            together = flat(product(p, transposed(right)))  # (4)
            for i in range(n):
                taken = together if residual == "global" else flat(product(p, transposed(own[i])))
                errors[i][j] = plus(sent[i], taken, -1)  # (5)
            q[name] = right  # (6)
            d += together
        u = [d[k] + weight_decay * x[k] for k in range(len(x))]
        m = [momentum * m[k] + u[k] for k in range(len(x))]
        x = [x[k] - lr * (u[k] + m[k]) for k in range(len(x))]  # (7)
        path.append(x)
    return path
