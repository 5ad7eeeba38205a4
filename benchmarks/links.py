"""A network on one machine: namespaces joined by a bridge, with links shaped by `tc`. For Linux, as root."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from common.errors import RunError

MTU = 9000
_LIMIT = 32_000_000  # bytes that a shaper queues before it drops some


@contextmanager
def connect_nodes(count: int, bandwidth: float | None, latency: float) -> Iterator[list[str]]:
    """Create the namespaces of nodes on one bridge, until the block ends. Node i has `address(i)` at eth0.

    bandwidth: Mbit/s of every link in each direction; None: unlimited. latency: added milliseconds, one way. Raises
    RunError if this kernel or user cannot do it.
    """
    hub, *names = (f"cnet{os.getpid()}-{part}" for part in ("hub", *range(count)))
    commands = [f"ip netns add {name}" for name in (hub, *names)]
    commands += [f"ip -n {hub} link add hub type bridge", f"ip -n {hub} link set hub up"]
    for number, name in enumerate(names):
        commands += [
            f"ip -n {hub} link add port{number} type veth peer name eth0 netns {name}",
            f"ip -n {hub} link set port{number} mtu {MTU} master hub up",
            f"ip -n {name} link set eth0 mtu {MTU} up",
            f"ip -n {name} link set lo up",
            f"ip -n {name} address add {address(number)}/24 dev eth0",
            *link_commands(
                f"-n {name} qdisc add dev eth0", f"-n {hub} qdisc add dev port{number}", bandwidth, latency
            ),
        ]
    try:
        for command in commands:
            _run(command)
        yield names
    finally:
        for name in (hub, *names):
            for process in _run(f"ip netns pids {name}", may_fail=True).split():
                _run(f"kill -KILL {process}", may_fail=True)
            _run(f"ip netns delete {name}", may_fail=True)


def address(node: int) -> str:
    """Return a node's address, valid only inside the namespaces."""
    return f"10.231.0.{node + 1}"


def link_commands(near: str, far: str, bandwidth: float | None, latency: float) -> list[str]:
    """Return the commands that set a link's rate at both ends, and netem's latency at the near one, the node's.

    A burst is at most the bytes of 0.2 ms at this rate (Mbit/s), or two packets.
    """
    burst = max(int((bandwidth or 0) * 1e6 / 8 * 2e-4), 2 * (MTU + 14))
    limited = f"tbf rate {bandwidth:g}mbit burst {burst} limit {_LIMIT}" if bandwidth else ""
    rate = f" rate {bandwidth:g}mbit" if bandwidth else ""
    delayed = f"netem delay {latency:g}ms{rate} limit 100000" if latency else limited
    return [f"tc {place} root {words}" for place, words in ((near, delayed), (far, limited)) if words]


def _run(command: str, may_fail: bool = False) -> str:
    """Return the command's output. Raises RunError if it fails, unless `may_fail`."""
    done = subprocess.run(command.split(), capture_output=True, text=True)
    if done.returncode and not may_fail:
        raise RunError(f"{command}: {done.stderr.strip()} (network namespaces need Linux and root)")
    return done.stdout
