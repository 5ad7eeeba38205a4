"""Every run and claim of a results folder as one HTML page, which needs no network and no account.

    python -m experiments.report                                    # results/report.html
    python -m experiments.report task=logreg/a9a algorithm=cd_adam,ef21 out=report.html

results_dir    where the runs lie
out            the page; report.html in the results folder unless said
task, algorithm      one, or several separated by commas; all that are there unless said
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path

from common.errors import RunError, UsageError, exit_with_message
from common.files import atomic
from plots.page.page import page, read_figures
from plots.request import RequestError, parse
from plots.runs.find import find, select

_CHOOSING = ("study", "task", "algorithm", "seed")

DEFAULTS = {"results_dir": "results", "out": "", **dict.fromkeys(_CHOOSING, "")}


def main(arguments: list[str] | None = None) -> None:
    """The command line above."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.report", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("request", nargs="*", metavar="key=value")
    options = parser.parse_args(arguments)
    with exit_with_message():
        try:
            target, runs = write(parse(options.request, DEFAULTS))
        except RequestError as error:
            raise UsageError(str(error)) from error
        except ValueError as error:
            raise RunError(str(error)) from error
        print(f"{runs} run{'s' * (runs != 1)}: {target}")


def write(request: dict[str, str]) -> tuple[Path, int]:
    """Write the page for a request with all keys of DEFAULTS; its path and how many runs it has.

    Raises RequestError for a folder, tasks and algorithms that are not there, ValueError for damaged rows or claims.
    """
    place = Path(request["results_dir"])
    if not place.is_dir():
        raise RequestError(f"results_dir={place}: no such folder")
    target = Path(request["out"] or place / "report.html")
    chosen = select(find(place), place, **{key: request[key] for key in _CHOOSING})
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    text = page(chosen, read_figures(place, target.parent), made)
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic(target) as file:
        file.write_text(text)
    return target, len(chosen)


if __name__ == "__main__":
    main()
