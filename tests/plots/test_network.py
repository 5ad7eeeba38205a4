"""Seconds on other networks, against numbers worked out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from curve_support import claim
from folder_support import change, folder, rewrite

from common.errors import UsageError
from experiments import network_time as command
from plots.figure import curves as drawing
from plots.figure import times as module
from plots.figure.publish import publish, rows_of
from plots.figure.spec import Figure, Times
from plots.runs.network import FORMS, Network, is_uncompressed, modelled_seconds, paying_range, seconds, seconds_to

D = 1000
COSTS = {"seconds": 60.0, "bits_up": 4e6, "bits_down": 2e6, "round": 100}
ROW = COSTS | {"ranks": 2, "servers": 5, "exchanges": 4, "workers": 20, "trials": 3, "d": D}


@pytest.mark.parametrize(
    ("form", "workers", "up", "rest"),
    [  # 4 Mbit up and 2 down on 10 Mbit/s, 100 rounds of hops of 5 ms
        ("rank0", 8, 7 * 0.4, 6 * 0.2 + 5 * 0.5),
        ("rank0", 5, 4 * 0.4, 6 * 0.2 + 5 * 0.5),
        ("sharded", 8, 7 / 5 * 0.4, 7 / 5 * 0.2 + 8 * 0.5),
        ("sharded", 4, 3 / 4 * 0.4, 3 / 4 * 0.2 + 8 * 0.5),
        ("all_gather", 8, 7 * 0.4, 2 * 0.5),
        ("ring", 8, 7 / 8 * 0.4, 7 / 8 * 0.2 + 14 * 0.5),
        ("tree", 8, 3 * 0.4, 3 * 0.2 + 6 * 0.5),
        ("tree", 9, 4 * 0.4, 4 * 0.2 + 8 * 0.5),
        *((form, 1, 0, 0) for form in FORMS),
    ],
)
def test_a_row_worked_out_by_hand(form: str, workers: int, up: float, rest: float) -> None:
    rows = pd.DataFrame([ROW])
    network = Network(workers=workers, bandwidth=10, latency=5)
    assert seconds(rows, network, form).tolist() == pytest.approx([2.0 + up + rest])  # 60 s · 2 ranks / 60
    overlapped = Network(workers=workers, bandwidth=10, latency=5, overlap=True)
    assert seconds(rows, overlapped, form).tolist() == pytest.approx([max(2.0, up) + rest])
    other = Network(workers=workers, bandwidth=10, latency=5, computing=7)  # of other hardware
    assert seconds(rows, other, form).tolist() == pytest.approx([0.7 + up + rest])
    silent = rows.assign(stages=[0.0])  # no latency is left
    late = Network(workers=workers, bandwidth=10, latency=500)
    assert seconds(silent, late, form).tolist() == pytest.approx(
        seconds(rows, Network(workers=workers, bandwidth=10, latency=0), form).tolist()
    )


@pytest.mark.parametrize("workers", [None, 40])
def test_groups_average_on_links_of_their_own(workers: int | None) -> None:
    """20 workers in 5 groups, whose gradients were averaged 200 times; then 40 in 10."""
    grouped = ROW | {"groups": 5, "bits_inside": 200 * 64 * D}
    rows = pd.DataFrame([grouped, ROW])
    network = Network(workers=workers, bandwidth=10, latency=5, inside_bandwidth=1000, inside_latency=0.1)
    n, inside = (workers or 20) / 4, 3 / 4 * 200 * 64 * D / 1e9 + 2 * 3 * 200 * 0.1e-3
    _, alone = seconds(rows, network, "ring")
    assert seconds(rows, network, "ring").tolist() == pytest.approx(
        [2.0 + (n - 1) / n * 0.6 + 2 * (n - 1) * 0.5 + inside, alone]
    )
    assert [alone] == seconds(pd.DataFrame([ROW]), network, "ring").tolist()
    assert "inside groups 1000 Mbit/s and 0.1 ms" in network.in_words()
    same = Network(workers=workers, bandwidth=10, latency=5)
    slower = 3 / 4 * 200 * 64 * D / 10e6 + 2 * 3 * 200 * 5e-3
    assert seconds(rows, same, "ring")[0] - seconds(rows, network, "ring")[0] == pytest.approx(slower - inside)
    assert same.in_words() == Network(bandwidth=10, latency=5).in_words()


def curves() -> pd.DataFrame:
    """A dense method that gets to 0.1 in 10 rounds, and one that takes twice the rounds for a thirty-second of the
    bits with one step size, and with another gets there with one seed alone."""
    rows = []
    for label, lr, seed, rounds, bits in (
        *(("dense", 0.1, seed, 10, 32 * D) for seed in (0, 1)),
        *(("signs", 0.1, seed, 20, D) for seed in (0, 1)),
        ("signs", 0.2, 0, 1, D),
        ("signs", 0.2, 1, 999, D),
    ):
        for t in (0, 1, rounds) if rounds > 1 else (0, 1):
            loss = 0.1 if t == rounds != 999 else 1.0
            rows.append(
                {"task": "toy", "algorithm": label, "label": label, "lr": lr, "seed": seed, "round": t, "loss": loss}
                | {"bits_up": t * bits, "bits_down": t * bits, "bits": 2 * t * bits, "d": D, "seconds": 0.1 * t}
                | {"compressor": "Identity", "ranks": 1, "servers": 10, "exchanges": 2, "workers": 10, "trials": 1}
            )
    return pd.DataFrame(rows).rename(columns={"loss": "train_loss"})


def paying(times: pd.DataFrame) -> dict[tuple[str, int], tuple[float, float]]:
    return {tuple(key): tuple(ends) for (_, *key), ends in paying_range(times).iterrows()}


def test_times_to_a_level_and_where_compression_stops_paying() -> None:
    networks = [Network(workers=4, bandwidth=bandwidth, latency=0) for bandwidth in (1000, 0.1, 10)]
    times = seconds_to(curves(), "train_loss", 0.1, networks)
    found = times.set_index(["label", "bandwidth"])["seconds_to_level"]
    for bandwidth in (0.1, 10, 1000):
        # Dense: 10 rounds of 10 ms and three quarters of 64,000 bits each; signs: 20 of 10 ms and of 2,000.
        assert found["dense", bandwidth] == pytest.approx(0.1 + 0.75 * 640_000 / (bandwidth * 1e6))
        assert found["signs", bandwidth] == pytest.approx(0.2 + 0.75 * 40_000 / (bandwidth * 1e6))
    assert set(times.loc[times["label"] == "signs", "lr"]) == {0.1}  # with 0.2 one of the seeds does not get there
    assert dict(zip(times["label"], times["uncompressed"], strict=True)) == {"dense": True, "signs": False}
    assert paying(times) == {("signs", 4): (0.1, 0.1)}  # they meet at 4.5 Mbit/s
    late, signs = times.copy(), ~times["uncompressed"]  # slow on the slowest link alone
    late.loc[signs, "seconds_to_level"] = np.where(late.loc[signs, "bandwidth"] > 0.1, 0.0, 1e9)
    rest = sorted(times["bandwidth"].unique())[1:]
    assert paying(late) == {("signs", 4): (rest[0], rest[-1])}
    assert paying(times[~times["uncompressed"]]) == {}


def test_each_method_goes_by_what_it_can() -> None:
    forms = {name: (Network(topology=name).form(False), Network(topology=name).form(True)) for name in FORMS}
    assert forms == {
        "rank0": ("rank0", "ring"), "sharded": ("sharded", "ring"), "all_gather": ("all_gather", "ring"),
        "ring": ("sharded", "ring"), "tree": ("sharded", "tree"),
    }  # fmt: skip
    rows = curves()
    times = modelled_seconds(rows, Network(bandwidth=1, latency=0, topology="tree"))
    # Of the runs' own 10 workers: dense ones four times 64,000 bits over a link of a tree, signs 0.9 times 2,000.
    assert times[rows["algorithm"] == "dense"].tolist() == pytest.approx(
        [(0.01 + 0.256) * t for t in rows.loc[rows["algorithm"] == "dense", "round"]]
    )
    assert times[rows["algorithm"] == "signs"].tolist() == pytest.approx(
        [(0.01 + 0.0018) * t for t in rows.loc[rows["algorithm"] == "signs", "round"]]
    )
    halved = rows[rows["algorithm"] == "dense"].assign(bits=rows["bits"] / 2, compressor="RandomK")
    assert not is_uncompressed(halved).any()
    assert is_uncompressed(halved.assign(compressor="Bf16")).all()


@pytest.mark.parametrize("period", [2, 4, 7])
def test_dense_vectors_of_local_steps_go_by_ring(period: int) -> None:
    """A vector of float32 every `period` rounds, of which the last ones have none."""
    t = np.arange(0, 31)
    exchanges = t // period
    rows = curves().iloc[[0]].drop(columns="round").merge(pd.DataFrame({"round": t}), how="cross")
    rows = rows.assign(bits=64 * D * exchanges, bits_up=32 * D * exchanges, bits_down=32 * D * exchanges)
    rows = rows.assign(stages=exchanges[-1] / 30, seconds=0.0)
    assert modelled_seconds(rows, Network(bandwidth=1, latency=0)).tolist() == pytest.approx(0.9 * 0.064 * exchanges)
    ends = modelled_seconds(rows, Network(bandwidth=1, latency=5)).iloc[-1]  # 18 hops an exchange
    assert ends == pytest.approx((0.9 * 0.064 + 18 * 5e-3) * exchanges[-1])
    for other in (
        {"compressor": "TopK"},  # indices and values that happen to take as many bits
        {"bits": rows["bits"] // 2},  # a part of the vector at a time
        {"bits": 8 * D * 2 * t, "stages": 2.0},  # two factors in every round
    ):
        assert not is_uncompressed(rows.assign(**other)).any()
    assert is_uncompressed(rows.assign(bits=64 * D * t, stages=2.0)).all()  # PowerSGD without a matrix


@pytest.mark.parametrize("workers", [2, 6, 10])
def test_workers_that_groups_cannot_form_are_refused(workers: int) -> None:
    """With groups of 4."""
    rows, networks = curves().assign(workers=20, groups=5), [Network(workers=some) for some in (8, workers)]
    said = rf"network.workers={workers}: runs have groups of 4 workers; give a multiple of 4"
    for ask in (lambda: modelled_seconds(rows, networks[1]), lambda: seconds_to(rows, "train_loss", 0.1, networks)):
        with pytest.raises(UsageError, match=said):
            ask()
    assert modelled_seconds(rows, networks[0]).notna().all()
    assert modelled_seconds(rows.assign(groups=np.nan), networks[1]).notna().all()


def test_the_command_prints_a_table(tmp_path, capsys) -> None:
    folder(tmp_path, "0", status="failed", reached=50)
    command.main([f"results_dir={tmp_path}", "y=grad_norm", "level=0.5", "network.workers=8",
                  "network.bandwidth=0.001,1", "network.topology=rank0,sharded"])  # fmt: skip
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [line[0].rpartition(": ")[2] for line in lines[:2]] == ["used up to there", "seconds to grad_norm 0.5"]
    assert [line[:2] for line in lines[2:5]] == [["workers", "Mbit/s"], ["8", "0.001"], ["8", "1"]]
    assert all(float(text) > 0 for row in lines[3:5] for text in row[2:])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "level=: give the value of y"),
        (["level=1", "network.workers=none"], "network.workers=none: Input should be a valid integer"),
        (["level=1", "network.bandwidth=0"], "network.bandwidth=0: Input should be greater than 0"),
        (["level=1", "y=seed"], "y=seed: no such choice; Valid: train_loss, grad_norm, train_accuracy, extra\n"),
    ],
)
def test_what_is_refused(words: list[str], message: str, tmp_path, capsys) -> None:
    folder(tmp_path, "0")
    with pytest.raises(SystemExit, match=r"^2$"):
        command.main([f"results_dir={tmp_path}", *words])
    assert message in capsys.readouterr().err


# Figures of modelled times over bandwidth, and of measured rounds

RATE = 1e6
TIMES = Times(metric="grad_norm", level=0.5, workers=(4, 8), bandwidth=(0.1, 100.0), topologies=("sharded", "ring"))
LINK = Network(latency=0)
QUICK = [
    claim(f"1, from {low}", f"twice, from {low}", "times_faster", subject="noisy", reference="plain", times=2.0,
          low=low, high=100.0)
    for low in (0.1, 10.0)
]  # fmt: skip
NEAR = claim("2", "near", "as_measured", within=0.2)
FIGURE = Figure(name="mine", title="A title", grid=(("seed=0",),), times=TIMES, network=LINK)


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


def of_rounds(workers: int, mbits: float, rounds: int, bits: int) -> float:
    return 0.01 * rounds + 2 * (workers - 1) / workers * bits * rounds / (mbits * RATE)


MEASURED = """label,form,nodes,bandwidth,latency,seconds,modelled
Ours,sharded,2,1e8,0.0001,1.0,1.1
Ours,sharded,2,1e9,0.0001,0.2,0.17
DDP,ring,2,1e8,0.0001,4.0,4.0
DDP,ring,2,1e9,0.0001,0.5,0.4
PowerSGD,,2,1e8,0.0001,0.7,
Ours,sharded,4,1e8,0.005,1.0,1.3
"""


def test_a_figure_of_times_leaves_its_files_and_verdicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "network.csv").write_text(MEASURED)
    monkeypatch.setattr(module, "A_DECADE", 8)
    monkeypatch.setattr(drawing, "save", lambda figure, *targets: [target.touch() for target in targets])
    place, times = tmp_path / "figure", TIMES.replace(measured=str(tmp_path / "network.csv"))
    figure = FIGURE.replace(times=times, claims=(*QUICK, NEAR))
    publish(rows_of(folders(tmp_path), figure), figure, place)
    files = {"mine.pdf", "mine.png", "mine.csv", "lines.csv", "report.md", "claims.csv"}
    assert {file.name for file in place.iterdir()} == files
    found = pd.read_csv(place / "claims.csv", dtype=str)
    assert found["verdict"].tolist() == ["holds", "holds", "fails", "fails", "holds", "fails"]
    # 4 workers at 0.1 Mbit/s: 4.9 s against 0.5; at 100: as many as there are rounds and a little
    ends = [of_rounds(4, rate, 10, 32 * D) / of_rounds(4, rate, 20, D) for rate in (100.0, 0.1)]
    assert found["measured"][0] == f"{float(f'{ends[0]:.2g}'):g}× to {float(f'{ends[1]:.2g}'):g}×"
    near, far = found["measured"].tolist()[4:]
    assert (near, far) == ("0.800× to 1.10×, 4 of 4 within 20 %", "1.30× to 1.30×, 0 of 1 within 20 %")
    report = (place / "report.md").read_text()
    assert "measured: holds in 1 of 2" in report
    assert "| toy | Plain | 10 | 6.4e4 | 10 | 1 of 1 |" in report


@pytest.mark.parametrize("wrong", [{"bandwidth": (100.0, 1.0)}, {"measured": "nowhere.csv"}])
def test_what_could_not_be_drawn_is_refused_at_once(wrong: dict) -> None:
    with pytest.raises(ValueError, match=r"give the smallest first|no such file"):
        TIMES.replace(**wrong)
