"""What the status of runs says, whatever lies on disk."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from run_support import SMALL, contents, go, rows, stopped, where
from sweep_support import cells
from terminal_support import printed

from experiments import status
from experiments.config.compose import CONF
from experiments.record.folder import RunFolder
from experiments.sweep.folder import SweepFolder


def listed(folder: Path, capsys: pytest.CaptureFixture, *words: str) -> tuple[dict[str, dict[str, str]], list[str]]:
    """The table, by run folder, and the lines below it."""
    capsys.readouterr()
    status.main([str(folder), *words])
    header, *lines = (line.split("\t") for line in capsys.readouterr().out.splitlines())
    table = [dict(zip(header, line, strict=True)) for line in lines if len(line) > 1]
    return {row["folder"]: row for row in table}, [line[0] for line in lines if len(line) == 1]


def test_every_state(results: str, tmp_path: Path, interrupted: Path, capsys: pytest.CaptureFixture) -> None:
    finished = go(*SMALL, "algorithm=ef21", "lr=[0.001,0.003,0.01,0.03,0.1]", "seed=3", "cluster.workers=4", results)
    assert stopped([*SMALL, "algorithm=sgd", "lr=1e308", results]) == 1
    failed = where(*SMALL, "algorithm=sgd", "lr=1e308", results)
    gone = go(*SMALL, "algorithm=naive", results)
    (gone / "status.json").write_text('{"status": "running", "round": 0, "time": "2026-01-01T00:00:00+00:00"}')
    found, _ = cells("algorithm=ef21,sgd,adam", "seed=0", results)
    SweepFolder(str(tmp_path / "results"), "mine/own").freeze(found)
    go(*SMALL, "algorithm=sgd", "seed=0", results)
    before = contents(tmp_path / "results")
    table, below = listed(tmp_path / "results", capsys)
    assert contents(tmp_path / "results") == before
    assert {folder: row["state"] for folder, row in table.items()} == {
        str(finished): "finished",
        str(failed): "failed",
        str(interrupted): "interrupted",
        str(gone): "gone",
        str(where(*SMALL, "algorithm=sgd", results)): "finished",
        **{
            str(tmp_path / "results" / "sweeps" / "mine" / "own" / "jobs" / f"{cell.id}.yaml"): "missing"
            for cell in (found[0], found[2])
        },
    }
    row = table[str(finished)]
    assert {key: row[key] for key in ("rounds", "bits", "left", "task", "algorithm", "n", "seed", "lr")} == {
        "rounds": "20/20", "bits": str(rows(finished)[-1]["bits"]), "left": "–", "task": "logreg/breast_cancer",
        "algorithm": "ef21", "n": "4", "seed": "3", "lr": "0.001 … 0.1",
    }  # fmt: skip
    assert table[str(interrupted)]["rounds"] == "12/20"
    assert table[str(interrupted)]["bits"] == str(rows(interrupted)[-1]["bits"])
    assert table[str(failed)]["rounds"] == "4/20"
    assert [row["algorithm"] for row in table.values()] == sorted(row["algorithm"] for row in table.values())
    [error, counts] = below
    assert error.startswith(f"{failed}: round 5, all workers, trial 0 (lr=1e+308): train_loss is inf")
    assert counts == "2 finished, 1 interrupted, 1 failed, 1 gone, 2 missing"


def test_a_run_that_is_at_it_says_how_long_it_will_take(
    results: str, interrupted: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(interrupted)
    begin = 1_700_000_000
    with folder.locked():
        folder.set_status("running", round=4)
        content = json.loads((interrupted / "status.json").read_text())
        (interrupted / "status.json").write_text(json.dumps(content | {"time": "2023-11-14T22:13:20+00:00"}))
        # Its last row is of round 10: 6 rounds in 60 seconds, and 10 are left, 5 seconds of which are over.
        os.utime(interrupted / "metrics.jsonl", (begin + 60, begin + 60))
        monkeypatch.setattr(time, "time", lambda: begin + 65)
        table, below = listed(interrupted.parents[2], capsys)
        [row] = table.values()
        assert (row["state"], row["rounds"], row["left"]) == ("running", "10/20", "95 s")
        assert below == ["1 running"]
    [row] = listed(interrupted, capsys)[0].values()  # of a run's own folder, too
    assert (row["state"], row["left"]) == ("gone", "–")


def test_looking_does_not_keep_a_run_from_beginning(results: str, interrupted: Path) -> None:
    with (interrupted / ".lock").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        release = fcntl.flock

        def wait_and_release(seconds: float) -> None:
            release(held, fcntl.LOCK_UN)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(time, "sleep", wait_and_release)
            with RunFolder(interrupted).locked():
                pass


def test_at_a_terminal_a_line_is_short(results: str, tmp_path: Path) -> None:
    paths = [go(*SMALL, "task.batch_size=3", f"seed={seed}", "lr=[0.001,0.1]", results) for seed in (0, 1)]
    words = [sys.executable, "-m", "experiments.status", str(tmp_path / "results")]
    lines = printed(words, columns=110)
    assert lines[0].split() == ["state", "rounds", "metric", "seed", "id"]
    assert {line.split()[-1] for line in lines[1:3]} == {path.name for path in paths}
    assert max(map(len, lines)) <= 110
    assert lines[3].startswith("all: bits ")
    assert "task logreg/breast_cancer, algorithm cd_adam, n 20, lr 0.001 0.1" in lines[3]


def test_runs_are_chosen_by_what_they_are(results: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    sgd, other = go(*SMALL, "algorithm=sgd", results), go(*SMALL, "algorithm=sgd", "task.batch_size=3", results)
    go(*SMALL, "algorithm=ef21", "study=mine", results)
    place = tmp_path / "results"

    def chosen(*words: str) -> dict[str, dict[str, str]]:
        return listed(place, capsys, *words)[0]

    table = chosen("algorithm=sgd")
    assert set(table) == {str(sgd), str(other)}
    assert {row["settings"] for row in table.values()} == {"task.batch_size=null", "task.batch_size=3"}
    assert table[str(sgd)]["metric"] == f"grad_norm {rows(sgd)[-1]['grad_norm']:.4g}"
    assert {row["algorithm"] for row in chosen("study=mine").values()} == {"ef21"}
    assert len(chosen("state=finished", "task=logreg/breast_cancer")) == 3
    for word, said in (("state=failed", "no run has it; did you mean"), ("studdy=x", "did you mean study?")):
        with pytest.raises(SystemExit) as stop:
            status.main([str(place), word])
        assert stop.value.code == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "said"),
    [
        ({"algorithms.frozen": "1", "algorithms.meter": "2"}, "algorithms/frozen.py changed"),
        (None, "begun with other code"),
    ],
    ids=["digests", "none"],
)
def test_what_was_edited_is_named(
    old: dict | None, said: str, results: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    new = go(*SMALL, results)
    edited = shutil.copytree(new, new.with_name("0123456789ab"))
    (edited / "status.json").write_text('{"status": "interrupted", "time": "2026-01-01T00:00:00+00:00"}')
    (new / "code.json").write_text('{"algorithms.frozen": "3", "algorithms.meter": "2"}')
    if old:
        (edited / "code.json").write_text(json.dumps(old))
    _, below = listed(tmp_path / "results", capsys)
    assert below[0] == f"{edited}: not {new.name}, which is finished: {said}"


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


DAMAGE: dict[str, Callable[[Path], object]] = {
    "no configuration": lambda path: (path / "config.yaml").unlink(),
    "half a configuration": lambda path: _cut(path / "config.yaml"),
    "another configuration": lambda path: (path / "config.yaml").write_text("a: b\n"),
    "a configuration of the wrong kind": lambda path: (path / "config.yaml").write_text(
        yaml.safe_dump({**yaml.safe_load((path / "config.yaml").read_text()), "seed": "x", "rounds": [3]})
    ),
    "no text": lambda path: (path / "config.yaml").write_bytes(b"\xff\xfe\x00"),
    "half a status": lambda path: _cut(path / "status.json"),
    "an empty status": lambda path: (path / "status.json").write_text(""),
    "a status of the wrong kind": lambda path: (path / "status.json").write_text("[3]"),
    "an unknown status": lambda path: (path / "status.json").write_text('{"status": "done"}'),
    "a time that is none": lambda path: (path / "status.json").write_text('{"status": "running", "round": "x"}'),
    "rows that are none": lambda path: (path / "metrics.jsonl").write_text("x\n"),
    "numbers as rows": lambda path: (path / "metrics.jsonl").write_text("3\n"),
    "a summary that is lost": lambda path: (path / "summary.json").unlink(),
    "a folder for a file": lambda path: ((path / "status.json").unlink(), (path / "status.json").mkdir()),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_folders_are_named(damage: str, results: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    good, bad = go(*SMALL, "seed=0", results), go(*SMALL, "seed=1", results)
    DAMAGE[damage](bad)
    table, below = listed(tmp_path / "results", capsys)
    assert (table[str(good)]["state"], table[str(bad)]["state"]) == ("finished", "damaged")
    assert below[0].startswith(f"{bad}: ")
    assert below[1:] == ["1 finished, 1 damaged"]


def test_a_row_that_is_being_written_does_not_count(interrupted: Path, capsys: pytest.CaptureFixture) -> None:
    with (interrupted / "metrics.jsonl").open("a") as file:
        file.write('{"round": 15, "bits": 1')
    [row] = listed(interrupted, capsys)[0].values()
    assert (row["state"], row["rounds"], row["bits"]) == ("interrupted", "12/20", str(10 * 124))


def test_where_there_is_nothing(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    status.main([str(tmp_path)])
    assert capsys.readouterr().out == "no runs\n"
    with pytest.raises(SystemExit) as stop:
        status.main([str(tmp_path / "none")])
    assert stop.value.code == 2
    assert f"{tmp_path / 'none'}: no such folder" in capsys.readouterr().err


def test_it_needs_no_torch_and_bears_a_reader_that_leaves(results: str, tmp_path: Path) -> None:
    path = go(*SMALL, results)
    for number in range(400):
        shutil.copytree(path, path.with_name(f"copy{number}"), ignore=shutil.ignore_patterns("checkpoint"))
    code = "import sys; from experiments.status import main; main(sys.argv[1:]); print('torch' in sys.modules)"
    place = str(tmp_path / "results")
    done = subprocess.run([sys.executable, "-c", code, place], cwd=CONF.parent, capture_output=True, text=True)
    assert done.stdout.splitlines()[-2:] == ["401 finished", "False"]
    assert done.stderr == ""
    process = subprocess.Popen(
        [sys.executable, "-m", "experiments.status", place],
        cwd=CONF.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    process.wait()
