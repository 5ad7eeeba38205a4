"""The benchmark of shaped links: its model and tables by hand, and real nodes where this machine can make some."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from benchmarks import links, network
from benchmarks.contestants import CONTESTANTS
from benchmarks.links import Nodes
from benchmarks.network import Link, Point, report, session, write

BY_NAME = {contestant.name: contestant for contestant in CONTESTANTS}
LINK = Link(bandwidth=1e8, latency=1e-3)


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
    text = report(POINTS, load=1.0)
    assert "| CD-Adam, rank0 | 500 | 1000 | 2.00 | +10% |" in text
    assert "| DDP, PowerSGD rank 1 | 500 | 500 | 4.00 | – |" in text
    assert "within 20 % of 2 of 2" in text


def test_points_are_written_in_bits_and_seconds(tmp_path: Path) -> None:
    write(POINTS, tmp_path / "points.csv")
    rows = pd.read_csv(tmp_path / "points.csv")
    assert list(rows) == ["label", "form", "nodes", "bandwidth", "latency", "seconds", "modelled"]
    assert rows.loc[1, ["label", "form", "nodes"]].tolist() == ["CD-Adam", "rank0", 4]
    assert rows.loc[1, ["bandwidth", "latency", "seconds", "modelled"]].tolist() == [1e8, 1e-3, 1.0, 1.104]
    assert rows["modelled"].isna().tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("user", "tool", "said"), [(1000, "", "root"), (0, "ip", "ip: not found"), (0, "tc", "tc: not found")]
)
def test_what_is_missing_is_said_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], user: int, tool: str, said: str
) -> None:
    monkeypatch.setattr(links.sys, "platform", "linux")
    monkeypatch.setattr(links.os, "geteuid", lambda: user)
    monkeypatch.setattr(links.shutil, "which", lambda name: None if name == tool else f"/sbin/{name}")
    network.main([])
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("not measured: ")
    assert said in line


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


@pytest.fixture(params=[0, 5])
def nodes(request: pytest.FixtureRequest) -> Iterator[Nodes]:
    with ExitStack() as stack:
        try:
            yield stack.enter_context(links.connected(2, request.param))
        except links.NotHere as reason:
            pytest.skip(str(reason))
    assert not Path("/run/netns", f"cnet{os.getpid()}-hub").exists()


def test_nodes_reach_each_other(nodes: Nodes) -> None:
    listen = "import socket; s = socket.create_server(('', 5000)); s.accept()[0].sendall(b'x')"
    server = subprocess.Popen(["ip", "netns", "exec", nodes.names[0], sys.executable, "-c", listen])
    ask = f"import socket; print(socket.create_connection(({links.address(0)!r}, 5000)).recv(1))"
    retry = f"import time\nfor _ in range(100):\n try:\n  {ask}\n  break\n except OSError:\n  time.sleep(0.1)"
    done = subprocess.run(
        ["ip", "netns", "exec", nodes.names[1], sys.executable, "-c", retry], capture_output=True, text=True
    )
    assert done.stdout == "b'x'\n"
    assert server.wait() == 0


@pytest.mark.slow
def test_ranks_on_nodes_count_the_bits_of_their_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    try:
        with session(2, network.OWN_LATENCY) as one:
            bits = dict(zip(BY_NAME, one.bits(), strict=True))
            assert one.link(100).bandwidth < 1.1e8
    except links.NotHere as reason:
        pytest.skip(str(reason))
    assert bits["DDP"] == bits["AMSGrad, rank0"] == bits["AMSGrad, sharded"] == (32 * network.D, 32 * network.D)
    assert bits["DDP, fp16 hook"] == (16 * network.D, 16 * network.D)
    assert bits["CD-Adam, rank0"] == bits["CD-Adam, sharded"] == (network.D + 32, network.D + 32)
    assert bits["EF21 top-1 %, rank0"] == bits["EF21 top-1 %, sharded"]
