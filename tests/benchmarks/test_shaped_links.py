"""The benchmark of shaped links: its model and tables by hand, and real nodes where this machine can make some."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from benchmarks import links, network
from benchmarks.contestants import CONTESTANTS
from benchmarks.network import Link, Point, Session, report, session, write

BY_NAME = {contestant.name: contestant for contestant in CONTESTANTS}
LINK = Link(bandwidth=1e8, latency=1e-3)


def can_make_nodes() -> bool:
    try:
        links.check()
    except links.NotHere:
        return False
    return True


needs_nodes = pytest.mark.skipif(not can_make_nodes(), reason="network namespaces need root, iproute2 and tbf")


def point(name: str, seconds: float, bits: float) -> Point:
    return Point(BY_NAME[name], 4, 100, 1, LINK, 0.5, seconds, (bits, bits))


POINTS = [
    point("DDP", 2.0, 8e7),
    point("CD-Adam, rank0", 1.0, 1e7),
    point("DDP, PowerSGD rank 1", 0.5, 0),
]


def test_the_model_of_a_round_worked_out_by_hand() -> None:
    ring, rank0, _ = (one.modelled for one in POINTS)
    assert ring == pytest.approx(0.5 + 2 * 3 / 4 * 0.8 + 6 * 1e-3)
    assert rank0 == pytest.approx(0.5 + (3 + 3) * 0.1 + 4 * 1e-3)
    sharded = replace(POINTS[1], contestant=BY_NAME["CD-Adam, sharded"], exchanges=3).modelled
    assert sharded == pytest.approx(0.5 + 2 * 3 / 4 * 0.1 + 6 * 1e-3)
    assert POINTS[1].error == pytest.approx(rank0 / 1.0 - 1)


def test_a_report_compares_with_ddp_and_says_how_good_the_model_is() -> None:
    rounds = {4: {contestant.label: 100.0 for contestant in CONTESTANTS} | {"CD-Adam": 50.0, "AMSGrad": float("inf")}}
    text = report(POINTS, rounds, load=1.0)
    assert "| CD-Adam, rank0 | 500 | 1000 | 2.00 | +10% |" in text
    assert "| DDP, PowerSGD rank 1 | 500 | 500 | 4.00 | – |" in text
    assert "| CD-Adam, rank0 | 50 | 4.00 |" in text  # half the rounds, of half the time
    assert "within 20 % of 2 of 2" in text


def test_rounds_to_a_loss_are_counted_from_the_start() -> None:
    class Trained(Session):
        """One contestant, trained to the loss already, whose every round takes a hundredth off it."""

        def __init__(self) -> None:
            self.loss, self.least = 0.0, 0.0

        def ask(self, line: str) -> float:
            word, number, *count = line.split()
            assert number == "3"
            self.loss = {"anew": 1.0, "rounds": self.loss - 0.01 * float(*count or "0"), "loss": self.loss}[word]
            return max(self.loss, self.least)

    one = Trained()
    assert one.rounds_to_loss(3) == 90  # from 1 to 0.1
    one.least = 0.2
    assert one.rounds_to_loss(3) == float("inf")


def test_points_are_written_in_bits_and_seconds(tmp_path: Path) -> None:
    write(POINTS, tmp_path / "points.csv")
    rows = pd.read_csv(tmp_path / "points.csv")
    assert list(rows) == ["label", "form", "nodes", "bandwidth", "latency", "seconds", "modelled"]
    assert rows.loc[1, ["label", "form", "nodes"]].tolist() == ["CD-Adam", "rank0", 4]
    assert rows.loc[1, ["bandwidth", "latency", "seconds", "modelled"]].tolist() == [1e8, 1e-3, 1.0, 1.104]
    assert rows["modelled"].isna().tolist() == [False, False, True]


def test_without_root_it_says_so_in_a_line_and_ends_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(links.os, "geteuid", lambda: 1000)
    network.main([])
    said = capsys.readouterr().out
    assert said.startswith("not measured: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize("tool", ["ip", "tc"])
def test_without_iproute2_it_names_what_is_missing(monkeypatch: pytest.MonkeyPatch, tool: str) -> None:
    monkeypatch.setattr(links.sys, "platform", "linux")
    monkeypatch.setattr(links.os, "geteuid", lambda: 0)
    monkeypatch.setattr(links.shutil, "which", lambda name: None if name == tool else f"/sbin/{name}")
    with pytest.raises(links.NotHere, match=f"^{tool}: not found; install the package iproute2"):
        links.check()


def test_both_ends_of_every_link_get_the_rate_and_the_nodes_end_the_latency() -> None:
    added = [command for command in links.shaping("hub", ["a", "b"], 100, 5) if "add" in command]
    assert [(command[2], command[6], command[8]) for command in added] == [
        ("a", "eth0", "netem"),
        ("hub", "port0", "tbf"),
        ("b", "eth0", "netem"),
        ("hub", "port1", "tbf"),
    ]
    assert all("100mbit" in command for command in added)
    assert all("5ms" in command for command in added if "netem" in command)


def test_namespaces_of_processes_that_are_gone_are_left_over() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    listed = f"cnet{gone.pid}-hub (id: 0)\nother\ncnet1-0\ncnet{gone.pid}-1\n"
    assert links.left_over(listed) == [f"cnet{gone.pid}-hub", f"cnet{gone.pid}-1"]


@needs_nodes
@pytest.mark.parametrize("latency", [0, 5])
def test_nodes_reach_each_other_until_they_are_gone(latency: float) -> None:
    listen = [
        sys.executable,
        "-c",
        "import socket; s = socket.create_server(('', 5000)); s.accept()[0].sendall(b'x')",
    ]
    try:
        nodes = links.Nodes(2, latency).__enter__()
    except links.NotHere as reason:  # neither netem nor taps
        pytest.skip(str(reason))
    try:
        nodes.shape(100)
        server = subprocess.Popen(["ip", "netns", "exec", nodes.names[0], *listen])
        ask = f"import socket; print(socket.create_connection(({links.address(0)!r}, 5000)).recv(1))"
        retry = f"import time\nfor _ in range(100):\n try:\n  {ask}\n  break\n except OSError:\n  time.sleep(0.1)"
        done = subprocess.run(
            ["ip", "netns", "exec", nodes.names[1], sys.executable, "-c", retry], capture_output=True, text=True
        )
        assert done.stdout == "b'x'\n"
        assert server.wait() == 0
    finally:
        nodes.__exit__(None, None, None)
    assert not [name for name in (nodes.hub, *nodes.names) if Path("/run/netns", name).exists()]


@needs_nodes
@pytest.mark.slow
def test_ranks_on_nodes_count_the_bits_of_their_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    with session(2, 5) as one:
        bits = dict(zip(BY_NAME, one.bits(), strict=True))
        latency = one.link(100).latency
    assert latency >= 5e-3  # what is added, and the machine's own
    assert bits["DDP"] == bits["AMSGrad, rank0"] == bits["AMSGrad, sharded"] == (32 * network.D, 32 * network.D)
    assert bits["DDP, fp16 hook"] == (16 * network.D, 16 * network.D)
    assert bits["CD-Adam, rank0"] == bits["CD-Adam, sharded"] == (network.D + 32, network.D + 32)
    assert bits["EF21 top-1 %, rank0"] == bits["EF21 top-1 %, sharded"]
