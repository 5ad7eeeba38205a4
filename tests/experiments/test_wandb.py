"""Runs in wandb: what it is told, that no row is sent twice, and that a run goes on whatever wandb does."""

import json
import math
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import sleep

import pytest
import yaml
from run_support import SMALL, go, halted, record, rows, status, stored_config, where
from wandb_server import KEY, serving
from wandb_support import Curve, StandIn, expected, logged, nobody, stand_in

from experiments.loggers import wandb_logger
from experiments.loggers.logger import renamed
from experiments.loggers.wandb_logger import add_to, bits_to

pytestmark = pytest.mark.usefixtures("nobody")
assert nobody
assert stand_in

LOGGED = (*SMALL, "logger=wandb")
SWEEP = Path(__file__).resolve().parents[2] / "examples" / "wandb_sweep.yaml"


@pytest.fixture
def online(nobody: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Somebody is logged in."""
    nobody.delenv("WANDB_MODE")
    nobody.setenv("WANDB_API_KEY", KEY)
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
        config = {**stored_config(path), "lr": lr, "environment": facts}
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
def test_wandbs_variables_count(
    variables: dict, overrides: list, wanted: dict, results: str, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    path = go(*LOGGED, results, *overrides)
    if "tags" in wanted:
        wanted["tags"] = ["first", record(path, "environment")["commit"][:12], *wanted["tags"]]
    told = stand_in.curves[0].told
    assert {key: told[key] for key in wanted} == wanted


def test_a_grids_step_sizes_stand_in_a_given_name(
    results: str, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_NAME", "mine")
    go(*LOGGED, results, "lr=[0.1,0.01]")
    assert [curve.told["name"] for curve in stand_in.curves] == ["mine-lr0.1", "mine-lr0.01"]


def test_a_run_stopped_and_resumed_offline_ends_with_every_row_once(
    results: str, at_round: Callable, stand_in: StandIn, capfd: pytest.CaptureFixture[str]
) -> None:
    at_round(12, lambda: signal.raise_signal(signal.SIGTERM))
    assert halted([*LOGGED, results]) == 130
    path = where(*LOGGED, results)
    [first] = stand_in.curves
    assert (first.told["id"], first.told["job_type"], first.summary["status"]) == (
        path.name,
        "simulate",
        "interrupted",
    )
    assert (first.rows, first.exit_code) == (expected(rows(path)), 1)
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
    assert wandb_lines(capfd) == [
        "wandb: offline, as asked; to send it: give the command again with logger.mode=online"
    ]


def test_a_finished_run_is_logged_by_the_same_command(results: str, stand_in: StandIn) -> None:
    path = go(*SMALL, results)
    assert go(*LOGGED, results) == path
    [curve] = stand_in.curves
    assert (curve.rows, curve.summary["status"]) == (expected(rows(path)), "finished")


def test_a_run_that_fails_has_its_rows(results: str, stand_in: StandIn) -> None:
    overrides = [*LOGGED, results, "algorithm=sgd", "lr=1e308"]
    assert halted(overrides) == 1
    [curve] = stand_in.curves
    assert curve.rows == expected(rows(where(*overrides))) != []
    assert (curve.summary["status"], curve.exit_code) == ("failed", 1)


@pytest.mark.parametrize(
    ("key", "reason"), [(KEY, "it could not begin online (no network)"), ("", "not logged in (")]
)
def test_without_a_network_or_a_login_the_run_is_logged_offline(
    key: str, reason: str, results: str, stand_in: StandIn, online: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    if not key:
        online.delenv("WANDB_API_KEY")
    path = go(*LOGGED, results)
    [curve] = stand_in.curves
    assert (curve.told["mode"], curve.rows) == ("offline", expected(rows(path)))
    [line] = wandb_lines(capfd)
    assert line.startswith(f"wandb: offline, {reason}")
    assert line.endswith(f"; to send it: {sync(path)}")


@pytest.mark.parametrize(
    ("owner", "name"), [(StandIn, "setup"), (StandIn, "init"), (Curve, "log"), (Curve, "finish")]
)
def test_whatever_wandb_raises_the_run_finishes_and_says_one_line(
    owner: type, name: str, results: str, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, capfd
) -> None:
    def broken(*about: object, **more: object) -> None:
        raise OSError("no\nroom")

    monkeypatch.setattr(owner, name, broken)
    path = go(*LOGGED, results)
    assert status(path)["status"] == "finished"
    last = wandb_lines(capfd)[-1]
    assert last == f"wandb: incomplete (no room); the run's folder has every row: {path}"
    if name == "log":
        assert stand_in.curves[0].exit_code == 0


def test_a_missing_package_and_a_wrong_key_end_before_anything_starts(
    results: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert halted([*LOGGED, results, "logger.mode=onlin"]) == 2
    assert "logger.mode=onlin: must be 'online' or 'offline'" in capsys.readouterr().err
    monkeypatch.setattr(wandb_logger, "find_spec", lambda name: None)
    assert halted([*LOGGED, results]) == 2
    assert "the package wandb is not installed; pip install wandb" in capsys.readouterr().err
    assert not Path(results.removeprefix("results_dir=")).exists()


def test_a_column_of_a_users_task_is_not_lost() -> None:
    row = {"trial": 3, "lr": 0.1, "bits": 8, "grad_norm": 0.5, "perplexity": 7.0, "top5_accuracy": 0.9, "epoch": None}
    assert renamed(row) == {
        "comm/bits": 8,
        "gradient/norm": 0.5,
        "metric/perplexity": 7.0,
        "metric/top5_accuracy": 0.9,
    }


def test_a_summary_has_the_last_the_best_and_the_first_bits_to_a_level() -> None:
    summary: dict = {}
    # A first or last value that is not a number is not the best.
    values = ((8, math.nan, 0.9), (16, 5.0, 0.96), (24, 5.5, 0.97), (32, math.nan, 0.95))
    for bits, perplexity, accuracy in values:
        row = {"trial": 0, "bits": bits, "seconds": 1.0, "perplexity": perplexity, "top5_accuracy": accuracy}
        add_to(summary, row, {"perplexity": [6.0], "top5_accuracy": [0.95], "bits": [8]})
    assert math.isnan(summary.pop("final/perplexity"))
    assert summary == {
        "best/perplexity": 5.0,
        "final/top5_accuracy": 0.95,
        "best/top5_accuracy": 0.97,
        "total/bits": 32,
        "total/seconds": 1.0,
        "bits_to/bits/8e0": 8,
        "bits_to/perplexity/6e0": 16,
        "bits_to/top5_accuracy/95e-2": 16,
    }


def test_no_two_levels_share_a_name_and_none_has_a_dot() -> None:
    levels = [0.1, 0.01, 0.0123456, 0.01234567, 1, 10, 100, 1.5, -1.5, 1e-300, 0]
    names = [bits_to("grad_norm", level).rpartition("/")[2] for level in levels]
    assert [float(name) for name in names] == levels
    assert not any("." in name for name in names)


@pytest.mark.slow
def test_the_documented_sweep_trains_what_wandbs_agent_asks_for(
    results: str, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command is made by the functions that the agent calls, with the variable that it sets."""
    from wandb.sdk.launch.sweeps.utils import create_sweep_command, create_sweep_command_args

    sweep = yaml.safe_load(SWEEP.read_text())
    chosen = {"algorithm": "amsgrad", "lr": 0.0123}
    assert chosen.keys() == sweep["parameters"].keys()
    assert chosen["algorithm"] in sweep["parameters"]["algorithm"]["values"]
    given = create_sweep_command_args({"args": {name: {"value": value} for name, value in chosen.items()}})
    words = []
    for word in create_sweep_command(sweep["command"]):
        words += given["args_no_hyphens"] if word == "${args_no_hyphens}" else [word]
    assert words[:4] == ["${env}", "python", "-m", "experiments.run"]  # the agent fills in /usr/bin/env
    monkeypatch.setenv("WANDB_RUN_ID", "theirs")
    go(*words[4:], results, "rounds=5")
    [curve] = stand_in.curves
    assert (curve.told["id"], curve.told["config"]["lr"]) == ("theirs", 0.0123)
    assert sweep["metric"]["name"] in curve.summary


# With wandb itself.


@pytest.mark.slow
def test_rows_that_wandb_has_are_not_sent_again_and_the_summary_is_renewed(
    results: str, online: pytest.MonkeyPatch, at_round: Callable
) -> None:
    at_round(12, lambda: signal.raise_signal(signal.SIGTERM))
    with serving() as server:
        online.setenv("WANDB_BASE_URL", server.url)
        assert halted([*LOGGED, results]) == 130
        path = where(*LOGGED, results)
        run = server.runs[path.name]
        assert run.summary["final/grad_norm"] == rows(path)[2]["grad_norm"]
        for _ in range(2):  # it goes on, then it is finished
            go(*LOGGED, results)
            assert logged(run.rows) == expected(rows(path))
            assert run.summary["final/grad_norm"] == rows(path)[-1]["grad_norm"]
        assert list(server.runs) == [path.name]
        over_bits = json.loads(run.fields["config"])["_wandb"]["value"]["m"]
        assert [metric.get("1") or metric["2"] for metric in over_bits] == ["comm/bits", "*"]
    assert run.posts == [3, 2]


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1])
def test_wandbs_own_command_sends_what_the_first_rank_logged_though_ctrl_c_reached_all_processes(
    ranks: int, results: str, nobody: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    overrides = [*LOGGED, "cluster.workers=4", "rounds=200000", "eval_every=1000", results]
    launcher = ["torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", "-m"] if ranks > 1 else []
    command = [sys.executable, "-m", *launcher, "experiments.run", *overrides]
    path = where(*overrides)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        while not (path / "metrics.jsonl").exists() or len(rows(path)) < 3:
            assert process.poll() is None
            sleep(0.1)
        subprocess.run(["kill", "-INT", "--", f"-{process.pid}"], check=True)
        _, said = process.communicate(timeout=60)
    assert said.count("wandb: offline") == 1
    assert "incomplete" not in said
    nobody.delenv("WANDB_MODE")
    nobody.setenv("WANDB_API_KEY", KEY)
    with serving() as server:
        nobody.setenv("WANDB_BASE_URL", server.url)
        command = [str(Path(sys.executable).with_name("wandb")), "sync", *path.glob("wandb/offline-run-*")]
        subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    [(name, run)] = server.runs.items()
    kind = "train" if ranks > 1 else "simulate"
    assert (name, run.fields["jobType"], logged(run.rows)) == (path.name, kind, expected(rows(path)))
    assert run.summary["status"] == "interrupted"
