"""Derived columns, targets and the slope check on hand-made frames."""

import numpy as np
import pandas as pd
import pytest
from curve_support import check, curve, labelled

from plots.claims.check import FAILS, HOLDS
from plots.figure.derive import ByStepSize, LeastSoFar, MinimumOverRounds, Ratio
from plots.runs.results import bits_to_reach

falls_with_rounds = check("falls_with_rounds")


def test_the_ratio_is_taken_at_the_same_task_batch_step_size_seed_and_round():
    def rows(scale: float, lr: float, batch: int | None) -> pd.DataFrame:
        return curve([1.0, 1.0], (1, 2), second_moment=[scale, scale * lr * 10], batch_size=batch)

    frames = [
        labelled(name, task, rows(scale, lr, batch), lr, seed=seed)
        for task, seed, batch, noisy in (
            ("a", 0, None, 10.0),
            ("b", 0, 4, 4.0),
            ("b", 0, 1, 8.0),
            ("a", 1, None, 6.0),
        )
        for name, scale in (("plain", 2.0 + seed), ("noisy", noisy))
        for lr in (0.1, 0.5)
    ]
    frame = Ratio(metric="second_moment", over="plain").apply(pd.concat(frames, ignore_index=True))
    frame["batch_size"] = frame["batch_size"].fillna(0)
    ratios = frame.groupby(["algorithm", "task", "seed", "batch_size"])["second_moment_ratio"].unique()
    keys = (("a", 0, 0), ("b", 0, 4), ("b", 0, 1), ("a", 1, 0))
    assert [ratios["noisy", *key].tolist() for key in keys] == [[5.0], [2.0], [4.0], [2.0]]
    assert ratios["plain", "a", 0, 0].tolist() == [1.0]
    frame = labelled("noisy", "a", curve([1.0, 1.0], (1, 2), second_moment=[1.0, 2.0], batch_size=None))
    assert Ratio(metric="second_moment", over="plain").apply(frame)["second_moment_ratio"].isna().all()


def test_the_least_so_far_is_of_each_run_and_trial_in_the_order_of_rounds():
    first = labelled("m", "a", curve([3.0, 0.5, 2.0], (0, 1, 2))).assign(run="x", trial=0)
    other_trial = labelled("m", "a", curve([9.0, 1.5, 1.0], (0, 1, 2))).assign(run="x", trial=1)
    mixed = pd.concat([first.iloc[::-1], other_trial], ignore_index=True)
    found = LeastSoFar(metric="grad_norm").apply(mixed)
    assert found["grad_norm"].tolist() == [0.5, 0.5, 3.0, 9.0, 1.5, 1.0]
    assert mixed["grad_norm"].tolist() == [2.0, 0.5, 3.0, 9.0, 1.5, 1.0]


def test_the_minimum_is_over_the_rounds_of_each_run_and_trial():
    first = labelled("m", "a", curve([3.0, 0.5, 2.0], (0, 1, 2))).assign(run="x", trial=0)
    other_trial = labelled("m", "a", curve([3.0, 1.5, 4.0], (0, 1, 2))).assign(run="x", trial=1)
    longer = labelled("m", "a", curve([3.0, 0.25, 0.1, 0.2], (0, 1, 2, 4))).assign(run="y", trial=0)
    planned = pd.concat([first, other_trial, longer], ignore_index=True).assign(planned_rounds=2)
    frame = MinimumOverRounds().apply(planned)
    assert list(frame[["round", "grad_norm", "min_grad_norm_squared"]].itertuples(index=False, name=None)) == [
        (2, 0.5, 0.25),
        (2, 1.5, 2.25),
        (4, 0.1, pytest.approx(0.01)),
    ]
    cut = MinimumOverRounds().apply(planned.assign(planned_rounds=4))  # two of them did not come that far
    assert cut["min_grad_norm_squared"].isna().tolist() == [True, True, False]


def test_every_step_size_of_one_method_becomes_a_curve():
    frames = [
        labelled(name, "a", curve([1.0, lr], (1, 2)), lr, seed=seed)
        for name in ("plain", "noisy")
        for seed in (0, 1)
        for lr in (0.5, 0.003)
    ]
    apart = ByStepSize(algorithm="noisy").apply(pd.concat(frames, ignore_index=True))
    assert apart["algorithm"].unique().tolist() == ["noisy 0.003", "noisy 0.5"]
    assert apart["label"].unique().tolist() == ["α = 0.003", "α = 0.5"]
    assert apart.groupby("algorithm")["lr"].unique().map(list).to_dict() == {
        "noisy 0.003": [0.003],
        "noisy 0.5": [0.5],
    }
    assert apart.groupby("lr")["color"].nunique().tolist() == [1, 1]
    assert apart["color"].nunique() == apart["marker"].nunique() == 2
    assert len(apart) == 8


def test_targets_over_seeds_are_means_of_step_sizes_with_which_all_got_there():
    def reaching(at, lr, seed):
        values = [1.0 if r < at else 0.1 for r in range(0, 50, 10)]
        return labelled("m", "a", curve(values, range(0, 50, 10)), lr=lr, seed=seed)

    frame = pd.concat([
        reaching(10, 0.1, 0), reaching(40, 0.1, 1),    # on average 250 bits
        reaching(20, 0.2, 0), reaching(20, 0.2, 1),    # 200
        reaching(10, 0.3, 0), reaching(99, 0.3, 1),    # one seed never
    ])  # fmt: skip
    [row] = bits_to_reach(frame, "grad_norm", [0.5]).to_dict("records")
    assert row == {"task": "a", "algorithm": "m", "label": "M", "level": 0.5, "bits": 200, "round": 20, "lr": 0.2,
                   "bits_min": 200, "bits_max": 200}  # fmt: skip
    [row] = bits_to_reach(frame[frame["lr"] == 0.1], "grad_norm", [0.5]).to_dict("records")
    assert [row[name] for name in ("bits", "round", "bits_min", "bits_max")] == [250, 25, 100, 400]
    [row] = bits_to_reach(frame[frame["lr"] == 0.3], "grad_norm", [0.5]).to_dict("records")
    assert pd.isna([row[name] for name in ("bits", "round", "lr", "bits_min", "bits_max")]).all()


@pytest.mark.parametrize(("slope", "verdict"), [(-1.0, HOLDS), (-0.5, HOLDS), (-0.46, HOLDS), (-0.44, FAILS)])
def test_the_slope_of_a_power_law_is_found(slope, verdict):
    rounds = np.array([100, 200, 400, 800])
    frame = pd.DataFrame({"round": rounds, "min_grad_norm_squared": 3.0 * rounds**slope})
    finding = falls_with_rounds({"m": frame}, "m", exponent=-0.5, tolerance=0.05)
    assert finding.verdict == verdict
    assert finding.measured == f"T^{slope:.2f}, 4 runs"
    diverged = pd.concat([frame, pd.DataFrame({"round": [900], "min_grad_norm_squared": [np.nan]})])
    assert falls_with_rounds({"m": diverged}, "m", exponent=-0.5, tolerance=0.05) == finding
