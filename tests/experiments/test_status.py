"""What the status of runs says, whatever lies on disk."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from renewing import renew
from run_support import SMALL, configuration, contents, go, record, rewrite, rows, stopped, where
from terminal_support import printed

from experiments import status
from experiments.config.compose import CONF
from experiments.orchestration.study import StudyFolder, cells
from experiments.run_store.folder import RunFolder


def listed(folder: Path, capsys: pytest.CaptureFixture, *words: str) -> tuple[dict[str, dict[str, str]], list[str]]:
    """The table, by run folder, and the lines below it."""
    capsys.readouterr()
    status.main([f"results_dir={folder}", *words])
    header, *lines = (line.split("\t") for line in capsys.readouterr().out.splitlines())
    table = [dict(zip(header, line, strict=True)) for line in lines if len(line) > 1]
    return {row["folder"]: row for row in table}, [line[0] for line in lines if len(line) == 1]


def test_every_state(results: str, tmp_path: Path, interrupted: Path, capsys: pytest.CaptureFixture) -> None:
    finished = go(*SMALL, "algorithm=ef21", "lr=[0.001,0.003,0.01,0.03,0.1]", "seed=3", "cluster.workers=4", results)
    assert stopped([*SMALL, "algorithm=sgd", "lr=1e308", results]) == 1
    failed = where(*SMALL, "algorithm=sgd", "lr=1e308", results)
    gone = go(*SMALL, "algorithm=naive", results)
    rewrite(gone, "status", {"status": "running", "round": 0, "time": "2026-01-01T00:00:00+00:00"})
    lines = [[*SMALL, f"algorithm={name}", results] for name in ("ef21", "sgd", "adam")]
    found = cells(lines, [configuration(*line) for line in lines], "mine/own")
    StudyFolder(str(tmp_path / "results"), "mine/own").freeze(found)
    go(*SMALL, "algorithm=sgd", "seed=0", results)
    last = rows(interrupted)[-1]
    with (interrupted / "metrics.jsonl").open("a") as file:
        file.write('{"round": 15, "bits": 1')  # a row that is being written does not count
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
    assert table[str(interrupted)]["bits"] == str(last["bits"])
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
        rewrite(interrupted, "status", record(interrupted, "status") | {"time": "2023-11-14T22:13:20+00:00"})
        # Its last row is of round 10: 6 rounds in 60 seconds, and 10 are left, 5 seconds of which are over.
        os.utime(interrupted / "metrics.jsonl", (begin + 60, begin + 60))
        monkeypatch.setattr(time, "time", lambda: begin + 65)
        table, below = listed(interrupted.parents[2], capsys)
        [row] = table.values()
        assert (row["state"], row["rounds"], row["left"]) == ("running", "10/20", "95 s")
        assert below == ["1 running"]
    [row] = listed(interrupted, capsys)[0].values()  # of a run's own folder, too
    assert (row["state"], row["left"]) == ("gone", "–")


@pytest.mark.slow
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
    for words, said in (
        ([str(place), "state=failed"], "state=failed: no run has it"),
        ([str(place), "studdy=x"], "did you mean study?"),
        ([str(tmp_path / "none")], f"{tmp_path / 'none'}: no such folder"),
    ):
        with pytest.raises(SystemExit) as stop:
            status.main(words)
        assert stop.value.code == 2
        assert said in capsys.readouterr().err


def test_runs_of_other_code_are_counted(results: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    paths = [go(*SMALL, results, f"seed={seed}") for seed in range(3)]
    for path in paths[:2]:
        code = record(path, "code")
        rewrite(
            path,
            "code",
            {**code, "modules": code["modules"] | {"algorithms.core.channels": "0-0", "data.gone": "1-1"}},
        )
    _, below = listed(tmp_path / "results", capsys)
    assert below[0] == "2 of 3 runs are of other code: algorithms/core/channels.py changed, data/gone.py is gone"


DAMAGE: list[tuple[str, Callable[[bytes], bytes] | None]] = [
    ("config.yaml", None),  # gone
    ("config.yaml", lambda whole: whole[: len(whole) // 2]),
    ("config.yaml", lambda whole: whole + b"seed: x\nrounds: [3]\n"),
    ("status.json", lambda whole: whole[: len(whole) // 2]),
    ("status.json", lambda whole: b'{"status": "running", "round": "x"}'),
    ("metrics.jsonl", lambda whole: b"3\n"),
    ("summary.json", None),
]


def test_damaged_folders_are_named(results: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    good, bad = go(*SMALL, "seed=0", results), go(*SMALL, "seed=1", results)

    def is_named() -> None:
        table, below = listed(tmp_path / "results", capsys)
        assert (table[str(good)]["state"], table[str(bad)]["state"]) == ("finished", "damaged")
        assert below[0].startswith(f"{bad}: ")
        assert below[1:] == ["1 finished, 1 damaged"]

    for name, damaged in DAMAGE:
        whole = (bad / name).read_bytes()
        if damaged is None:
            (bad / name).unlink()
        else:
            (bad / name).write_bytes(damaged(whole))
        is_named()
        (bad / name).write_bytes(whole)
    (bad / "status.json").unlink()
    (bad / "status.json").mkdir()  # a folder for a file
    is_named()


@pytest.mark.slow
def test_it_needs_no_torch_and_bears_a_reader_that_leaves(results: str, tmp_path: Path) -> None:
    path = go(*SMALL, results)
    shutil.rmtree(path / "checkpoint")
    for number in range(200):
        renew(Path(shutil.copytree(path, path.with_name(f"copy{number}"))))
    code = "import sys; from experiments.status import main; main(sys.argv[1:]); print('torch' in sys.modules)"
    place = str(tmp_path / "results")
    done = subprocess.run([sys.executable, "-c", code, place], cwd=CONF.parent, capture_output=True, text=True)
    assert done.stdout.splitlines()[-2:] == ["201 finished", "False"]
    assert done.stderr == ""
    process = subprocess.Popen(
        [sys.executable, "-m", "experiments.status", place],
        cwd=CONF.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    process.wait()
