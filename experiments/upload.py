"""Send runs to wandb that are already on disk.

    python -m experiments.upload                                      everything in results/
    python -m experiments.upload results/digits logger.project=mine   one task's runs, elsewhere

A folder is that of a run, or holds such folders at any depth; key=value sets a key of conf/logger/wandb.yaml. What
wandb already has of a run is not sent again, and its summary is brought up to date: the same command can be given as
often as one likes, also for runs that are not finished. Without a login, files for `wandb sync` are written.
"""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path

from filelock import Timeout
from rich.console import Console

from experiments.compose import expand, key_of, load
from experiments.errors import RunError, UsageError, exit_with_message
from experiments.loggers.ending import bounded_exit, end_service, first_line
from experiments.loggers.logger import build_logger


def runs(folders: list[Path]) -> list[Path]:
    """The run folders among and below the given ones, by name. Raises UsageError where there are none."""
    found = []
    for folder in folders:
        here = {file.parent for file in folder.rglob("metrics.jsonl")}
        if not here:
            raise UsageError(f"{folder}: no run in it; give a run's folder, or one that holds some, such as results")
        found += sorted(here)
    return list(dict.fromkeys(found))


def options(overrides: list[str]) -> dict:
    """conf/logger/wandb.yaml with overrides. Raises UsageError for any other key and for wrong values."""
    for override in overrides:
        if not key_of(override).startswith("logger."):
            raise UsageError(f"{override}: here only keys of the logger can be set, logger.project say")
    config = load(["logger=wandb", *overrides])
    build_logger(config)
    return config["logger"]


def main(arguments: list[str] | None = None) -> None:
    """The command line above."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.upload", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", metavar="FOLDER | key=value")
    words = parser.parse_args(arguments).words
    with exit_with_message():
        [overrides] = expand([word for word in words if "=" in word], multirun=False)
        folders = [Path(word) for word in words if "=" not in word] or [Path("results")]
        found, chosen = runs(folders), options(overrides)
        console = Console(highlight=False, soft_wrap=True)
        failed = _upload(found, chosen, console)
        if failed:
            raise RunError(f"{failed} of {len(found)} runs were not sent whole, see above; the same command goes on")


def _upload(folders: list[Path], chosen: dict, console: Console) -> int:
    """Send one after the other; returns how many failed."""
    from experiments.loggers.mirror import Mirror

    mirror, failed = Mirror(chosen), 0
    for folder in folders:
        where: list[str] = []
        try:
            rows = mirror.show(folder, where.append)
            result = f"{rows} new rows"
        except Timeout:
            result = "failed: another process is sending this run"
        except Exception as error:  # whatever wandb raises, and folders that are not whole
            result = f"failed: {first_line(error)}"
        failed += result.startswith("failed")
        console.print("; ".join([f"{folder}: {result}", *where]), markup=False)
    with suppress(TimeoutError):
        end_service()  # with which files are whole
    return failed


if __name__ == "__main__":
    with bounded_exit():
        main()
