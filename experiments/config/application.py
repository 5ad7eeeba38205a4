"""What the commands that are Hydra applications share: how they start, and how their errors are said."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from hydra._internal.utils import get_args_parser

from common.errors import UsageError, exit_with_message
from experiments.config.compose import CONF, packages_of, register, search_path
from experiments.config.messages import check, explained

__all__ = ["CONF", "start"]


def start(application: Callable[[], Any], name: str, arguments: Sequence[str] | None = None) -> None:
    """Run a Hydra application on a command line (None: this process's) whose primary configuration is conf/<name>.

    What Hydra raises is said in one line, with exit status 2. Of the command line only what can be found wrong
    without composing is looked at before Hydra is.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    with exit_with_message():
        options = get_args_parser().parse_args(given)
        overrides = options.overrides
        shows = options.help or options.hydra_help or options.shell_completion or options.info
        multirun = options.multirun or any(text.startswith(("sweep=", "hydra.mode=MULTIRUN")) for text in overrides)
        if not shows:
            check(overrides, multirun)
        if options.config_path or options.experimental_rerun:
            raise UsageError("--config-path, --experimental-rerun: this project's own conf/ is the one that is checked; add to it by --config-dir")
        register()
        before, sys.argv = sys.argv, [sys.argv[0], *given, *search_path(packages_of(overrides))]
        # So that Hydra raises instead of printing a traceback of its own.
        os.environ["HYDRA_FULL_ERROR"] = "1"
        try:
            with explained(overrides, name):
                application()
        finally:
            sys.argv = before
