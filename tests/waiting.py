"""How a command ends, and waiting for what other processes do."""

import time
from collections.abc import Callable


def exit_status(command: Callable[[], object]) -> int | str:
    """The status with which a command line ends in this process."""
    try:
        command()
    except SystemExit as stop:
        return stop.code or 0
    return 0


def until(holds: Callable[[], object], seconds: float = 120) -> None:
    """Wait for something that is bound to come."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)
