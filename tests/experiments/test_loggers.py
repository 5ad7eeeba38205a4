"""Runs mirrored to wandb: what it is told, and that nothing it does matters to the run."""

import json
import math
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import sleep

import pytest
from run_support import SMALL, go, record, rows, small, status, stopped, stored_config, where
from wandb_server import KEY, serving
from wandb_support import curves, expected, logged, nobody, stand_in, to_send

from experiments.loggers import rows as loggers_rows
from experiments.loggers import wandb_logger
from experiments.loggers.layout import add_to, named, reached
from experiments.loggers.rows import rows as rows_of
from experiments.sweep.job import GRACE
from experiments.tasks.logreg import LogisticRegression

pytestmark = pytest.mark.usefixtures("nobody")
assert nobody
assert stand_in

MIRRORED = (*SMALL, "logger=wandb")


def test_a_grid_of_step_sizes_is_a_curve_each_with_all_that_is_known_of_it(results: str, stand_in: object) -> None:
    study = "figure_" + "x" * 60
    path = go(*MIRRORED, results, "lr=[0.1,0.01]", f"study={study}", "logger.targets.grad_norm=[0.5,0.25,1e-9]")
    written, found, facts = rows(path), curves(path), record(path, "environment")
    assert len(found) == 2
    for trial, (curve, lr) in enumerate(zip(found, (0.1, 0.01), strict=True)):
        assert curve.rows == expected(written, trial)
        assert curve.step_of == {"comm/bits": None, "*": "comm/bits"}
        wanted = {**stored_config(path), "lr": lr, "environment": facts}
        wanted["cluster"]["size"] = 20
        for key in ("logger", "results_dir", "data_dir"):
            del wanted[key]
        assert (
            curve.told.items()
            >= {
                "project": "cd-adam",
                "id": f"{path.name}-{trial}",
                "job_type": "tune",
                "group": f"{study}/logreg/breast_cancer/n20",
                "name": f"cd_adam-logreg/breast_cancer-n20-s0-lr{lr}",
                "tags": [study[:64], facts["commit"][:12]],  # wandb takes no longer ones
                "config": wanted,
                "resume": "allow",
            }.items()
        )

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


def test_a_run_stopped_and_resumed_leaves_one_curve_with_every_row_once(
    results: str, at_round: Callable, stand_in: pytest.MonkeyPatch
) -> None:
    path, started, start = where(*MIRRORED, results), [], subprocess.Popen

    def starting(*arguments: object, **options: object) -> subprocess.Popen:
        started.append(start(*arguments, **options))
        return started[-1]

    def end_the_job() -> None:
        while not (path / "wandb").exists():
            sleep(0.01)
        started[-1].terminate()  # a scheduler's signal is for all processes of a job
        signal.raise_signal(signal.SIGTERM)

    stand_in.setattr(wandb_logger.subprocess, "Popen", starting)
    at_round(12, end_the_job)
    assert stopped([*MIRRORED, results]) == 130
    [first] = curves(path)
    assert (first.told["id"], first.told["job_type"], first.summary["status"]) == (
        path.name,
        "simulate",
        "interrupted",
    )
    assert (first.rows, first.exit_code) == (expected(rows(path)), 1)

    go(*MIRRORED, results)
    [curve] = curves(path)
    assert curve.told["id"] == path.name
    assert curve.rows == expected(rows(path))
    assert [row["progress/round"] for row in curve.rows] == [0, 5, 10, 15, 20]
    assert curve.summary["status"] == "finished"


def test_a_finished_run_says_how_it_is_sent(results: str, capfd: pytest.CaptureFixture[str]) -> None:
    path = go(*SMALL, results)
    assert go(*MIRRORED, results) == path == where(*MIRRORED, results, "study=figure_x"), "the same run"
    assert f"wandb: a finished run is sent by python -m experiments.upload {path}" in capfd.readouterr().err
    assert not (path / "wandb").exists()


def test_a_run_that_fails_has_its_rows_and_says_so(
    results: str, capfd: pytest.CaptureFixture[str], stand_in: object
) -> None:
    overrides = [*MIRRORED, results, "algorithm=sgd", "lr=1e308"]
    assert stopped(overrides) == 1
    path = where(*overrides)
    [curve] = curves(path)
    assert curve.rows == expected(rows(path)) != []
    assert (curve.summary["status"], curve.exit_code) == ("failed", 1)
    said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("wandb")]
    assert said == [f"wandb: offline, as asked; {to_send(path)}"]


