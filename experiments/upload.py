"""Send runs to wandb that are already on disk.

    python -m experiments.upload                                      everything in results/
    python -m experiments.upload results/digits logger.project=mine   one task's runs, elsewhere
    python -m experiments.upload results/figures/demo                 a figure, its report and its curves

A folder is that of a run or of a figure, or holds runs' folders at any depth. A run with logger=wandb is shown where
it was itself to be; key=value sets a key of conf/logger/wandb.yaml for all of them. What wandb already has of a run
is not sent again, and its summary is brought up to date: the same command can be given as often as one likes, also
for runs that are not finished. Without a login nothing is sent, with exit status 1; with logger.mode=offline files
for `wandb sync` are written.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from filelock import Timeout
from rich.console import Console

from common.errors import RunError, UsageError, exit_with_message
from experiments.config.compose import parse
from experiments.config.run import load_run
from experiments.config.schema import Part
from experiments.loggers.layout import Options
from experiments.loggers.logger import build_logger
from experiments.loggers.service import one_line, serving
from plots.runs.find import folders as run_folders
from plots.runs.read import open_run

OF_A_RUN = ("project", "entity", "name", "group", "tags", "notes", "job_type", "targets", "git", "model")
"""What a run that was itself mirrored keeps, but for what the command line says."""


def _is_figure(folder: Path) -> bool:
    return (folder / "report.md").exists()


def sendable(folders: list[Path]) -> list[Path]:
    """The folders of figures given, and the run folders among and below the others, by name.

    Raises UsageError where there are none.
    """
    found = []
    for folder in folders:
        if _is_figure(folder):
            found.append(folder)
            continue
        here = [run for run in run_folders(folder) if (run / "metrics.jsonl").exists()]
        if not here:
            raise UsageError(f"{folder}: no run in it; give a run's folder, one that holds some, or a figure's own")
        found += here
    return list(dict.fromkeys(found))


def main(arguments: list[str] | None = None) -> None:
    """The command line above."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.upload", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", metavar="FOLDER | key=value")
    words = parser.parse_args(arguments).words
    with exit_with_message():
        overrides = [word for word in words if "=" in word]
        for override in overrides:
            if not override.startswith("logger."):
                raise UsageError(f"{override}: here only keys of the logger can be set, logger.project say")
        found = sendable([Path(word) for word in words if "=" not in word] or [Path("results")])
        run = load_run(["logger=wandb", *overrides])
        build_logger(run)
        said = {parse(override).key_or_group.split(".")[1] for override in overrides}
        failed = _upload(found, run.logger, {key: run.logger.options[key] for key in said})
        if failed:
            raise RunError(f"{failed} of {len(found)} runs were not sent whole, see above; the same command goes on")


def _upload(folders: list[Path], logger: Part, said: Mapping[str, Any]) -> int:
    """Send one after the other, each with its options; returns how many failed.

    Raises RunError where nobody is known to send them.
    """
    from experiments.loggers.mirror import Mirror

    console, failed = Console(highlight=False, soft_wrap=True), 0
    with serving():
        mirror = Mirror(logger.options["mode"])
        if mirror.is_cut_off:
            raise RunError(
                f"nothing was sent: {mirror.reason}; log in or set WANDB_API_KEY, and give the same command again, "
                "or logger.mode=offline for files that `wandb sync` sends"
            )
        for folder in folders:
            where: list[str] = []
            try:
                if _is_figure(folder):
                    result = f"{mirror.show_figure(folder, logger.options)} files"
                else:
                    rows = mirror.show(folder, _options(folder, logger, said), where.append)
                    result = f"{rows} new rows"
            except Timeout:
                result = "failed: another process is sending this run"
            except Exception as error:  # whatever wandb raises, and folders that are not whole
                result = f"failed: {one_line(error)}"
            failed += result.startswith("failed") or mirror.is_cut_off
            console.print("; ".join([f"{folder}: {result}", *where]), markup=False)
    return failed


def _options(folder: Path, logger: Part, said: Mapping[str, Any]) -> Options:
    """Those for one run, whose place and levels are its own."""
    recorded = open_run(folder).config.get("logger") or {}
    own = recorded if recorded.get("_target_") == logger.target else {}
    return {**logger.options, **{key: own[key] for key in OF_A_RUN if key in own}, **said}


if __name__ == "__main__":
    main()
