"""Modelled seconds against numbers worked out by hand."""

import pandas as pd
import pytest
from folder_support import folder

from plots.runs.find import find
from plots.runs.time_model import Link, at_mean_times, modelled_seconds
from plots.runs.variants import tell_apart

ROW = {"seconds": 60.0, "ranks": 2, "workers": 20, "trials": 3, "bits": 5_000_000, "round": 100}


@pytest.mark.parametrize(
    ("link", "seconds"),
    [
        # Two ranks computed 60 s for 20 workers and 3 step sizes: 2 s of one worker's own. 5 Mbit over 10 Mbit/s:
        # 0.5 s; 20 workers one after the other: 10 s. 100 rounds wait 2 · 4 ms: 0.8 s.
        (Link(bandwidth=10, latency=4, shared=False), 2.0 + 0.5 + 0.8),
        (Link(bandwidth=10, latency=4, shared=True), 2.0 + 10.0 + 0.8),
        (Link(bandwidth=10, latency=0, shared=False), 2.0 + 0.5),
        (Link(bandwidth=1e12, latency=0, shared=True), 2.0),
    ],
)
def test_a_row_worked_out_by_hand(link, seconds):
    rows = pd.DataFrame([ROW | {"seconds": 0.0, "bits": 0, "round": 0}, ROW])
    assert modelled_seconds(rows, link).tolist() == pytest.approx([0, seconds], rel=1e-9)


def test_times_of_seeds_are_averaged_and_nothing_else(tmp_path):
    for seed in (0, 1):  # the second takes twice as long
        folder(tmp_path, str(seed), seed=seed)
    frame = pd.concat([variant.frame() for variant in tell_apart(find(tmp_path))], ignore_index=True)
    averaged = at_mean_times(frame)
    assert averaged.loc[averaged["round"] == 100, "seconds"].tolist() == pytest.approx([6.0, 6.0])
    others = [column for column in frame if column != "seconds"]
    pd.testing.assert_frame_equal(averaged[others], frame[others])
