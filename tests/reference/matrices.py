"""Matrices as lists of rows, and a small nonconvex problem whose parameters are such, in plain Python."""

import math
import random

from reference.problem import Vector, drawn, of_rows

Matrix = list[Vector]

WORKERS, ROWS = 3, 6
TENSORS = [("first", (2, 3), "embedding"), ("tall", (4, 2), "matrix"), ("bias", (3,), "vector"),
           ("wide", (2, 3), "matrix"), ("last", (1, 4), "head")]  # fmt: skip
"""Name, shape and role, in the order of the vector."""
D = sum(math.prod(shape) for _, shape, _ in TENSORS)

_random = random.Random(11)
DATA = drawn(_random, WORKERS, ROWS, D)
START = [_random.gauss(0, 0.3) for _ in range(D)]


def gradient(i: int, x: Vector) -> Vector:
    """∇f_i of a logistic regression with a nonconvex penalty."""
    return of_rows(DATA[i], x)


def parts(x: Vector) -> list[Vector]:
    """The tensors of a vector, each as a list of its coordinates."""
    found, begin = [], 0
    for _, shape, _ in TENSORS:
        found.append(x[begin : begin + math.prod(shape)])
        begin += math.prod(shape)
    return found


def as_matrix(coordinates: Vector, shape: tuple[int, ...]) -> Matrix:
    """Rows of the length of all axes but the first."""
    columns = len(coordinates) // shape[0]
    return [coordinates[row * columns : (row + 1) * columns] for row in range(shape[0])]


def flat(matrix: Matrix) -> Vector:
    return [value for row in matrix for value in row]


def product(a: Matrix, b: Matrix) -> Matrix:
    return [[sum(a[i][k] * b[k][j] for k in range(len(b))) for j in range(len(b[0]))] for i in range(len(a))]


def transposed(a: Matrix) -> Matrix:
    return [[row[j] for row in a] for j in range(len(a[0]))]


def combined(p: float, a: Matrix, q: float, b: Matrix) -> Matrix:
    """pa + qb."""
    return [[p * a[i][j] + q * b[i][j] for j in range(len(a[0]))] for i in range(len(a))]


def norm(a: Matrix) -> float:
    return math.sqrt(sum(value * value for row in a for value in row))


def orthonormalised(a: Matrix) -> Matrix:
    """Its columns by Gram and Schmidt; those that depend on the ones before are not foreseen."""
    done: Matrix = []
    for column in transposed(a):
        for other in done:
            along = sum(x * y for x, y in zip(other, column, strict=True))
            column = [x - along * y for x, y in zip(column, other, strict=True)]
        length = math.sqrt(sum(x * x for x in column))
        done.append([x / length for x in column])
    return transposed(done)
