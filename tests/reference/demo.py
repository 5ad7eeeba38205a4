"""DeMo by loops over workers, tensors, chunks and coefficients.

Source: Peng, Quesnelle and Kingma 2024 and their code:

    (1) δ_i ← βδ_i + αg_i
    (2) of every chunk h × w: the k coefficients of its DCT-II that are largest; δ_i ← δ_i − what they stand for
    (3) z: of every coefficient the mean over the workers that sent it, be it 0
    (4) x ← x − αλx − α·sgn(DCT⁻¹(z)), sgn(0) = 0, or +1 with `plus`

Without `dct` the identity takes the transform's place.
"""

import math

from reference.matrices import TENSORS, Matrix, as_matrix, parts, product, transposed


def basis(n: int, dct: bool) -> Matrix:
    if not dct:
        return [[float(i == j) for i in range(n)] for j in range(n)]
    return [
        [math.sqrt((1 if j == 0 else 2) / n) * math.cos(math.pi * (2 * i + 1) * j / (2 * n)) for i in range(n)]
        for j in range(n)
    ]


def divisor(n: int, most: int) -> int:
    return max(one for one in range(1, most + 1) if n % one == 0)


def chunks(matrix: Matrix, h: int, w: int) -> list[tuple[int, int, Matrix]]:
    return [
        (top, left, [row[left : left + w] for row in matrix[top : top + h]])
        for top in range(0, len(matrix), h)
        for left in range(0, len(matrix[0]), w)
    ]


def demo(gradient, x, n, lr, rounds, k, side, beta, weight_decay, dct=True, plus=False):
    """x after every round."""
    delta = [[0.0] * len(x) for _ in range(n)]
    path = []
    for _ in range(rounds):
        for i in range(n):
            g = gradient(i, x)
            delta[i] = [beta * delta[i][j] + lr * g[j] for j in range(len(x))]  # (1)
        step, begin = [0.0] * len(x), 0
        for (_, shape, _), part in zip(TENSORS, parts(x), strict=True):
            columns = len(part) // shape[0]
            h, w = divisor(shape[0], side), divisor(columns, side)
            a, b = basis(h, dct), basis(w, dct)
            matrices = [as_matrix(delta[i][begin : begin + len(part)], shape) for i in range(n)]
            for place in range(len(chunks(matrices[0], h, w))):
                total = [[0.0] * w for _ in range(h)]
                senders = [[0] * w for _ in range(h)]
                for i in range(n):
                    top, left, chunk = chunks(matrices[i], h, w)[place]
                    z = product(product(a, chunk), transposed(b))
                    order = sorted(range(h * w), key=lambda c, z=z, w=w: (-abs(z[c // w][c % w]), c))[:k]  # (2)
                    sent = [[z[r][c] if r * w + c in order else 0.0 for c in range(w)] for r in range(h)]
                    for place_of_sent in order:
                        senders[place_of_sent // w][place_of_sent % w] += 1
                    taken = product(product(transposed(a), sent), b)
                    for r in range(h):
                        for c in range(w):
                            delta[i][begin + (top + r) * columns + left + c] -= taken[r][c]
                            total[r][c] += sent[r][c]
                z = [[total[r][c] / max(1, senders[r][c]) for c in range(w)] for r in range(h)]  # (3)
                top, left, _ = chunks(matrices[0], h, w)[place]
                moved = product(product(transposed(a), z), b)
                for r in range(h):
                    for c in range(w):
                        step[begin + (top + r) * columns + left + c] = moved[r][c]
            begin += len(part)
        signs = [(1 if value >= 0 else -1) if plus else (value > 0) - (value < 0) for value in step]
        x = [x[j] - lr * weight_decay * x[j] - lr * signs[j] for j in range(len(x))]  # (4)
        path.append(x)
    return path
