"""wandb's own process on this machine: reached as whoever is logged in, without asking, and ended in good time."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

from common.errors import UsageError

PATIENCE = 15.0  # seconds


def mode_and_reason(wanted: str | None = None) -> tuple[Any, str]:
    """How to run wandb, `online`, `offline` or `disabled`, and why it is not online.

    wanted: `online` or `offline`; None: what WANDB_MODE and wandb's own settings say. Raises UsageError where one of
    these is wrong.
    """
    import wandb

    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # its reports of errors would hold up the end
    try:
        mode = wanted or wandb.setup(wandb.Settings(silent=True)).settings.mode
    except ValueError as error:
        raise UsageError(f"wandb's settings: {one_line(error)}") from error
    if mode in ("offline", "dryrun", "disabled"):
        return mode, "as asked"
    try:
        known = wandb.login(prompt=False, verify=False)
    except wandb.Error as error:  # a key that cannot be one
        return "offline", one_line(error)
    return ("online", "") if known else ("offline", "not logged in (wandb login)")


def end_service() -> None:
    """End it, or leave it behind where it does not end, as when the network is gone; a later use begins another."""
    import wandb

    ending = Thread(target=wandb.teardown, daemon=True)  # which would wait, here and at the interpreter's end
    ending.start()
    ending.join(PATIENCE)


@contextmanager
def serving() -> Iterator[None]:
    """The service for as long as the with-block lasts."""
    try:
        yield
    finally:
        end_service()


def one_line(error: Exception) -> str:
    """What an error says, in one line."""
    return " ".join(str(error).split()).rstrip(".") or repr(error)