def test_without_a_network_the_run_goes_on_offline(
    results: str, stand_in: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    stand_in.delenv("WANDB_MODE")
    stand_in.setenv("WANDB_API_KEY", KEY)
    path = go(*MIRRORED, results)
    [curve] = curves(path)
    assert curve.rows == expected(rows(path))
    [line] = [line for line in capfd.readouterr().err.splitlines() if "wandb" in line]
    assert line == f"wandb: offline, it could not begin online (no network); {to_send(path)}"


BROKEN = {
    "cannot be imported": "raise ImportError('half of it is missing')",
    "is killed": "import os; os.kill(os.getpid(), 9)",
    "hangs": "import time; time.sleep(1000)",
}


@pytest.mark.parametrize("code", BROKEN.values(), ids=BROKEN)
def test_whatever_wandb_does_the_run_finishes_and_says_one_line(
    code: str, results: str, tmp_path: Path, nobody: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "elsewhere" / "wandb"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text(code)
    nobody.setenv("PYTHONPATH", str(broken.parent))
    nobody.setattr(wandb_logger, "_GRACE", 1.5)
    path = go(*MIRRORED, results, "logger.init_timeout=0.1", "logger.finish_timeout=0.1")
    assert status(path)["status"] == "finished"
    [line] = [line for line in capfd.readouterr().err.splitlines() if "wandb" in line]
    assert line.startswith("wandb: incomplete (")
    assert line.endswith(f"to send the rest: python -m experiments.upload {path}")


def test_without_the_package_nothing_is_started(
    results: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(wandb_logger, "find_spec", lambda name: None)
    assert stopped([*MIRRORED, results]) == 2
    assert "the package wandb is not installed; pip install wandb" in capsys.readouterr().err
    assert not Path(results.removeprefix("results_dir=")).exists()


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("logger.init_timeout=0", "init_timeout=0: must be a positive number of seconds"),
        ("logger.finish_timeout=-1", "finish_timeout=-1: must be a positive number of seconds"),
        ("logger.mode=onlin", "logger.mode=onlin: must be 'online' or 'offline'"),
        ("logger.targets.grad_norm=0.1", "targets.grad_norm=0.1: must be a list of numbers"),
        ("logger.projct=mine", "did you mean logger.project?"),
        ("logger=wndb", "did you mean wandb?"),
    ],
)
def test_a_wrong_setting_ends_before_anything_starts(
    override: str, said: str, results: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stopped([*MIRRORED, results, override]) == 2
    assert said in capsys.readouterr().err
    assert not Path(results.removeprefix("results_dir=")).exists()


def test_a_column_of_a_users_task_is_not_lost() -> None:
    row = {"trial": 3, "lr": 0.1, "bits": 8, "grad_norm": 0.5, "perplexity": 7.0, "top5_accuracy": 0.9, "epoch": None}
    assert named(row) == {"comm/bits": 8, "gradient/norm": 0.5, "metric/perplexity": 7.0, "metric/top5_accuracy": 0.9}


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
    names = [reached("grad_norm", level).rpartition("/")[2] for level in levels]
    assert [float(name) for name in names] == levels
    assert not any("." in name for name in names)


def test_what_is_told_of_this_machine_is_neither_its_name_nor_where_files_lie(
    results: str, file: Path, stand_in: object
) -> None:
    path = go(*MIRRORED, results, "task=logreg/file", f"task.dataset.file={file}", "cluster.workers=4")
    [curve] = curves(path)
    assert curve.told["settings"]["host"] == ""
    told = json.dumps(curve.told["config"])
    assert str(file.parent) not in told
    assert stored_config(path)["data_dir"] not in told


def test_a_runs_environment_has_the_dimension_whatever_its_task_tells(
    results: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LogisticRegression, "facts", lambda self: {})
    path = go(*SMALL, results)
    assert record(path, "environment")["d"] == 30


def test_the_end_of_a_run_waits_less_than_a_sweep_does_before_it_kills() -> None:
    patience = small("logger=wandb").logger.options["finish_timeout"] + wandb_logger._GRACE
    assert patience < GRACE - 10  # torchrun has ten seconds less


def test_rows_written_in_pieces_are_read_whole(tmp_path: Path) -> None:
    file, pieces = (
        tmp_path / "metrics.jsonl",
        ['{"round": 0}\n{"rou', 'nd": 1}\n', "", '{"round": 2}\n{"round": 3}\n'],
    )
    file.touch()

    def ended() -> bool:
        with file.open("a") as lines:
            lines.write(pieces.pop(0))
        return not pieces

    assert list(rows_of(file, ended)) == [{"round": round} for round in range(4)]


def test_rows_that_come_too_fast_wait_for_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loggers_rows, "AT_ONCE", 2)
    file, read, looks = tmp_path / "metrics.jsonl", [], []
    file.write_text("".join(f'{{"round": {round}}}\n' for round in range(9)))

    def ended() -> bool:
        looks.append(len(read))
        return len(looks) == 4

    for row in rows_of(file, ended):
        read.append(row["round"])
    assert (read, looks) == (list(range(9)), [0, 2, 4, 6])


@pytest.mark.slow
def test_a_network_that_goes_away_holds_up_the_end_once_for_all_step_sizes(
    results: str, nobody: pytest.MonkeyPatch, at_round: Callable, capfd: pytest.CaptureFixture[str]
) -> None:
    nobody.delenv("WANDB_MODE")
    nobody.setenv("WANDB_API_KEY", KEY)
    with serving() as server:
        nobody.setenv("WANDB_BASE_URL", server.url)

        def disconnect() -> None:
            while len(server.runs) < 8:
                sleep(0.01)
            server.silent.set()

        at_round(12, disconnect)
        step_sizes = "lr=[0.1,0.09,0.08,0.07,0.06,0.05,0.04,0.03]"  # one after the other they would wait 16 s
        path = go(*MIRRORED, results, "logger.finish_timeout=2", step_sizes)
    assert status(path)["status"] == "finished"
    said = capfd.readouterr().err
    assert "wandb: incomplete (Timed out finishing run)" in said
    assert f"to send the rest: python -m experiments.upload {path}" in said


@pytest.mark.slow
def test_of_several_ranks_the_first_alone_mirrors_and_wandbs_own_command_sends_it(
    results: str, nobody: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    overrides = [*MIRRORED, "cluster.workers=4", results]
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "experiments.run"]
    ended = subprocess.run([sys.executable, "-m", *launcher, *overrides], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("wandb: offline") == 1
    path = where(*overrides)
    nobody.delenv("WANDB_MODE")
    nobody.setenv("WANDB_API_KEY", KEY)
    with serving() as server:
        nobody.setenv("WANDB_BASE_URL", server.url)
        command = [Path(sys.executable).with_name("wandb"), "sync", *path.glob("wandb/offline-run-*")]
        subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    [(name, run)] = server.runs.items()
    assert (name, run.fields["jobType"], logged(run.rows)) == (path.name, "train", expected(rows(path)))
