"""Write the runs and claims of a results folder as one HTML page that works offline, as rows, or as LaTeX tables.

    python -m experiments.report                                    # results/report.html
    python -m experiments.report task=logreg/a9a algorithm=cd_adam,ef21 out=comparison.html
    python -m experiments.report study=first out=tables.tex

results_dir    the folder of the runs
out            a page (.html; default: report.html in the results folder), every row with the settings in which runs
               differ (.csv), or LaTeX tables (.tex): best step sizes, final values, and bits to levels
study          only the runs of this sweep or figure
task, algorithm, seed, state      one, or several separated by commas; default: all
x, y           of tables: bits | bits_up | bits_down | rounds | epochs | seconds | modelled_seconds,
               and a column of metrics.jsonl; default: the one that selects step sizes
network.bandwidth, network.latency, network.topology, network.overlap, network.computing,
network.workers, network.inside_bandwidth, network.inside_latency
               the network of modelled seconds, as for plots.plot
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from common.errors import UsageError
from common.files import atomic_write
from plots.request import NETWORK, Write, choose_runs, open_request, parse_network, require_folder, write, write_rows
from plots.runs import find
from plots.runs.find import CHOOSING

DEFAULTS = {"results_dir": "results", "out": "", **dict.fromkeys(CHOOSING, ""), "x": "bits", "y": "", **NETWORK}


def main(arguments: Sequence[str] | None = None) -> None:
    with open_request("experiments.report", __doc__, arguments, DEFAULTS) as request:
        print(write(request, require_folder("results_dir", request["results_dir"]) / "report.html", WRITERS))


def _check_no_axes(request: Mapping[str, str]) -> None:
    """Raise UsageError if x or y is set, which only tables take."""
    if (request["x"], request["y"]) != (DEFAULTS["x"], DEFAULTS["y"]):
        raise UsageError("x, y: only tables take them; leave them out, or give out=tables.tex")


def _write_page(request: Mapping[str, str], target: Path) -> str:
    _check_no_axes(request)
    from plots.page.page import as_html, page_data, read_figures  # takes a second to import

    place, seen_from = Path(request["results_dir"]), target.parent
    runs = find.choose_runs(place, **{key: request[key] for key in CHOOSING})
    made, figures = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), read_figures(place, seen_from)
    content = page_data(runs, figures, made, request["study"], seen_from, parse_network(request))
    with atomic_write(target) as file:
        file.write_text(as_html(content))
    return f"{len(runs)} run{'s' * (len(runs) != 1)}"


def _write_rows(request: Mapping[str, str], target: Path) -> str:
    _check_no_axes(request)
    from plots.runs.network import modelled_seconds
    from plots.runs.results import results

    modelled, frame = parse_network(request), results(choose_runs(request))
    curves = frame.assign(algorithm=frame["method"])
    write_rows(frame.assign(modelled_seconds=modelled_seconds(curves, modelled)), target)
    return "rows"


def _write_tables(request: Mapping[str, str], target: Path) -> str:
    from plots.latex import latex_tables
    from plots.plot import axis, choose_rows  # takes a second to import

    x, frame = axis(request), choose_rows(request)
    tables = latex_tables(frame, request["y"], x)
    with atomic_write(target) as file:
        file.write_text(tables)
    return "tables"


WRITERS: dict[str, Write] = {".html": _write_page, ".csv": _write_rows, ".tex": _write_tables}
"""What the command writes, by a file's ending."""


if __name__ == "__main__":
    main()
