"""Shared parts of commands that are Hydra applications: start, --help and error messages."""

import gc
import json
import os
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from hydra._internal.utils import get_args_parser

from common.errors import UsageError, exit_with_message
from common.signals import end_with_parent
from experiments.config import schema
from experiments.config.compose import choices, packages_of, parse, quote, register, roots, search_path, value_of
from experiments.config.messages import explain_hydra_errors, refuse_misspelt

_SHOWN = {
    "run": (
        ("algorithm", "compressor", "update", "task", "logger", "sweep"),
        (schema.RunConfig, schema.ClusterConfig),
    ),
    "reproduction": (("figure",), (schema.Reproduction,)),
}
"""Groups and keys in --help, by the name of the configuration."""


def start(
    application: Callable[[], Any],
    name: str,
    about: str,
    arguments: Sequence[str] | None = None,
    rewrite: Callable[[list[str]], list[str]] = list,
    before_sweep: Callable[[], object] = lambda: None,
) -> None:
    """Let Hydra compose conf/<name>.yaml by the command line, and call the application with it.

    about: the first text of --help. arguments: the command line; None: this process's. rewrite: changes its overrides
    before Hydra sees them. before_sweep: called before the configurations of a sweep are composed. A wrong override
    ends the process with a message and exit status 2.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        end_with_parent()  # ranks would outlive a torchrun that is killed
    given = list(sys.argv[1:] if arguments is None else arguments)
    asked = get_args_parser().parse_intermixed_args(given)
    overrides, flags = asked.overrides, [text for text in given if text not in asked.overrides]
    folders = [asked.config_dir] if asked.config_dir else []
    is_about_hydra = asked.hydra_help or asked.shell_completion or asked.info
    with exit_with_message():
        if asked.config_path or asked.experimental_rerun:
            flag = "--config-path" if asked.config_path else "--experimental-rerun"
            raise UsageError(f"{flag}: configurations come from conf/; add your own by --config-dir")
        if asked.multirun and name == "reproduction":
            raise UsageError("--multirun: a figure takes no sweeps; leave it out")
        if asked.resolve and not asked.cfg:
            raise UsageError("--resolve: goes with --cfg job, which prints the configuration")
        if folders and not Path(asked.config_dir).is_dir():
            raise UsageError(f"--config-dir {asked.config_dir}: no such folder")
        if asked.help:
            print(_help(about, name, roots(packages_of(overrides), folders)))
            return
        if not is_about_hydra:
            overrides = quote(rewrite(overrides))
            refuse_misspelt(overrides, _keys(name), roots(packages_of(overrides), folders))
        overrides = _with_swept_options(overrides)
        register()
        before, sys.argv = sys.argv, [sys.argv[0], *overrides, *search_path(packages_of(overrides)), *flags]
        # Hydra then raises instead of printing a traceback of its own.
        os.environ["HYDRA_FULL_ERROR"] = "1"
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # or a lost connection prints 25 lines
        gc.disable()  # until `resume_collection`: looking for garbage takes a tenth of a start, and finds none
        try:
            with explain_hydra_errors(overrides, name, folders=folders):
                if asked.multirun and not (asked.cfg or is_about_hydra or value_of("dry_run", overrides)):
                    before_sweep()
                application()
        finally:
            gc.enable()
            sys.argv = before


def resume_collection() -> None:
    """Resume garbage collection, for objects created from now on."""
    if not gc.isenabled():  # a second run of this process may find garbage of the first
        gc.freeze()
        gc.enable()


def _with_swept_options(overrides: Sequence[str]) -> list[str]:
    """Turn options of swept choices into sweeps of one value: Hydra checks plain options on the defaults.

    A swept algorithm also sweeps its compressor and update.
    """
    parsed = [parse(text) for text in overrides]
    swept = tuple(f"{override.key_or_group}." for override in parsed if override.is_sweep_override())
    if "algorithm." in swept:
        swept += ("compressor.", "update.")
    return [
        f"{override.get_key_element()}=choice({override.get_value_element_as_str()})"
        if override.key_or_group.startswith(swept) and not (override.is_sweep_override() or override.is_delete())
        else text
        for override, text in zip(parsed, overrides, strict=True)
    ]


def _help(about: str, name: str, places: Sequence[Path]) -> str:
    groups, kinds = _SHOWN[name]
    keys = [(kind, key) for kind in (*kinds, schema.LaunchConfig) for key in fields(kind)]
    return "\n".join(
        [
            about.strip(),
            "\nGroups (group=choice):\n",
            *(_entry(group, ", ".join(choices(group, places))) for group in groups),
            "\nKeys, with their defaults (key=value):\n",
            *(_key(kind, key) for kind, key in keys if not schema.is_part(key) and key.name != "cluster"),
            "\nAll options of the choices: docs/configuration.md. The current configuration: --cfg job.",
            "Hydra's own flags and keys: --hydra-help",
        ]
    )


def _keys(name: str) -> list[str]:
    kinds = (*_SHOWN[name][1], schema.LaunchConfig)
    return [f"{_prefix(kind)}{key.name}" for kind in kinds for key in fields(kind)]


def _prefix(kind: type) -> str:
    return "cluster." if kind is schema.ClusterConfig else ""


def _key(kind: type, key: schema.Field) -> str:
    about, default = schema.spec_of(key), key.default
    limits = ", ".join([*schema.limits(key.type), *([f"unit: {about.unit}"] if about.unit else [])])
    written = default if isinstance(default, str) else json.dumps(default)
    return _entry(f"{_prefix(kind)}{key.name}={written}", about.help + (f" ({limits})" if limits else ""))


def _entry(name: str, text: str) -> str:
    return textwrap.fill(text, 110, initial_indent=f"{name:<26}  ", subsequent_indent=" " * 28)
