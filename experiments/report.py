"""Every run and claim of a results folder as one HTML page, which needs no network and no account.

    python -m experiments.report                                    # results/report.html
    python -m experiments.report task=logreg/a9a algorithm=cd_adam,ef21 out=report.html

results_dir    where the runs lie
out            the page; report.html in the results folder unless said
study          a sweep's or figure's name, whose runs alone are meant
task, algorithm, seed, state      one, or several separated by commas; all that are there unless said
points         all: every evaluation, however large the page is; else one of above 50 MB has fewer of them and says so
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from common.characters import visible
from common.files import atomic
from plots.page.page import page, read_figures
from plots.request import answering, chosen, folder, parse, words
from plots.runs.find import CHOOSING, find, select, whole, with_rows

DEFAULTS = {"results_dir": "results", "out": "", **dict.fromkeys(CHOOSING, ""), "points": ""}


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line above."""
    request = words("experiments.report", __doc__, arguments)
    with answering():
        target, runs = write(parse(request, DEFAULTS))
        print(f"{runs} run{'s' * (runs != 1)}: {visible(str(target))}")


def write(request: dict[str, str]) -> tuple[Path, int]:
    """Write the page for a request with all keys of DEFAULTS; its path and how many runs it has.

    What is damaged is left out with a notice on standard error. Raises UsageError for a folder, tasks and algorithms
    that are not there, and OSError where the page cannot be written.
    """
    place = folder("results_dir", request["results_dir"])
    everything = chosen("points", request["points"], ("all", "")) == "all"
    target = Path(request["out"] or place / "report.html")
    runs = whole(select(with_rows(find(place)), place, **{key: request[key] for key in CHOOSING}))
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    text = page(runs, read_figures(place, target.parent), made, everything, request["study"], target.parent)
    with atomic(target) as file:
        file.write_text(text)
    return target, len(runs)


if __name__ == "__main__":
    main()
