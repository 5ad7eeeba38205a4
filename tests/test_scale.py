"""The tables over size: what is fitted, and that one point measures what it says."""

import pytest

from benchmarks import scale
from benchmarks.scale import Point, Problem, exponent


@pytest.mark.parametrize("power", [0.0, 1.0, 1.5])
def test_the_exponent_of_a_power(power: float) -> None:
    sizes = [10, 100, 1000, 10_000]
    assert exponent(sizes, [3 * size**power for size in sizes]) == pytest.approx(power, abs=1e-12)


def test_a_point_holds_its_vectors_and_data() -> None:
    """Peak memory of a process of its own: no less than is predicted, which the data and the vectors sum up to."""
    problem = Problem(rows=2000, features=200_000, entries=50, workers=2)
    point = scale._point(problem)
    assert point is not None
    columns = problem.csr + 2 * 4 * problem.features
    assert point.predicted == pytest.approx(problem.csr + columns + 22 * 8 * problem.features, rel=1e-3)
    assert point.predicted < point.peak < 2 * point.predicted


def test_a_table_says_what_was_refused_and_fits_the_larger_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    def point(problem: Problem) -> Point | None:
        rows = problem.rows
        return (
            None
            if rows > 10**7
            else Point(seconds=1.0 if rows < 1000 else rows / 1000, peak=7 * rows, predicted=rows)
        )

    monkeypatch.setattr(scale, "_point", point)
    lines = scale._table("rows", [Problem(10**power, 10, 2, 1) for power in range(2, 9)])
    assert lines[-2] == "| 100,000,000 | refused | refused | refused |"
    assert lines[-3] == "| 10,000,000 | 1e+04 | 66.8 MiB | 9.54 MiB |"
    assert lines[-1] == "| **exponent** | 1.00 | 1.00 | |"


def test_unknown_keys_are_refused_before_anything_is_measured(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        scale.main(["longer=true"])
    assert "keys are long=true and out=FILE" in capsys.readouterr().err
