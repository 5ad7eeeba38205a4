"""Runs in wandb and TensorBoard: every row once, and a run goes on whatever they do; a figure's page in wandb."""

import json
import math
import signal
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import wandb
import yaml
from run_support import SMALL, go, record, rewrite, rows, run_exit_code, run_folder, status
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from wandb.proto.wandb_internal_pb2 import Record
from wandb_support import NAMES, Curve, StandIn, expected, nobody, stand_in
from wandb_workspaces.reports.v2.interface import Report

from common.errors import UsageError
from experiments import check, dashboard
from experiments.config import identity
from experiments.config.compose import CONF, ROOT
from experiments.config.run import load_run
from experiments.figures import held_out
from experiments.loggers import tensorboard_logger, wandb_logger
from experiments.loggers.logger import build_logger, wandb_row
from experiments.loggers.tensorboard_logger import TensorboardLogger
from experiments.loggers.wandb_logger import update_summary

# wandb-workspaces has some models of that style
pytestmark = [pytest.mark.usefixtures("nobody"), pytest.mark.filterwarnings("ignore:Pydantic V1 style")]
assert nobody
assert stand_in

LOGGED = (*SMALL, "logger=wandb")


@pytest.fixture
def online(nobody: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Somebody is logged in."""
    nobody.delenv("WANDB_MODE")
    nobody.setenv("WANDB_API_KEY", "0" * 40)
    return nobody


def wandb_lines(capfd: pytest.CaptureFixture[str]) -> list[str]:
    """The lines about wandb on standard error."""
    return [line for line in capfd.readouterr().err.splitlines() if line.startswith("wandb: ")]


def sync(path: Path) -> str:
    """The command that sends a run which was logged offline."""
    return f"wandb sync {path}/wandb/offline-run-*"


def test_a_grid_of_step_sizes_is_a_run_each_with_all_that_is_known_of_it(results: str, stand_in: StandIn) -> None:
    study = "figure_" + "x" * 60
    path = go(*LOGGED, results, "lr=[0.1,0.01]", f"study={study}", "logger.targets.grad_norm=[0.5,0.25,1e-9]")
    written, facts = rows(path), record(path, "environment")
    assert len(stand_in.curves) == 2
    for trial, (curve, lr) in enumerate(zip(stand_in.curves, (0.1, 0.01), strict=True)):
        assert curve.rows == expected(written, trial)
        assert curve.step_of == {"comm/bits": None, "*": "comm/bits"}
        config = {**yaml.safe_load((path / "config.yaml").read_text()), "lr": lr, "environment": facts}
        config["cluster"]["size"] = 20
        for key in ("logger", "results_dir", "data_dir"):
            del config[key]
        wanted = {
            "project": "cd-adam",
            "id": f"{path.name}-{trial}",
            "job_type": "tune",
            "group": f"{study}/logreg/breast_cancer/n20",
            "name": f"cd_adam-logreg/breast_cancer-n20-s0-lr{lr}",
            "tags": [study[:64], facts["commit"][:12]],  # wandb takes no longer ones
            "config": config,
            "resume": "allow",
        }
        assert {key: curve.told[key] for key in wanted} == wanted

        mine = [row for row in written if row["trial"] == trial]
        summary = curve.summary
        assert (summary["status"], curve.exit_code) == ("finished", 0)
        assert summary["final/grad_norm"] == mine[-1]["grad_norm"]
        assert summary["best/grad_norm"] == min(row["grad_norm"] for row in mine)
        assert summary["best/train_accuracy"] == max(row["train_accuracy"] for row in mine)
        assert (summary["total/bits"], summary["total/seconds"]) == (mine[-1]["bits"], mine[-1]["seconds"])
        for level, name in ((0.5, "5e-1"), (0.25, "25e-2"), (1e-9, "1e-9")):
            there = [row["bits"] for row in mine if row["grad_norm"] <= level]
            assert summary.get(f"bits_to/grad_norm/{name}") == (there[0] if there else None)


@pytest.mark.parametrize(
    ("variables", "overrides", "wanted"),
    [
        ({"WANDB_NAME": "mine", "WANDB_RUN_GROUP": "ours"}, [], {"name": "mine", "group": "ours"}),
        ({"WANDB_TAGS": "night,first"}, ["study=first"], {"tags": ["night"]}),
        ({"WANDB_RUN_ID": "theirs"}, ["logger.entity=me"], {"id": "theirs", "entity": "me"}),
    ],
)
def test_wandbs_variables_count(variables, overrides, wanted, results, stand_in, monkeypatch):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    path = go(*LOGGED, results, *overrides)
    if "tags" in wanted:
        wanted["tags"] = ["first", record(path, "environment")["commit"][:12], *wanted["tags"]]
    told = stand_in.curves[0].told
    assert {key: told[key] for key in wanted} == wanted


def test_nothing_is_sent_later_where_wandb_is_disabled(results, stand_in, monkeypatch, capfd):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    go(*LOGGED, results)
    assert wandb_lines(capfd) == ["wandb: disabled, as asked"]


def test_a_run_stopped_and_resumed_offline_ends_with_every_row_once(results, at_round, stand_in, capfd):
    at_round(12, lambda: signal.raise_signal(signal.SIGTERM))
    assert run_exit_code([*LOGGED, results]) == 130
    path = run_folder(*LOGGED, results)
    [first] = stand_in.curves
    assert (first.told["id"], first.rows, first.exit_code) == (path.name, expected(rows(path)), 1)
    assert (first.told["job_type"], first.summary["status"]) == ("simulate", "interrupted")
    assert wandb_lines(capfd) == [f"wandb: offline, as asked; to send it: {sync(path)}"]

    offline = path / "wandb" / "offline-run-1"
    offline.mkdir(parents=True)
    (offline / f"run-{path.name}.wandb.synced").touch()
    go(*LOGGED, results)
    _, second = stand_in.curves
    assert [row["progress/round"] for row in second.rows] == [0, 5, 10, 15, 20]
    assert (second.told["id"], second.rows, second.summary["status"]) == (path.name, expected(rows(path)), "finished")
    assert not offline.exists()
    # `wandb sync` would send the first rows again.
    [line] = wandb_lines(capfd)
    assert line == "wandb: offline, as asked; to send it: give the command again with logger.mode=online"
    go(*LOGGED, results)  # it has not forgotten that rows were sent
    assert wandb_lines(capfd)[-1] == line


def test_a_finished_run_is_logged_by_the_same_command(results: str, stand_in: StandIn) -> None:
    path = go(*SMALL, results)
    assert go(*LOGGED, results) == path
    [curve] = stand_in.curves
    assert (curve.rows, curve.summary["status"]) == (expected(rows(path)), "finished")


def test_a_run_anew_after_an_edit_has_a_curve_of_its_own(results: str, stand_in: StandIn) -> None:
    path = go(*LOGGED, results)
    code = record(path, "code")
    rewrite(path, "code", {**code, "modules": {**code["modules"], "algorithms.core.algorithm": "edited"}})
    for _ in range(2):
        assert go(*LOGGED, results) == path
    first, second, third = (curve.told["id"] for curve in stand_in.curves)
    assert first == path.name
    assert second.startswith(f"{first}-")
    assert third == second


def test_a_run_that_fails_has_its_rows(results: str, stand_in: StandIn) -> None:
    overrides = [*LOGGED, results, "algorithm=sgd", "lr=1e308"]
    assert run_exit_code(overrides) == 1
    [curve] = stand_in.curves
    assert curve.rows == expected(rows(run_folder(*overrides))) != []
    assert (curve.summary["status"], curve.exit_code) == ("failed", 1)


@pytest.mark.parametrize(("key", "reason"), [("0", "it could not begin online (no network)"), ("", "not logged in")])
def test_without_a_network_or_a_login_the_run_is_logged_offline(key, reason, results, stand_in, online, capfd):
    if not key:
        online.delenv("WANDB_API_KEY")
    path = go(*LOGGED, results)
    [curve] = stand_in.curves
    assert (curve.told["mode"], curve.rows) == ("offline", expected(rows(path)))
    [line] = wandb_lines(capfd)
    assert line.startswith(f"wandb: offline, {reason}")
    assert line.endswith(f"; to send it: {sync(path)}")


@pytest.mark.parametrize("name", ["setup", "init", "log", "finish"])
def test_whatever_wandb_raises_the_run_finishes_and_says_one_line(name, results, stand_in, monkeypatch, capfd):
    def broken(*about: object, **more: object) -> None:
        raise OSError("no\nroom")

    monkeypatch.setattr(StandIn if name in ("setup", "init") else Curve, name, broken)
    path = go(*LOGGED, results)
    assert status(path)["status"] == "finished"
    last = wandb_lines(capfd)[-1]
    assert last == f"wandb: incomplete (no room); the run's folder has every row: {path}"
    if name == "log":
        assert stand_in.curves[0].exit_code == 0


def test_a_missing_package_and_a_wrong_key_end_before_anything_starts(results, monkeypatch, capsys):
    assert run_exit_code([*LOGGED, results, "logger.mode=onlin"]) == 2
    assert "logger.mode=onlin: no such choice; did you mean online?" in capsys.readouterr().err
    monkeypatch.setattr(wandb_logger, "find_spec", lambda name: None)
    assert run_exit_code([*LOGGED, results]) == 2
    assert "the package wandb is not installed; pip install wandb" in capsys.readouterr().err
    assert not Path(results.removeprefix("results_dir=")).exists()


def test_a_column_of_a_users_task_is_not_lost() -> None:
    row = {"trial": 3, "lr": 0.1, "bits": 8, "grad_norm": 0.5, "margin": 7.0, "top5": 0.9, "epoch": None}
    names = {"bits": "comm/bits", "grad_norm": "gradient/norm", "margin": "metric/margin", "top5": "metric/top5"}
    assert wandb_row(row) == {names[column]: row[column] for column in names}


def test_a_summary_has_the_last_the_best_and_the_first_bits_to_a_level() -> None:
    summary: dict = {}
    # A first or last value that is not a number is not the best.
    values = ((8, math.nan, 0.9), (16, 5.0, 0.96), (24, 5.5, 0.97), (32, math.nan, 0.95))
    for bits, test_loss, accuracy in values:
        row = {"trial": 0, "bits": bits, "seconds": 1.0, "test_loss": test_loss, "top5_accuracy": accuracy, "r2": 1}
        update_summary(summary, row, {"test_loss": [6.0], "top5_accuracy": [0.95]})
    assert math.isnan(summary.pop("final/test_loss"))
    assert summary == {
        "best/test_loss": 5.0,
        "final/r2": 1,  # nothing says which is best
        "final/top5_accuracy": 0.95,
        "best/top5_accuracy": 0.97,
        "total/bits": 32,
        "total/seconds": 1.0,
        "bits_to/test_loss/6e0": 16,
        "bits_to/top5_accuracy/95e-2": 16,
    }
    with pytest.raises(UsageError, match="r2: nothing says whether lower or higher is better"):
        update_summary(summary, row, {"r2": [0.5]})


def test_the_sweep_of_the_examples(results: str, stand_in: StandIn) -> None:
    sweep = yaml.safe_load((ROOT / "examples" / "wandb_sweep.yaml").read_text())
    words = [word for word in sweep["command"] if "=" in word]
    assert {"algorithm", "lr"} == sweep["parameters"].keys()
    go(*words, f"algorithm={sweep['parameters']['algorithm']['values'][1]}", "lr=0.0123", results, "rounds=5")
    assert sweep["metric"]["name"] in stand_in.curves[0].summary


def test_rows_that_wandb_has_are_not_sent_again_and_the_summary_is_renewed(results, stand_in, online, at_round):
    stand_in.has_network = True
    at_round(12, lambda: signal.raise_signal(signal.SIGTERM))
    assert run_exit_code([*LOGGED, results]) == 130
    for _ in range(2):  # it goes on, then it is finished
        path = go(*LOGGED, results)
    written = expected(rows(path))
    assert [curve.rows for curve in stand_in.curves] == [written[:3], written[3:], []]
    ends = [curve.summary["final/grad_norm"] for curve in stand_in.curves]
    assert ends == [written[number]["gradient/norm"] for number in (2, -1, -1)]


def records(file: Path) -> list[Record]:
    """What wandb wrote into a file of less than 32 kB: after 7 bytes, records with headers of 7 bytes."""
    content, found = file.read_bytes()[7:], []
    while content:
        size = int.from_bytes(content[4:6], "little")
        found.append(Record.FromString(content[7 : 7 + size]))
        content = content[7 + size :]
    return found


@pytest.mark.slow
def test_wandb_itself_has_every_row_also_without_a_home_folder(results, nobody, capfd):
    nobody.setenv("HOME", "/dev/null/home")
    path = go(*LOGGED, results)
    wandb.teardown()  # waits for what is not written yet
    [file] = path.glob("wandb/offline-run-*/*.wandb")
    kept = records(file)
    lines = [{item.nested_key[0]: json.loads(item.value_json) for item in one.history.item} for one in kept]
    found = [{key: line[key] for key in line if not key.startswith("_")} for line in lines if line]
    assert found == expected(rows(path))
    assert [one.metric.name or one.metric.glob_name for one in kept if one.HasField("metric")] == ["comm/bits", "*"]
    assert "INFO" not in capfd.readouterr().err  # nor is its service's log on the terminal


WRITTEN = (*SMALL, "logger=tensorboard")


def curve(folder: Path) -> dict[str, list[tuple[int, float, float]]]:
    """Every scalar's (step, value, time) in a folder of event files."""
    reader = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    return {
        name: [(event.step, event.value, event.wall_time) for event in reader.Scalars(name)]
        for name in reader.Tags()["scalars"]
    }


def points_of(written: list[dict], trial: int = 0) -> dict[str, list]:
    """What TensorBoard is to show of a trial's rows, whose values it keeps in float32."""
    found: dict[str, list] = {}
    for row in written:
        for column in row.keys() & NAMES.keys():
            if row["trial"] == trial and row[column] is not None:
                for prefix, axis in (("", "round"), ("bits/", "bits")):
                    point = (row[axis], pytest.approx(row[column], rel=1e-6), row["seconds"])
                    found.setdefault(prefix + NAMES[column], []).append(point)
    return found


def test_every_row_stands_over_rounds_and_over_bits(results: str) -> None:
    path = go(*WRITTEN, results, "lr=[0.1,0.01]")
    for trial, lr in enumerate(("0.1", "0.01")):
        assert curve(path / "tensorboard" / f"lr{lr}") == points_of(rows(path), trial)
    check.main([str(path)])  # what lies beside a run's own files does not make it a damaged one


def test_a_fault_of_it_costs_a_line_and_nothing_else(results, monkeypatch, capfd):
    def broken(folder: Path) -> None:
        raise OSError("no room")

    monkeypatch.setattr(tensorboard_logger, "open_run", broken)
    path = go(*WRITTEN, results)
    assert "tensorboard: incomplete (no room)" in capfd.readouterr().err
    assert record(path, "status")["status"] == "finished"


def test_without_the_package_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorboard_logger, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="pip install tensorboard"):
        TensorboardLogger()


