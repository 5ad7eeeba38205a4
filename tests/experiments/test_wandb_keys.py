"""What a user sets of wandb's: names, groups, tags and notes, what is told of the machine, artifacts, its sweeps."""

import os
from pathlib import Path

import pytest
import yaml
from run_support import go, record, rows
from test_loggers import MIRRORED
from wandb.sdk.launch.sweeps.utils import create_sweep_command, create_sweep_command_args
from wandb_server import KEY, serving
from wandb_support import curves, expected, logged, nobody, stand_in

from common.errors import UsageError
from experiments import upload

pytestmark = pytest.mark.usefixtures("nobody")
assert nobody
assert stand_in

SWEEP = Path(__file__).resolve().parents[2] / "examples" / "wandb_sweep.yaml"


@pytest.mark.parametrize(
    ("said", "overrides", "wanted"),
    [
        ({"WANDB_NAME": "mine"}, [], {"name": "mine"}),
        ({"WANDB_NAME": "mine"}, ["logger.name=own"], {"name": "own"}),
        ({"WANDB_RUN_GROUP": "ours"}, [], {"group": "ours"}),
        ({"WANDB_RUN_GROUP": "ours"}, ["logger.group=own"], {"group": "own"}),
        ({"WANDB_NOTES": "why"}, [], {"notes": "why"}),
        ({"WANDB_NOTES": "why"}, ["logger.notes='because, of this'"], {"notes": "because, of this"}),
    ],
)
def test_a_key_holds_before_wandbs_variable(
    said: dict, overrides: list[str], wanted: dict, results: str, stand_in: pytest.MonkeyPatch
) -> None:
    for name, value in said.items():
        stand_in.setenv(name, value)
    [curve] = curves(go(*MIRRORED, results, *overrides))
    assert curve.told.items() >= wanted.items()


def test_tags_come_together_each_once(results: str, stand_in: pytest.MonkeyPatch) -> None:
    stand_in.setenv("WANDB_TAGS", "night,first")
    path = go(*MIRRORED, results, "study=first", "logger.tags=[mine,night]")
    [curve] = curves(path)
    assert curve.told["tags"] == ["first", record(path, "environment")["commit"][:12], "night", "mine"]


def test_step_sizes_are_told_apart_under_one_name(results: str, stand_in: pytest.MonkeyPatch) -> None:
    found = curves(go(*MIRRORED, results, "lr=[0.1,0.01]", "logger.name=mine"))
    assert [curve.told["name"] for curve in found] == ["mine-lr0.1", "mine-lr0.01"]


@pytest.mark.parametrize("tags", ["[1]", "['']", f"[{'x' * 65}]"])
def test_tags_that_wandb_would_not_take_are_refused(tags: str, results: str, nobody: object) -> None:
    with pytest.raises(UsageError, match="must be a list of words of 1 to 64 characters"):
        go(*MIRRORED, results, f"logger.tags={tags}")


def test_the_machine_is_watched_where_the_run_is_unless_switched_off(
    results: str, stand_in: pytest.MonkeyPatch
) -> None:
    [curve] = curves(go(*MIRRORED, results))
    assert (curve.told["settings"]["x_disable_stats"], curve.told["settings"]["x_stats_pid"]) == (False, os.getpid())
    [curve] = curves(go(*MIRRORED, results, "seed=1", "logger.system=false"))
    assert curve.told["settings"]["x_disable_stats"]


def test_every_module_that_computes_is_an_artifact_and_the_model_on_request(
    results: str, stand_in: pytest.MonkeyPatch
) -> None:
    path = go(*MIRRORED, results, "logger.model=true")
    [curve] = curves(path)
    source, model = curve.artifacts
    assert source["type"] == "source"
    assert source["files"] == [f"{module.replace('.', '/')}.py" for module in record(path, "code")]
    assert (model["type"], model["name"]) == ("model", f"model-{path.name}")
    assert model["files"] == sorted(file.name for file in (path / "checkpoint").iterdir())
    [curve] = curves(go(*MIRRORED, results, "seed=1", "logger.code=false"))
    assert curve.artifacts == []


@pytest.mark.parametrize("git", [True, False])
def test_the_commit_is_that_of_the_run(git: bool, results: str, nobody: pytest.MonkeyPatch) -> None:
    nobody.setenv("WANDB_API_KEY", KEY)
    nobody.delenv("WANDB_MODE")
    with serving() as server:
        nobody.setenv("WANDB_BASE_URL", server.url)
        path = go(*MIRRORED, results, f"logger.git={git}", "logger.code=false")
    [run] = server.runs.values()
    assert logged(run.rows) == expected(rows(path))
    assert run.fields.get("commit") == (record(path, "environment")["commit"] if git else None)


def test_the_documented_sweep_trains_what_wandbs_agent_asks_for(results: str, stand_in: pytest.MonkeyPatch) -> None:
    """The command is made by the functions that the agent calls, with the variables that it sets."""
    sweep = yaml.safe_load(SWEEP.read_text())
    chosen = {"algorithm": "amsgrad", "lr": 0.0123}
    assert chosen.keys() == sweep["parameters"].keys()
    assert chosen["algorithm"] in sweep["parameters"]["algorithm"]["values"]
    given = create_sweep_command_args({"args": {name: {"value": value} for name, value in chosen.items()}})
    words = []
    for word in create_sweep_command(sweep["command"]):
        words += given["args_no_hyphens"] if word == "${args_no_hyphens}" else [word]
    assert words[:4] == ["${env}", "python", "-m", "experiments.run"]  # the agent fills in /usr/bin/env
    stand_in.setenv("WANDB_SWEEP_ID", "sweep")
    stand_in.setenv("WANDB_RUN_ID", "theirs")
    path = go(*words[4:], results, "rounds=5")
    [curve] = curves(path)
    assert (curve.told["id"], curve.told["config"]["lr"]) == ("theirs", 0.0123)
    assert sweep["metric"]["name"] in curve.summary


def test_a_sweep_of_wandb_gives_one_step_size(
    results: str, stand_in: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    stand_in.setenv("WANDB_SWEEP_ID", "sweep")
    path = go(*MIRRORED, results, "lr=[0.1,0.01]")
    assert "a sweep of wandb counts a run as one curve: have it choose one step size, lr" in capfd.readouterr().err
    assert curves(path) == []


def test_a_figure_is_an_artifact_with_its_picture(tmp_path: Path, stand_in: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "results" / "figures" / "demo"
    folder.mkdir(parents=True)
    for name in ("report.md", "demo.png", "demo.csv"):
        (folder / name).write_text(name)
    for _ in range(2):  # what wandb leaves in the folder is no part of the figure
        upload.main([str(folder), "logger.project=mine"])
        [shown] = curves(folder)
        assert (shown.told["id"], shown.told["project"], shown.told["job_type"]) == ("figure-demo", "mine", "figure")
        [artifact] = shown.artifacts
        assert (artifact["type"], artifact["files"]) == ("figure", ["demo.csv", "demo.png", "report.md"])
        assert shown.rows == [{"demo": str(folder / "demo.png")}]
