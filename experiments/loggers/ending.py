"""Ends in good time: wandb waits for its own service process, which does not always end when the network is gone."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread, Timer

SERVICE, EXIT = 15.0, 5.0  # seconds


def end_service() -> None:
    """End wandb's service; a later use begins another. Raises TimeoutError where it does not end."""
    import wandb

    ending = Thread(target=wandb.teardown, daemon=True)
    ending.start()
    ending.join(SERVICE)
    if ending.is_alive():
        raise TimeoutError("wandb's service process does not end")


@contextmanager
def bounded_exit() -> Iterator[None]:
    """Around a whole command: once it is done the process ends, whatever wandb's handlers at exit wait for."""
    status = 1
    try:
        yield
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
        raise
    finally:
        sys.stdout.flush()
        last = Timer(EXIT, os._exit, [status])
        last.daemon = True
        last.start()


def first_line(error: Exception) -> str:
    """What an error of wandb says, in one line."""
    return str(error).partition("\n")[0].rstrip(".") or repr(error)
