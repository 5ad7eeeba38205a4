"""Figures of modelled times over bandwidth, and of measured rounds, against numbers worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from curve_support import claim
from folder_support import change, folder, rewrite

from plots.figure import curves
from plots.figure import times as module
from plots.figure.publish import publish, rows_of
from plots.figure.spec import Figure, Times
from plots.runs.network import Network

D, RATE = 1000, 1e6
TIMES = Times(metric="grad_norm", level=0.5, workers=(4, 8), bandwidth=(0.1, 100.0), topologies=("sharded", "ring"))
LINK = Network(latency=0)
QUICK = [
    claim(f"1, from {low}", f"twice, from {low}", "times_faster", subject="noisy", reference="plain", times=2.0,
          low=low, high=100.0)
    for low in (0.1, 10.0)
]  # fmt: skip
NEAR = claim("2", "near", "as_measured", within=0.2)
FIGURE = Figure(name="mine", title="A title", grid=(("seed=0",),), times=TIMES, network=LINK)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "A_DECADE", 8)


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """Plain, dense, is at the level after 10 rounds of 10 ms; Noisy, of 1 bit, after 20 of them."""
    found = []
    for name, bits, rounds in (("plain", 32 * D, 10), ("noisy", D, 20)):
        path = folder(tmp_path, "0", algorithm=name)
        change(path, "environment.json", lambda facts: facts | {"d": D, "servers": 8, "exchanges": 2})

        def row(row: dict, bits: int = bits, rounds: int = rounds) -> dict:
            t = row["round"]
            sent = {"bits_up": bits * t, "bits_down": bits * t, "bits": 2 * bits * t}
            return row | sent | {"seconds": 0.02 * t, "grad_norm": 1.0 if t < rounds else 0.5}

        rewrite(path, row)
        found.append(path)
    return found


def seconds(workers: int, mbits: float, rounds: int, bits: int) -> float:
    return 0.01 * rounds + 2 * (workers - 1) / workers * bits * rounds / (mbits * RATE)


MEASURED = """label,form,nodes,bandwidth,latency,seconds,modelled
Ours,sharded,2,1e8,0.0001,1.0,1.1
Ours,sharded,2,1e9,0.0001,0.2,0.17
DDP,ring,2,1e8,0.0001,4.0,4.0
DDP,ring,2,1e9,0.0001,0.5,0.4
PowerSGD,,2,1e8,0.0001,0.7,
Ours,sharded,4,1e8,0.005,1.0,1.3
"""


def write(place: Path) -> Path:
    path = place / "network.csv"
    path.write_text(MEASURED)
    return path


def test_a_figure_of_times_leaves_its_files_and_verdicts(
    folders: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curves, "save", lambda figure, *targets: [target.touch() for target in targets])
    place, times = tmp_path / "figure", TIMES.replace(measured=str(write(tmp_path)))
    figure = FIGURE.replace(times=times, claims=(*QUICK, NEAR))
    publish(rows_of(folders, figure), figure, place)
    files = {"mine.pdf", "mine.png", "mine.csv", "lines.csv", "report.md", "claims.csv"}
    assert {file.name for file in place.iterdir()} == files
    found = pd.read_csv(place / "claims.csv", dtype=str)
    assert found["verdict"].tolist() == ["holds", "holds", "fails", "fails", "holds", "fails"]
    # 4 workers at 0.1 Mbit/s: 4.9 s against 0.5; at 100: as many as there are rounds and a little
    ends = [seconds(4, rate, 10, 32 * D) / seconds(4, rate, 20, D) for rate in (100.0, 0.1)]
    assert found["measured"][0] == f"{float(f'{ends[0]:.2g}'):g}× to {float(f'{ends[1]:.2g}'):g}×"
    assert found["measured"].tolist()[4:] == [
        "0.800× to 1.10×, 4 of 4 within 20 %",
        "1.30× to 1.30×, 0 of 1 within 20 %",
    ]
    report = (place / "report.md").read_text()
    assert "measured: holds in 1 of 2" in report
    assert "| toy | Plain | 10 | 6.4e4 | 10 | 1 of 1 |" in report


@pytest.mark.parametrize("wrong", [{"bandwidth": (100.0, 1.0)}, {"measured": "nowhere.csv"}])
def test_what_could_not_be_drawn_is_refused_at_once(wrong: dict) -> None:
    with pytest.raises(ValueError, match=r"give the smallest first|no such file"):
        TIMES.replace(**wrong)
