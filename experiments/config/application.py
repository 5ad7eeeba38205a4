"""What the commands that are Hydra applications share: how they start, and how their errors are said."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hydra._internal.utils import get_args_parser

from common.errors import UsageError, exit_with_message
from common.signals import end_with_parent
from experiments.config.compose import CONF, check_files, packages_of, register, search_path
from experiments.config.messages import check, explain_hydra_errors

__all__ = ["CONF", "start"]

_SEVERAL = ("sweep=", "hydra.mode=MULTIRUN")


def start(
    application: Callable[[], Any],
    name: str,
    arguments: Sequence[str] | None = None,
    rewrite: Callable[[list[str]], list[str]] = list,
) -> None:
    """Run a Hydra application on a command line (None: this process's) whose primary configuration is conf/<name>.

    rewrite: makes of the overrides those that Hydra sees.
    What Hydra raises is said in one line, with exit status 2. Of the command line only what can be found wrong
    without composing is looked at before Hydra is.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        end_with_parent()  # ranks would outlive a torchrun that is killed
    given = list(sys.argv[1:] if arguments is None else arguments)
    asked = get_args_parser().parse_intermixed_args(given)
    overrides, flags = asked.overrides, [text for text in given if text not in asked.overrides]
    folders = [asked.config_dir] if asked.config_dir else []
    with exit_with_message():
        if asked.config_path or asked.experimental_rerun:
            flag = "--config-path" if asked.config_path else "--experimental-rerun"
            raise UsageError(f"{flag}: configurations come from conf/; add your own by --config-dir")
        if not (asked.help or asked.hydra_help or asked.shell_completion or asked.info):
            overrides = rewrite(overrides)
            if asked.multirun and asked.cfg:
                raise UsageError("--cfg prints one configuration: leave -m out, or plan all runs by dry_run=true")
            check(overrides, asked.multirun or any(text.startswith(_SEVERAL) for text in overrides))
        for folder in folders:
            if not Path(folder).is_dir():
                raise UsageError(f"--config-dir {folder}: no such folder")
        register()
        before, sys.argv = sys.argv, [sys.argv[0], *overrides, *search_path(packages_of(overrides)), *flags]
        # So that Hydra raises instead of printing a traceback of its own.
        os.environ["HYDRA_FULL_ERROR"] = "1"
        try:
            with explain_hydra_errors(overrides, name, folders=folders):
                if not (asked.hydra_help or asked.shell_completion or asked.info):
                    check_files(overrides, name, asked.config_name or name, folders)
                application()
        finally:
            sys.argv = before
