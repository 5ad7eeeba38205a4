"""Runs on disk sent to wandb afterwards."""

import json
import subprocess
import sys
from pathlib import Path
from shutil import copytree

import pytest
from run_support import SMALL, contents, go, record, rewrite, rows
from wandb_server import KEY, black_hole, serving
from wandb_support import curves, expected, logged, nobody, stand_in, to_send

from experiments import upload

pytestmark = pytest.mark.usefixtures("nobody")
assert nobody
assert stand_in


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A grid of two step sizes and a single run, finished without a logger."""
    results = f"results_dir={tmp_path_factory.mktemp('trained') / 'results'}"
    return [go(*SMALL, results, "lr=[0.1,0.01]"), go(*SMALL, results, "seed=1", "study=figure_x")]


@pytest.fixture
def finished(trained: list[Path], tmp_path: Path) -> list[Path]:
    """Copies of these, below results/."""
    return [Path(copytree(path, tmp_path / "results" / path.name)) for path in trained]


def stopped(*words: object) -> int:
    """The exit status of an upload that does not end well."""
    with pytest.raises(SystemExit) as stop:
        upload.main([str(word) for word in words])
    return stop.value.code


def test_every_run_below_a_folder_as_if_it_had_been_mirrored(
    finished: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], stand_in: object
) -> None:
    grid, single = finished
    before = contents(grid)
    for _ in range(2):  # the second time leaves what the first did
        upload.main([str(tmp_path / "results"), "logger.project=mine", "logger.targets.grad_norm=[1.0]"])
        assert [curve.told["id"] for curve in curves(grid)] == [f"{grid.name}-0", f"{grid.name}-1"]
        for trial, curve in enumerate(curves(grid)):
            assert curve.rows == expected(rows(grid), trial)
        [curve] = curves(single)
        assert curve.rows == expected(rows(single))
        assert (curve.told["project"], curve.told["group"]) == ("mine", "figure_x/logreg/breast_cancer/n20")
        assert curve.summary["bits_to/grad_norm/1e0"] == next(
            row["bits"] for row in rows(single) if row["grad_norm"] <= 1.0
        )
        assert (curve.summary["status"], curve.exit_code) == ("finished", 0)
        said = capsys.readouterr().out.splitlines()
        for path, count in ((grid, 10), (single, 5)):
            assert f"{path}: {count} new rows; wandb: offline, as asked; {to_send(path)}" in said
    assert contents(grid).items() >= before.items()


def test_a_mirrored_run_keeps_its_place_but_for_what_the_command_line_says(results: str, stand_in: object) -> None:
    place = ("logger.project=theirs", "logger.entity=team", "logger.job_type=special", "logger.mode=offline")
    path = go(*SMALL, results, "logger=wandb", *place, "logger.targets.grad_norm=[1.0]", "study=first")
    go(*SMALL, results, "study=second")  # the same run, finished: it stays the first one's
    for words, project in (([], "theirs"), (["logger.project=cd-adam"], "cd-adam")):
        upload.main([str(path), *words])
        [curve] = curves(path)
        told = [curve.told[name] for name in ("project", "entity", "job_type", "group")]
        assert told == [project, "team", "special", "first/logreg/breast_cancer/n20"]
        assert curve.told["tags"][0] == "first"
        assert [name for name in curve.summary if name.startswith("bits_to/grad_norm")] == ["bits_to/grad_norm/1e0"]


def test_a_run_under_way_is_not_shown_as_failed(finished: list[Path], stand_in: object) -> None:
    _, path = finished
    rewrite(path, "status", record(path, "status") | {"status": "running"})
    upload.main([str(path)])
    [curve] = curves(path)
    assert (curve.summary["status"], curve.exit_code) == ("running", 0)


@pytest.mark.parametrize(("name", "value"), [("WANDB_MODE", "bogus"), ("WANDB_BASE_URL", "nowhere")])
def test_a_wrong_setting_of_wandb_is_named(
    name: str, value: str, finished: list[Path], nobody: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nobody.setenv(name, value)
    assert stopped(finished[0]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: wandb's settings: ")
    assert f"Settings {name.removeprefix('WANDB_').lower()} " in line
    assert value in line


@pytest.mark.parametrize("file", ["environment.json", "status.json", "config.yaml"])
def test_one_bad_folder_does_not_keep_the_others(
    file: str, finished: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], stand_in: object
) -> None:
    _, single = finished
    (single / file).write_text("{")
    assert stopped(tmp_path / "results") == 1
    said = capsys.readouterr()
    [line] = [line for line in said.out.splitlines() if "failed" in line]
    assert line.startswith(f"{single}: failed: ")
    assert file in line
    assert not (single / "wandb").exists()
    assert "1 of 2 runs were not sent whole" in said.err
    assert len(curves(finished[0])) == 2


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("nothing_here", "nothing_here: no run in it; give a run's folder"),
        ("seed=1", "seed=1: here only keys of the logger can be set"),
        ("logger.projct=x", "did you mean logger.project?"),
        ("logger.init_timeout=0", "init_timeout=0: must be a positive number of seconds"),
    ],
)
def test_wrong_words_end_before_anything_is_sent(
    word: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "metrics.jsonl").touch()
    assert stopped(tmp_path, word) == 2
    assert said in capsys.readouterr().err


def test_online_what_wandb_has_is_not_sent_again_and_the_summary_is_renewed(
    finished: list[Path], nobody: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, path = finished
    whole = path / "metrics.jsonl"
    lines, ended = whole.read_text().splitlines(keepends=True), record(path, "status")
    nobody.delenv("WANDB_MODE")
    nobody.setenv("WANDB_API_KEY", KEY)
    with serving() as server:
        nobody.setenv("WANDB_BASE_URL", server.url)
        whole.write_text("".join(lines[:3]))
        rewrite(path, "status", {"status": "interrupted"})
        upload.main([str(path)])
        run = server.runs[path.name]
        assert run.summary["final/grad_norm"] == rows(path)[2]["grad_norm"]
        whole.write_text("".join(lines))
        rewrite(path, "status", ended)
        for _ in range(2):
            upload.main([str(path)])
            assert logged(run.rows) == expected(rows(path))
            assert run.summary["final/grad_norm"] == rows(path)[-1]["grad_norm"]
        assert list(server.runs) == [path.name]
        over_bits = json.loads(run.fields["config"])["_wandb"]["value"]["m"]
        assert [metric.get("1") or metric["2"] for metric in over_bits] == ["comm/bits", "*"]
    assert run.posts == [3, 2]
    said = [line.partition(";")[0] for line in capsys.readouterr().out.splitlines()]
    assert said == [f"{path}: {count} new rows" for count in (3, 2, 0)]


def test_without_a_login_nothing_is_sent_and_that_is_an_error(
    finished: list[Path], nobody: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nobody.delenv("WANDB_MODE")
    assert stopped(finished[0]) == 1
    said = capsys.readouterr()
    assert said.err.startswith("error: nothing was sent: not logged in (wandb login); log in or set WANDB_API_KEY, ")
    assert said.out == ""
    assert not (finished[0] / "wandb").exists()


@pytest.mark.slow
def test_a_server_that_never_answers_is_given_up_once(
    finished: list[Path], nobody: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nobody.delenv("WANDB_MODE")
    nobody.setenv("WANDB_API_KEY", KEY)
    with black_hole() as url:
        nobody.setenv("WANDB_BASE_URL", url)
        assert stopped(tmp_path / "results", "logger.init_timeout=1") == 1
    out, err = capsys.readouterr()
    assert "2 of 2 runs were not sent whole" in err
    said = out.splitlines()
    assert len(said) == 2
    for path, count in zip(finished, (10, 5), strict=True):
        [line] = [line for line in said if line.startswith(str(path))]
        assert line.startswith(f"{path}: {count} new rows; wandb: offline, it could not begin online (")
        assert line.endswith(f"; {to_send(path)}")
        assert [*path.glob("wandb/offline-run-*/*.wandb")]


def test_the_process_beside_a_run_loads_no_torch() -> None:
    """Which takes seconds and a quarter of a gigabyte."""
    code = "import sys, experiments.loggers.follow, experiments.loggers.mirror; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2]).returncode == 0
