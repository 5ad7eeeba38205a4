"""Every run and claim of a results folder as one HTML page, which needs no network and no account; or their rows, or
tables for a paper.

    python -m experiments.report                                    # results/report.html
    python -m experiments.report study=first                        # results/report-study=first.html
    python -m experiments.report task=logreg/a9a algorithm=cd_adam,ef21 out=comparison.html
    python -m experiments.report study=first out=tables.tex

results_dir    where the runs lie
out            a page (.html; named after what it shows, in the results folder, unless said), every row with the
               settings in which runs differ (.csv), or tables for LaTeX (.tex): best step sizes, where they end,
               and bits to levels
study          a sweep's or figure's name, whose runs alone are meant
task, algorithm, seed, state      one, or several separated by commas; all that are there unless said
x, y           of tables: bits | bits_up | bits_down | rounds | epochs | seconds | modelled_seconds,
               and a column of metrics.jsonl, the one that step sizes are selected by unless said
network.bandwidth, network.latency, network.topology, network.overlap, network.computing
               what modelled seconds are of, as for plots.plot
points         all: every evaluation, however large the page is; else one of above 50 MB has fewer of them and says so
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from plots import out
from plots.out import Write, chosen_runs, named, write_page, write_rows
from plots.request import NETWORK, answering, chosen, folder, network, parse, words
from plots.runs.find import CHOOSING

DEFAULTS = {
    "results_dir": "results", "out": "", **dict.fromkeys(CHOOSING, ""), "x": "bits", "y": "", "points": "", **NETWORK,
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line above."""
    request = words("experiments.report", __doc__, arguments)
    with answering():
        print(write(parse(request, DEFAULTS)))


def write(request: Mapping[str, str]) -> str:
    """Write what a request with all keys of DEFAULTS asks for; what was written and where, in words.

    What is damaged is left out with a notice on standard error. Raises UsageError for a folder, tasks and algorithms
    that are not there, and OSError where the file cannot be written.
    """
    place = folder("results_dir", request["results_dir"])
    chosen("points", request["points"], ("all", ""))
    usual = place / f"{named('report', request, DEFAULTS)}.html"
    return out.write(request, usual, WRITES)


def _tables(request: Mapping[str, str], target: Path) -> str:
    from plots.plot import write_tables  # which, with what it imports, takes a second

    return write_tables(request, target)


def _rows(request: Mapping[str, str], target: Path) -> str:
    from plots.runs.network import modelled_seconds
    from plots.runs.results import results

    modelled, runs = network(request), chosen_runs(request)
    frame = results(runs)
    curves = frame.assign(algorithm=frame["method"])
    write_rows(frame.assign(modelled_seconds=modelled_seconds(curves, modelled)), target)
    return "rows"


WRITES: dict[str, Write] = {".html": write_page, ".csv": _rows, ".tex": _tables}
"""What the command writes, by a file's ending."""


if __name__ == "__main__":
    main()
