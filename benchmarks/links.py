"""Nodes of a network on one machine: namespaces joined by a bridge, whose links `tc` shapes. For Linux, as root."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from common.errors import RunError

MTU = 9000
_LIMIT = 32_000_000  # bytes that wait at a shaper before it drops some


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


@contextmanager
def connected(count: int, latency: float) -> Iterator[Nodes]:
    """So many nodes on one bridge, until the block ends; node i has the address `address(i)` at its device eth0.

    Raises RunError where this kernel or user cannot do it.
    """
    hub, *names = (f"cnet{os.getpid()}-{part}" for part in ("hub", *range(count)))
    try:
        for name in (hub, *names):
            _run(["ip", "netns", "add", name])
        commands = [f"-n {hub} link add hub type bridge", f"-n {hub} link set hub up"]
        for number, name in enumerate(names):
            commands += [
                f"-n {hub} link add port{number} type veth peer name eth0 netns {name}",
                f"-n {hub} link set port{number} mtu {MTU} master hub up",
                f"-n {name} link set eth0 mtu {MTU} up",
                f"-n {name} link set lo up",
                f"-n {name} address add {address(number)}/24 dev eth0",
            ]
        for command in commands:
            _run(["ip", *command.split()])
        yield Nodes(hub, names, latency)
    finally:
        for name in (hub, *names):
            for process in _run(["ip", "netns", "pids", name], fails=True).split():
                _run(["kill", "-KILL", process], fails=True)
            _run(["ip", "netns", "delete", name], fails=True)


def address(node: int) -> str:
    """Of a node, inside its namespaces alone."""
    return f"10.231.0.{node + 1}"


def shaping(hub: str, names: Sequence[str], bandwidth: float | None, latency: float) -> list[list[str]]:
    """The commands that give every link a rate at both ends, and netem's latency at the node's end.

    Of a rate in Mbit/s no more than the bytes of 0.2 ms, or two packets, pass at once.
    """
    burst = max(int((bandwidth or 0) * 1e6 / 8 * 2e-4), 2 * (MTU + 14))
    far = f"tbf rate {bandwidth:g}mbit burst {burst} limit {_LIMIT}" if bandwidth else ""
    rate = f" rate {bandwidth:g}mbit" if bandwidth else ""
    near = f"netem delay {latency:g}ms{rate} limit 100000" if latency else far
    commands = []
    for number, name in enumerate(names):
        for place, device, words in ((name, "eth0", near), (hub, f"port{number}", far)):
            commands.append(["tc", "-n", place, "qdisc", "del", "dev", device, "root"])
            if words:
                commands.append(["tc", "-n", place, "qdisc", "add", "dev", device, "root", *words.split()])
    return commands


def _run(command: list[str], fails: bool = False) -> str:
    """What it prints. Raises RunError where it fails, unless it may."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode and not fails:
        raise RunError(f"{' '.join(command)}: {done.stderr.strip()} (network namespaces need Linux and root)")
    return done.stdout
