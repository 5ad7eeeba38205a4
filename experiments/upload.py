"""Send runs to wandb that are already on disk.

    python -m experiments.upload                                      every run in results/
    python -m experiments.upload results/digits logger.project=mine   one task's runs, to another project

A run with logger=wandb keeps its own settings, all others have those of conf/logger/wandb.yaml; key=value changes
them. Rows that wandb already has are not sent again, so the command can be repeated, also for unfinished runs.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common.errors import RunError, UsageError, exit_with_message
from experiments.config.compose import parse
from experiments.config.run import load_run
from experiments.config.schema import Part
from experiments.loggers.logger import build_logger, one_line
from experiments.loggers.wandb_logger import WandbLogger, mode_and_reason
from plots.runs.files import STATUS, read_json, read_rows
from plots.runs.find import folders
from plots.runs.read import open_run


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line above."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.upload", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", metavar="FOLDER | key=value")
    words = parser.parse_args(arguments).words
    with exit_with_message():
        overrides = [word for word in words if "=" in word]
        roots = [Path(word) for word in words if "=" not in word] or [Path("results")]
        if wrong := [text for text in overrides if not text.startswith("logger.")]:
            raise UsageError(f"{wrong[0]}: only keys of the logger can be set here, such as logger.project")
        run = load_run(["logger=wandb", *overrides])
        build_logger(run)  # or the first folder would tell what is wrong with an option
        found = [folder for root in roots for folder in folders(root) if (folder / "metrics.jsonl").exists()]
        if not found:
            raise UsageError(f"{', '.join(map(str, roots))}: no run in it")
        mode, reason = mode_and_reason(run.logger.options["mode"])
        if mode == "offline" and reason != "as asked":
            raise RunError(f"nothing was sent: {reason}; logger.mode=offline writes files for `wandb sync`")
        given = [parse(text).key_or_group.partition(".")[2] for text in overrides]
        failed = 0
        for folder in found:
            try:
                _send(folder, _logger(run.logger, folder, given), mode)
            except (ValueError, OSError) as error:  # damaged, or wandb took too long
                print(f"{folder}: failed: {one_line(error)}")
                failed += 1
        if failed:
            raise RunError(f"{failed} of {len(found)} runs were not sent whole; the same command sends the rest")


def _logger(usual: Part, folder: Path, given: Sequence[str]) -> WandbLogger:
    """The logger with the settings of the run in this folder, where it has any, except for those that were given."""
    recorded: dict[str, Any] = open_run(folder).config.get("logger") or {}
    own = recorded if recorded.get("_target_") == usual.target else {}
    kept = {key: own[key] for key in usual.options if key in own and key not in (*given, "mode")}
    return WandbLogger(**{**usual.options, **kept})


def _send(folder: Path, logger: WandbLogger, mode: str) -> None:
    """Send one run. Raises RunError where wandb cannot be reached."""
    try:
        logger.begin(folder, lambda line: print(f"{folder}: {line}"))
        if logger.mode != mode:
            raise RunError("wandb cannot be reached; the same command tries again")
        for row in read_rows(folder):
            logger.log(row)
    finally:
        logger.finish(read_json(folder / STATUS)["status"])


if __name__ == "__main__":
    main()
