"""What the commands that are Hydra applications share: how they start, and how their errors are said."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from common.errors import UsageError, exit_with_message
from experiments.config.compose import CONF, packages_of, register, search_path
from experiments.config.messages import check, explained

__all__ = ["CONF", "start"]

_WITH_VALUE = {
    "-cp",
    "--config-path",
    "-cn",
    "--config-name",
    "-cd",
    "--config-dir",
    "-p",
    "--package",
    "-c",
    "--cfg",
}
_SHOW = {"-h", "--help", "--hydra-help", "-sc", "--shell-completion", "-i", "--info", "--version"}
_SEVERAL = ("sweep=", "hydra.mode=MULTIRUN")


def start(
    application: Callable[[], Any],
    name: str,
    arguments: Sequence[str] | None = None,
    moved: Callable[[list[str]], list[str]] = list,
) -> None:
    """Run a Hydra application on a command line (None: this process's) whose primary configuration is conf/<name>.

    moved: makes of the overrides those that Hydra sees.
    What Hydra raises is said in one line, with exit status 2. Of the command line only what can be found wrong
    without composing is looked at before Hydra is.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    with exit_with_message():
        overrides, flags = _apart(given)
        for flag in flags & {"-cp", "--config-path", "--experimental-rerun"}:
            raise UsageError(f"{flag}: the configuration is conf/, which is checked; add to it by --config-dir")
        others = [text for text in given if text not in overrides]
        if not flags & _SHOW:
            overrides = moved(overrides)
            multirun = flags & {"-m", "--multirun"} or any(text.startswith(_SEVERAL) for text in overrides)
            check(overrides, bool(multirun))
        register()
        before, sys.argv = sys.argv, [sys.argv[0], *overrides, *search_path(packages_of(overrides)), *others]
        # So that Hydra raises instead of printing a traceback of its own.
        os.environ["HYDRA_FULL_ERROR"] = "1"
        try:
            with explained(overrides, name):
                application()
        finally:
            sys.argv = before


def _apart(arguments: Sequence[str]) -> tuple[list[str], set[str]]:
    """The overrides of a command line, and the flags of Hydra."""
    overrides, flags = [], set()
    before = ""
    for text in arguments:
        if text.startswith("-"):
            flags.add(text.partition("=")[0])
        elif before not in _WITH_VALUE:
            overrides.append(text)
        before = text
    return overrides, flags
