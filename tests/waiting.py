"""Exit statuses of commands, and waiting for other processes."""

import time
from collections.abc import Callable


def exit_status(command: Callable[[], object]) -> int | str:
    """Run a command line in this process and return its exit status."""
    try:
        command()
    except SystemExit as stop:
        return stop.code or 0
    return 0


def until(holds: Callable[[], object], seconds: float = 120) -> None:
    """Wait until `holds()` is true. Fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)
