"""How many of the machine's cores are for this process."""

import os
from contextlib import suppress
from pathlib import Path

QUOTAS = ("/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu/cpu.cfs_period_us")
"""What a container may use, by the newer and the older of Linux's ways: microseconds, of a period of so many."""


def cores() -> int:
    """Those that it may run on, or as many as a container's quota of processor time amounts to, if they are fewer.

    How busy they are is not asked: it changes, and processes of one thread share a core fairly.
    """
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    found = [own]
    for files in QUOTAS:
        with suppress(OSError, ValueError):  # "max" is no number, nor is -1 a quota
            quota, period = " ".join(Path(file).read_text() for file in files.split()).split()
            if int(quota) > 0:
                found.append(int(quota) // int(period))
    return max(1, min(found))
