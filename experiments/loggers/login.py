"""Whether wandb can be reached as somebody, found out without ever asking."""

from __future__ import annotations

import os
from typing import Literal

import wandb

Mode = Literal["online", "offline", "disabled"]


def mode_and_reason(wanted: str | None = None) -> tuple[Mode, str]:
    """How to run wandb, online, offline or disabled, and why it is not online.

    wanted: `online` or `offline`; None: what WANDB_MODE and wandb's own settings say. Raises ValueError where one of
    these is wrong.
    """
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # its reports of errors would hold up the end
    try:
        settings = wandb.setup(wandb.Settings(silent=True)).settings
    except ValueError as error:  # of several lines: the setting, and what is wrong with it
        _, name, said, *_ = map(str.strip, [*str(error).splitlines(), "", ""])
        raise ValueError(f"wandb's settings: {name}: {said}") from error
    mode = wanted or settings.mode
    if mode == "disabled":
        return "disabled", "disabled by WANDB_MODE"
    if mode in ("offline", "dryrun"):
        return "offline", "as asked"
    try:
        known = wandb.login(prompt=False, verify=False)
    except wandb.Error as error:  # a key that cannot be one
        return "offline", str(error).rstrip(".")
    return ("online", "") if known else ("offline", "not logged in (wandb login)")
