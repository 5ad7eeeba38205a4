"""What the commands that are Hydra applications share: how they start, and how their errors are said."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from common.errors import UsageError, exit_with_message
from experiments.config.compose import CONF, packages_of, register, search_path
from experiments.config.messages import check, explained

__all__ = ["CONF", "start"]

_SHORT = {
    **{"-cp": "--config-path", "-cn": "--config-name", "-cd": "--config-dir"},
    **{"-p": "--package", "-c": "--cfg", "-i": "--info"},
}
_WITH_VALUE = {*_SHORT, *_SHORT.values()}
_SHOW = {"-h", "--help", "--hydra-help", "-sc", "--shell-completion", "-i", "--info", "--version"}
_REFUSED = {"-cp", "--config-path", "-cn", "--config-name", "--experimental-rerun"}
_FOLDER = {"-cd", "--config-dir"}
_MULTIRUN, _PRINT = {"-m", "--multirun"}, {"-c", "--cfg"}
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
    given.sort(key=lambda text: text not in _MULTIRUN)  # argparse wants overrides side by side
    with exit_with_message():
        overrides, flags = _apart(given)
        others = [text for text in given if text not in overrides]
        for flag in _REFUSED & flags.keys():
            raise UsageError(f"{flag}: the configuration is conf/{name}.yaml; add choices to it by --config-dir")
        if not _SHOW & flags.keys():
            overrides = moved(overrides)
            multirun = bool(_MULTIRUN & flags.keys())
            if multirun and _PRINT & flags.keys():
                raise UsageError("--cfg prints one configuration: leave -m out, or plan all runs by dry_run=true")
            check(overrides, multirun or any(text.startswith(_SEVERAL) for text in overrides))
        folders = [flags[flag] for flag in _FOLDER & flags.keys()]
        for folder in folders:
            if not Path(folder).is_dir():
                raise UsageError(f"--config-dir {folder}: no such folder")
        register()
        before, sys.argv = sys.argv, [sys.argv[0], *overrides, *search_path(packages_of(overrides)), *others]
        # So that Hydra raises instead of printing a traceback of its own.
        os.environ["HYDRA_FULL_ERROR"] = "1"
        try:
            with explained(overrides, name, folders=folders):
                application()
        finally:
            sys.argv = before


def _apart(arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The overrides of a command line, and the flags of Hydra with their values."""
    overrides: list[str] = []
    flags: dict[str, str] = {}
    waiting = ""
    for text in arguments:
        if waiting:
            flags[waiting] = text
        elif text.startswith("-"):
            flag, _, flags[flag] = text.partition("=")
        else:
            overrides.append(text)
        waiting = text if not waiting and text in _WITH_VALUE else ""
    return overrides, flags
