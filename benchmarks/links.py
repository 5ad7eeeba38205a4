"""Nodes of a network on one machine: namespaces joined by a bridge, whose links `tc` shapes. For Linux, as root."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

MTU = 9000
_LIMIT = 32_000_000  # bytes that wait at a shaper before it drops some

Command = list[str]


class NotHere(Exception):
    """This machine cannot do it; the message says what is missing."""


def check() -> None:
    """Raise NotHere where there is no root or no iproute2."""
    if sys.platform != "linux" or os.geteuid() != 0:
        raise NotHere("network namespaces need Linux and root: run it as root, such as in a privileged container")
    if missing := [name for name in ("ip", "tc") if not shutil.which(name)]:
        raise NotHere(f"{' and '.join(missing)}: not found; install the package iproute2")


@dataclass(frozen=True)
class Nodes:
    """The namespaces of nodes and of the bridge between them, and the milliseconds that netem adds one way."""

    hub: str
    names: Sequence[str]
    latency: float

    def shape(self, bandwidth: float | None) -> None:
        """So many Mbit/s for every link in each direction; None: as fast as the machine is."""
        for command in shaping(self.hub, self.names, bandwidth, self.latency):
            _run(command, fails=command[3:5] == ["qdisc", "del"])  # there may be none

    def start(self, node: int, words: Sequence[str], env: dict[str, str], **how: Any) -> subprocess.Popen[str]:
        """`python -m` these words on a node; `how` is what Popen takes."""
        command = ["ip", "netns", "exec", self.names[node], sys.executable, "-m", *words]
        return subprocess.Popen(command, text=True, env={**os.environ, **env}, **how)


@contextmanager
def connected(count: int, latency: float) -> Iterator[Nodes]:
    """So many nodes on one bridge, until the block ends; node i has the address `address(i)` at its device eth0.

    Raises NotHere where this kernel cannot do it.
    """
    check()
    hub, *names = (f"cnet{os.getpid()}-{part}" for part in ("hub", *range(count)))
    nodes = Nodes(hub, names, latency)
    try:
        for name in (hub, *names):
            _run(["ip", "netns", "add", name])
        for command in wiring(hub, names):
            _run(command)
        nodes.shape(100)  # where tbf or netem is missing it is said now
        yield nodes
    finally:
        for name in (hub, *names):
            for process in _run(["ip", "netns", "pids", name], fails=True).split():
                _run(["kill", "-KILL", process], fails=True)
            _run(["ip", "netns", "delete", name], fails=True)


def address(node: int) -> str:
    """Of a node, inside its namespaces alone."""
    return f"10.231.0.{node + 1}"


def wiring(hub: str, names: Sequence[str]) -> list[Command]:
    """The commands that join nodes to a bridge in the namespace `hub`: port<i> is the other end of eth0 of node i."""
    commands = [_ip(hub, "link add hub type bridge"), _ip(hub, "link set hub up")]
    for number, name in enumerate(names):
        commands += [
            _ip(hub, f"link add port{number} type veth peer name eth0 netns {name}"),
            _ip(hub, f"link set port{number} mtu {MTU} master hub up"),
            _ip(name, f"link set eth0 mtu {MTU} up"),
            _ip(name, "link set lo up"),
            _ip(name, f"address add {address(number)}/24 dev eth0"),
        ]
    return commands


def shaping(hub: str, names: Sequence[str], bandwidth: float | None, latency: float) -> list[Command]:
    """The commands that give every link a rate at both ends, and netem's latency at the node's end."""
    commands = []
    for number, name in enumerate(names):
        near: list[str] = _tbf(bandwidth) if bandwidth else []
        far = near
        if latency:
            rate = ["rate", f"{bandwidth:g}mbit"] if bandwidth else []
            near = ["netem", "delay", f"{latency:g}ms", *rate, "limit", "100000"]
        for place, device, words in ((name, "eth0", near), (hub, f"port{number}", far)):
            commands.append(["tc", "-n", place, "qdisc", "del", "dev", device, "root"])
            if words:
                commands.append(["tc", "-n", place, "qdisc", "add", "dev", device, "root", *words])
    return commands


def _ip(place: str, words: str) -> Command:
    return ["ip", "-n", place, *words.split()]


def _tbf(bandwidth: float) -> list[str]:
    """A rate in Mbit/s, of which no more than the bytes of 0.2 ms, or two packets, pass at once."""
    burst = max(int(bandwidth * 1e6 / 8 * 2e-4), 2 * (MTU + 14))
    return ["tbf", "rate", f"{bandwidth:g}mbit", "burst", str(burst), "limit", str(_LIMIT)]


def _run(command: Command, fails: bool = False) -> str:
    """What it prints. Raises NotHere where it fails, unless it may."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode and not fails:
        raise NotHere(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