# A figure's page in wandb: its definition, read back


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
    """The set of runs and the panels below each heading."""
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


def test_a_figure_that_chooses_step_sizes_shows_the_judged_runs(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """As reproduce runs them: the published step size and, once the trials chose it, the best one, by every seed."""
    file = yaml.safe_load((CONF / "figure" / "figure_3.yaml").read_text())
    published = file["budgets"]["medium"]["published"]
    wanted = {(name, (published[name],), 1) for name in ("ef21_both_ways", "cd_adam")}
    grid = "figure.budgets.medium.grid=[['algorithm=ef21_both_ways lr=0.1','algorithm=cd_adam lr=[0.001,0.003]']]"
    overrides = ["figure=figure_3", "budget=medium", "seeds=[1]", "figure.claims=[]", grid]
    for best in ({}, {("cifar10/resnet18", "cd_adam"): 0.003}):
        monkeypatch.setattr(held_out, "best_step_sizes", lambda *_, best=best: best)
        wanted |= {("cd_adam", (lr,), 1) for lr in best.values()}
        _, runs = dashboard.figure_and_runs(overrides)
        assert sorted((run.algorithm.name, run.lr, run.seed) for run in runs) == sorted(wanted)
        assert ("best step sizes are not known yet" in capsys.readouterr().out) == (not best)
    monkeypatch.setattr(held_out, "best_step_sizes", lambda *_: {})
    with pytest.raises(UsageError, match="figure=figure_3: best step sizes are not known yet"):
        dashboard.figure_and_runs([*overrides, "~figure.budgets.medium.published"])
    monkeypatch.setattr(held_out, "best_step_sizes", lambda *_: best)
    [(shown, _)] = sections(page(*overrides)).values()
    assert sorted(shown["filters"]["filters"][0]["value"]) == sorted(map(identity.run_id, runs))
    assert [key["name"] for key in shown["grouping"]] == ["algorithm.value.name", "lr.value"]


def test_a_panel_of_what_no_single_row_holds_is_left_out(monkeypatch, capsys):
    one(monkeypatch)
    [(_, panels)] = sections(page("figure=why")).values()
    assert "left out: panels of columns that are derived from several runs" in capsys.readouterr().out
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
