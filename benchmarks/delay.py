"""A latency for links where the kernel has no netem: packets pass through this process and wait in it.

    python -m benchmarks.delay MILLISECONDS LINKS

makes pairs of tap devices node<i> and port<i>, says so in a line, and hands what node<i> sends to port<i> so many
milliseconds later, and what port<i> sends to node<i> at once, until it is killed. Packets are those before
segmentation, up to 64 KiB, so that a process in Python carries some Gbit/s. `benchmarks.links` starts it.
"""

import fcntl
import os
import select
import struct
import sys
import time
from collections import deque
from contextlib import suppress

# linux/if_tun.h
_SET_DEVICE, _SET_OFFLOAD = 0x400454CA, 0x400454D0
_TAP, _NO_PI, _WITH_HEADER = 0x0002, 0x1000, 0x4000
_CHECKSUM, _SEGMENTATION = 0x01, 0x02
_LARGEST = 65536 + 128


def main() -> None:
    """The command line above."""
    seconds, links = float(sys.argv[1]) / 1e3, int(sys.argv[2])
    nodes = {_tap(f"node{number}"): _tap(f"port{number}") for number in range(links)}
    ports = {port: node for node, port in nodes.items()}
    print("ready", flush=True)
    waiting: deque[tuple[float, int, bytes]] = deque()  # in the order in which they are due
    while True:
        pause = max(waiting[0][0] - time.monotonic(), 0) if waiting else None
        for device in select.select([*nodes, *ports], [], [], pause)[0]:
            with suppress(OSError):  # nothing is there after all, or a device is down
                packet = os.read(device, _LARGEST)
                if device in nodes:
                    waiting.append((time.monotonic() + seconds, nodes[device], packet))
                else:
                    os.write(ports[device], packet)
        while waiting and waiting[0][0] <= time.monotonic():
            _, device, packet = waiting.popleft()
            with suppress(OSError):
                os.write(device, packet)


def _tap(name: str) -> int:
    """A tap device's file, whose packets begin with a header that says how they are to be segmented."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _SET_DEVICE, struct.pack("16sH22x", name.encode(), _TAP | _NO_PI | _WITH_HEADER))
    fcntl.ioctl(device, _SET_OFFLOAD, _CHECKSUM | _SEGMENTATION)
    return device


if __name__ == "__main__":
    main()
