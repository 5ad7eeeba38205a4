"""Nodes of a network on one machine: namespaces joined by a bridge, whose links `tc` shapes. For Linux, as root.

All devices live in namespaces named `cnet<process>-…` after the process that made them, so that removing these leaves
nothing, and those of a process that was killed are found by the next.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

MTU = 9000
_LIMIT = 32_000_000  # bytes that wait at a shaper before it drops some

Command = list[str]


class NotHere(Exception):
    """This machine cannot do it; the message says what is missing."""


def check() -> None:
    """Raise NotHere where there is no root, no iproute2 or no shaper of a rate."""
    if sys.platform != "linux" or os.geteuid() != 0:
        raise NotHere("network namespaces need Linux and root: run it as root, such as in a privileged container")
    if missing := [name for name in ("ip", "tc") if not shutil.which(name)]:
        raise NotHere(f"{' and '.join(missing)}: not found; install the package iproute2")
    if "tbf" in lacking():
        raise NotHere("this kernel has no qdisc tbf, which shapes a link's rate (CONFIG_NET_SCH_TBF)")


def lacking() -> list[str]:
    """Which of the qdiscs tbf, for rates, and netem, for latencies, this kernel does not have."""
    options = {"tbf": _tbf(100), "netem": ["netem", "delay", "1ms"]}
    with namespaces([_name("probe")]) as (name,):
        _run(["ip", "-n", name, "link", "add", "one", "type", "veth", "peer", "name", "other"])
        return [
            kind for kind, words in options.items() if not _works(["tc", "-n", name, *_root("add", "one"), *words])
        ]


class Nodes:
    """So many nodes on one bridge; node i has the address `address(i)` at its device eth0.

    latency: milliseconds that netem adds one way between any two of them; 0 adds none. `shape` shapes the links.
    """

    def __init__(self, count: int, latency: float) -> None:
        self.count, self.latency = count, latency
        if latency and "netem" in lacking():
            raise NotHere("this kernel has no qdisc netem, which adds a latency (CONFIG_NET_SCH_NETEM)")
        self.hub, self.names = _name("hub"), [_name(number) for number in range(count)]
        self._made = namespaces([self.hub, *self.names])

    def __enter__(self) -> "Nodes":
        self._made.__enter__()
        try:
            for command in wiring(self.hub, self.names):
                _run(command)
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._made.__exit__(kind, error, trace)

    def shape(self, bandwidth: float | None) -> None:
        """So many Mbit/s for every link in each direction; None: as fast as the machine is."""
        for command in shaping(self.hub, self.names, bandwidth, self.latency):
            if command[3:5] == ["qdisc", "del"]:
                _works(command)  # there may be none
            else:
                _run(command)

    def start(self, node: int, words: Sequence[str], **how: Any) -> subprocess.Popen[str]:
        """`python -m` these words on a node, for as long as this process lives; `how` is what Popen takes."""
        return _start(self.names[node], words, **how)


def address(node: int) -> str:
    """Of a node, inside its namespaces alone."""
    return f"10.231.0.{node + 1}"


def wiring(hub: str, names: Sequence[str]) -> list[Command]:
    """The commands that join nodes to a bridge in the namespace `hub`: port<i> there is the other end of eth0 of node
    i."""
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
            commands.append(["tc", "-n", place, *_root("del", device)])
            if words:
                commands.append(["tc", "-n", place, *_root("add", device), *words])
    return commands


@contextmanager
def namespaces(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Namespaces that are there during the with-block, and afterwards neither they nor what runs in them."""
    remove_left_over()
    try:
        for name in names:
            _run(["ip", "netns", "add", name])
        yield names
    finally:
        for name in names:
            _remove(name)


def remove_left_over() -> None:
    """Remove the namespaces of processes that are gone."""
    for name in left_over(_run(["ip", "netns", "list"])):
        _remove(name)


def left_over(listed: str) -> list[str]:
    """Of what `ip netns list` says the namespaces that a process made that is gone."""
    found = re.findall(r"^(cnet(\d+)-\w+)", listed, re.MULTILINE)
    return [name for name, process in found if not Path(f"/proc/{process}").exists()]


def _remove(name: str) -> None:
    """A namespace, if it is there, with what runs in it."""
    if not Path("/run/netns", name).exists():
        return
    for process in _run(["ip", "netns", "pids", name]).split():
        _works(["kill", "-KILL", process])
    _run(["ip", "netns", "delete", name])


def _start(
    name: str, words: Sequence[str], env: Mapping[str, str] | None = None, **how: Any
) -> subprocess.Popen[str]:
    command = ["ip", "netns", "exec", name, sys.executable, "-m", *words]
    return subprocess.Popen(command, text=True, env={**os.environ, **(env or {})}, **how)


def _name(part: object) -> str:
    return f"cnet{os.getpid()}-{part}"


def _ip(place: str, words: str) -> Command:
    return ["ip", "-n", place, *words.split()]


def _root(action: str, device: str) -> list[str]:
    return ["qdisc", action, "dev", device, "root"]


def _tbf(bandwidth: float) -> list[str]:
    """A rate in Mbit/s, of which no more than the bytes of 0.2 ms, or two packets, pass at once."""
    burst = max(int(bandwidth * 1e6 / 8 * 2e-4), 2 * (MTU + 14))
    return ["tbf", "rate", f"{bandwidth:g}mbit", "burst", str(burst), "limit", str(_LIMIT)]


def _works(command: Command) -> bool:
    return subprocess.run(command, capture_output=True).returncode == 0


def _run(command: Command) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise NotHere(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
