"""Whether wandb can be reached as somebody, found out without ever asking."""

from __future__ import annotations

import os

import wandb


def mode_and_reason(wanted: str | None = None) -> tuple[str, str]:
    """How to run wandb, online, offline or disabled, and why it is not online.

    wanted: `online` or `offline`; None: what WANDB_MODE and wandb's own settings say.
    """
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # its reports of errors would hold up the end
    settings = wandb.setup(wandb.Settings(silent=True)).settings
    mode = wanted or settings.mode
    if mode == "disabled":
        return mode, "disabled by WANDB_MODE"
    if mode in ("offline", "dryrun"):
        return "offline", "as asked"
    try:
        known = wandb.login(prompt=False, verify=False)
    except wandb.Error as error:  # a key that cannot be one
        return "offline", str(error).rstrip(".")
    return ("online", "") if known else ("offline", "not logged in (wandb login)")
