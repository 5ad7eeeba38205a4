"""The tables over size: what is fitted, and that one point measures what it says."""

import pytest

from benchmarks import scale
from benchmarks.scale import Point, Problem, exponent


@pytest.mark.parametrize("power", [0.0, 1.0, 1.5])
def test_the_exponent_of_a_power(power: float) -> None:
    sizes = [10, 100, 1000, 10_000]
    assert exponent(sizes, [3 * size**power for size in sizes]) == pytest.approx(power, abs=1e-12)


@pytest.mark.slow
def test_a_point_holds_its_vectors_and_data() -> None:
    """Peak memory of a process of its own: no less than is predicted, which the data and the vectors sum up to."""
    problem = Problem(rows=2000, features=200_000, entries=50, workers=2)
    point = scale._point(problem)
    assert point is not None
    columns = problem.csr + 2 * 4 * problem.features
    assert point.predicted == pytest.approx(problem.csr + columns + 22 * 8 * problem.features, rel=1e-3)
    assert point.predicted < point.peak < 2 * point.predicted


def test_a_table_says_what_was_refused_and_fits_the_larger_sizes() -> None:
    problems = {f"{10**power:,}": Problem(10**power, 10, 2, 1) for power in range(2, 9)}
    points = {
        label: Point(1.0 if one.rows < 1000 else one.rows / 1000, 7 * one.rows, one.rows)
        if one.rows < 10**8
        else None
        for label, one in problems.items()
    }
    lines = scale.table("rows", problems, points).splitlines()
    assert lines[-2] == "| 100,000,000 | refused | refused | refused | refused |"
    assert lines[-3].startswith("| 10,000,000 | 1e+04 | 66.8 MiB | 9.54 MiB |")
    assert lines[-1] == "| **exponent** | 1.00 | 1.00 |  |  |"
