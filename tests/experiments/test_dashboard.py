"""A figure's page in wandb: its definition, read back."""

import json
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from wandb_support import NAMES, nobody
from wandb_workspaces.reports.v2.interface import Report

from experiments import dashboard
from experiments.config.compose import CONF
from experiments.config.run import load_run
from experiments.loggers.logger import build_logger

pytestmark = [
    pytest.mark.usefixtures("nobody"),
    pytest.mark.filterwarnings("ignore:Pydantic V1 style"),  # wandb-workspaces has some
]
assert nobody


def page(*overrides: str) -> dict:
    """The definition that the command creates."""
    figure, runs = dashboard.figure_and_runs(overrides)
    logger: Any = build_logger(load_run(["logger=wandb"]))
    model = dashboard.page(figure, runs, logger, "")._to_model()
    return json.loads(model.model_dump_json(by_alias=True, exclude_none=True))


def one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures have a single run, which is composed sooner than all of theirs."""
    monkeypatch.setattr(dashboard, "runs_of", lambda *asked: [load_run(["task=logreg/digits"])])


def sections(page: dict) -> dict[str, tuple[dict, list[dict]]]:
    """By heading: the set of runs and the panels below it."""
    blocks = [block for block in page["spec"]["blocks"] if block["type"] != "paragraph"]
    found = {}
    for heading, grid in pairwise(blocks):
        if heading["type"] == "heading":
            metadata = grid["metadata"]
            [runs] = metadata["runSets"]
            found[heading["children"][0]["text"]] = (runs, metadata["panelBankSectionConfig"]["panels"])
    return found


def check_panels(panels: list[dict], figure: dict) -> None:
    """Compare panels with what the figure's file says, and with the levels that summaries know."""
    lines = [panel["config"] for panel in panels if panel["viewType"] == "Run History Line Plot"]
    assert len(lines) == len(figure["rows"])
    for line, row in zip(lines, figure["rows"], strict=True):
        assert (line["xAxis"], line["metrics"]) == (NAMES[row["x"]], [NAMES[row["y"]]])
        assert line["xLogScale"] == (row.get("x_scale", "linear") == "log")
        assert line["yLogScale"] == (row.get("y_scale", "log") == "log")
        assert (line.get("yAxisMin"), line.get("yAxisMax")) == (row.get("y_min"), row.get("y_max"))
    bars = [panel["config"]["metrics"] for panel in panels if panel["viewType"] == "Bar Chart"]
    metrics = dict.fromkeys(row["y"] for row in figure["rows"])
    levels = load_run(["logger=wandb"]).logger.options["targets"]
    wanted = [(metric, level) for metric in metrics for level in levels.get(metric, [])]
    assert [(name.split("/")[1], float(name.split("/")[2])) for [name] in bars] == wanted
    assert not any("." in name for [name] in bars)


def test_one_task_has_the_panels_of_the_figure_over_its_runs() -> None:
    figure = yaml.safe_load((CONF / "figure" / "figure_3.yaml").read_text())
    made = page("figure=figure_3", "budget=full")
    assert (made["displayName"], made["project"]["name"]) == (figure["title"], "cd-adam")
    [(heading, (runs, panels))] = sections(made).items()
    assert heading == "figure_3/cifar10/resnet18/n8"
    [chosen] = runs["filters"]["filters"]
    assert (chosen["key"], chosen["op"]) == ({"section": "run", "name": "name"}, "IN")  # where wandb keeps ids
    assert sorted(chosen["value"]) == sorted(set(chosen["value"])) != []
    assert [(key["section"], key["name"]) for key in runs["grouping"]] == [("config", "algorithm.value.name")]
    check_panels(panels, figure)
    assert panels[-1]["viewType"] == "Bar Chart"
    places = [(panel["layout"]["x"], panel["layout"]["y"]) for panel in panels]
    assert len(set(places)) == len(places)


def test_a_panel_of_what_no_single_row_holds_is_left_out(monkeypatch, capsys):
    one(monkeypatch)
    [(_, panels)] = sections(page("figure=why")).values()
    assert "without panels of what is derived from several runs" in capsys.readouterr().out
    check_panels(panels, {"rows": [{"x": "round", "x_scale": "linear", "y": "aggregate_error"}]})


def test_the_address_of_the_page_is_printed(monkeypatch, capsys) -> None:
    one(monkeypatch)
    monkeypatch.setattr(dashboard, "mode_and_reason", lambda mode: ("online", ""))
    monkeypatch.setattr(Report, "save", lambda page: SimpleNamespace(url=f"https://wandb.test/{page.entity}"))
    dashboard.main(["figure=demo", "logger.entity=my-team"])
    assert "dashboard: https://wandb.test/my-team" in capsys.readouterr().out


def test_where_nobody_is_logged_in(monkeypatch, capsys) -> None:
    one(monkeypatch)
    with pytest.raises(SystemExit, match=r"^2$"):
        dashboard.main(["figure=demo"])
    assert "log in to create the page" in capsys.readouterr().err
