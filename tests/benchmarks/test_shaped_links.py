"""The benchmark of shaped links: its model and table by hand, and real nodes where this machine can make some."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from benchmarks import links, network
from benchmarks.contestants import D
from common.errors import RunError

COLUMNS = ("label", "form", "exchanges", "seconds", "bits_up")
ROWS = [
    ("DDP", "ring", 2, 2.0, 8e7),
    ("CD-Adam", "rank0", 2, 1.0, 1e7),
    ("CD-Adam", "sharded", 3, 2.0, 1e7),
    ("DDP, PowerSGD rank 1", None, 2, 0.5, 0),
]
LINK = {"nodes": 4, "latency": 1e-3, "bandwidth": 1e8, "computing": 0.5}


def test_the_model_worked_out_by_hand_and_its_table() -> None:
    rows = pd.DataFrame(ROWS, columns=COLUMNS).assign(**LINK)
    rows["bits_down"] = rows["bits_up"]
    rows["modelled"] = network.modelled(rows)
    ring = 0.5 + 2 * 3 / 4 * 0.8 + 6 * 1e-3
    rank0 = 0.5 + (3 + 3) * 0.1 + 4 * 1e-3
    sharded = 0.5 + 2 * 3 / 4 * 0.1 + 6 * 1e-3
    assert rows["modelled"].tolist() == pytest.approx([ring, rank0, sharded, float("nan")], nan_ok=True)
    text = network.report(rows, load=1.0)
    assert "| 4 | 1 | 100 | CD-Adam; rank0 | 500 | 1000 | 2.00 | +10% |" in text
    assert "| DDP, PowerSGD rank 1 | 500 | 500 | 4.00 | – |" in text
    assert "within 20 % of 2 of 3" in text


def test_both_ends_of_a_link_get_the_rate_and_the_nodes_end_the_latency() -> None:
    near, far = links.shaping("near", "far", 100, 5)
    assert near == "tc near root netem delay 5ms rate 100mbit limit 100000"
    assert far.startswith("tc far root tbf rate 100mbit burst 18028")
    assert links.shaping("near", "far", None, 0) == []


@pytest.mark.slow
def test_ranks_on_nodes_count_the_bits_of_their_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    try:
        with links.connected(2, 100, 0):
            pass
    except (RunError, FileNotFoundError) as reason:
        pytest.skip(str(reason))
    rows = network.measure(2, None, network.OWN_LATENCY, turns=0)
    assert not list(Path("/run/netns").glob("cnet*"))
    found = {(row.label, row.form): (row.bits_up, row.bits_down) for row in rows.itertuples()}
    assert found["DDP", "ring"] == found["AMSGrad", "rank0"] == found["AMSGrad", "sharded"] == (32 * D, 32 * D)
    assert found["DDP, fp16 hook", "ring"] == (16 * D, 16 * D)
    assert found["CD-Adam", "rank0"] == found["CD-Adam", "sharded"] == (D + 32, D + 32)
    assert found["EF21 top-1 %", "rank0"] == found["EF21 top-1 %", "sharded"]
