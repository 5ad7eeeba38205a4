"""The inner step of MuLoCo, Muon in every worker, by loops over tensors and entries; the rest is `local_steps`.

Sources: Thérien et al. 2025, arXiv 2505.23725; Jordan et al. 2024. In every round, for worker i

    (1) of a matrix  B_i ← μB_i + (1−μ)g_i,  X ← X − αλX − αsY, Y from U = B_i, or (1−μ)g_i + μB_i with Nesterov
    (2) of all else  AdamW with ρα
"""

from reference.local_steps import Inner
from reference.loops import Vector
from reference.matrices import TENSORS, D, as_matrix, flat, parts
from reference.muon import SCALES, AdamW, newton_schulz


def muon_apart(
    n: int, lr: float, momentum: float, nesterov: bool, scale: str, others_lr: float, weight_decay: float
) -> Inner:
    """What a worker of a number becomes in a round, from its model and gradient."""
    sizes = [len(part) for part in parts([0.0] * D)]
    b = [[[0.0] * size for size in sizes] for _ in range(n)]
    adam = [[AdamW(size, 0.9, 0.99, 1e-8) for size in sizes] for _ in range(n)]

    def step(i: int, t: int, x: Vector, g: Vector) -> Vector:
        moved: Vector = []
        for j, (part, of_part) in enumerate(zip(parts(x), parts(g), strict=True)):
            _, shape, role = TENSORS[j]
            if role != "matrix":
                moved += adam[i][j].step(part, of_part, others_lr * lr, weight_decay)  # (2)
                continue
            b[i][j] = [momentum * old + (1 - momentum) * new for old, new in zip(b[i][j], of_part, strict=True)]
            u = b[i][j]
            if nesterov:
                u = [(1 - momentum) * new + momentum * old for old, new in zip(u, of_part, strict=True)]
            y = flat(newton_schulz(as_matrix(u, shape)))
            s = SCALES[scale](shape[0], len(part) // shape[0])
            moved += [v - lr * weight_decay * v - lr * s * o for v, o in zip(part, y, strict=True)]  # (1)
        return moved

    return step
