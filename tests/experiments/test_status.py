"""`experiments.status` and `experiments.check`: what they say, whatever lies on disk."""

import gc
import io
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
from renewing import renew
from rich.console import Console
from run_support import SMALL, configuration, contents, exit_code, go, record, rewrite, rows, run_folder
from waiting import exit_status

from common.errors import escape_controls
from common.progress import Display
from experiments import status
from experiments.check import main
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
    assert exit_code([*SMALL, "algorithm=sgd", "lr=1e308", results]) == 1
    failed = run_folder(*SMALL, "algorithm=sgd", "lr=1e308", results)
    gone = go(*SMALL, "algorithm=naive", results)
    rewrite(gone, "status", {"status": "running", "round": 0, "time": "2026-01-01T00:00:00+00:00"})
    damaged = go(*SMALL, "algorithm=qadam", results)
    (damaged / "summary.json").unlink()
    lines = [[*SMALL, f"algorithm={name}", results] for name in ("ef21", "sgd", "adam")]
    found = cells(lines, [configuration(*line) for line in lines], "mine/own")
    StudyFolder(str(tmp_path / "results"), "mine/own").freeze(found)
    go(*SMALL, "algorithm=sgd", "seed=0", results)
    before = contents(tmp_path / "results")
    table, below = listed(tmp_path / "results", capsys)
    assert contents(tmp_path / "results") == before
    assert {folder: row["state"] for folder, row in table.items()} == {
        str(finished): "finished",
        str(failed): "failed",
        str(damaged): "damaged",
        str(interrupted): "interrupted",
        str(gone): "gone",
        str(run_folder(*SMALL, "algorithm=sgd", results)): "finished",
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
    [error, damage, counts] = below
    assert damage.startswith(f"{damaged}: ")
    assert error.startswith(f"{failed}: round 5, all workers, trial 0 (lr=1e+308): train_loss is inf")
    assert counts == "2 finished, 1 interrupted, 1 failed, 1 gone, 2 missing, 1 damaged"


def test_a_run_that_is_at_it_says_how_long_it_will_take(results, interrupted, capsys, monkeypatch):
    folder = RunFolder(interrupted)
    begin = 1_700_000_000
    with folder.lock():
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


def test_progress_tells_the_time_left_from_the_rounds_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    written, now = io.StringIO(), [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with Display(1000, Console(file=written, width=200)) as display:
        display.begin("task")
        display.skip(500)
        now[0] = 20.0
        display.advance(100)  # 0.2 s a round, 400 of them to come
    assert written.getvalue().splitlines() == ["task", "task: 600 of 1000 rounds, 20 s, 80 s left"]


def test_runs_are_chosen_by_what_they_are(results: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    sgd, other = go(*SMALL, "algorithm=sgd", results), go(*SMALL, "algorithm=sgd", "task.batch_size=3", results)
    go(*SMALL, "algorithm=ef21", "study=2024_11", results)
    place = tmp_path / "results"

    def chosen(*words: str) -> dict[str, dict[str, str]]:
        return listed(place, capsys, *words)[0]

    table = chosen("algorithm=sgd")
    assert set(table) == {str(sgd), str(other)}
    assert {row["settings"] for row in table.values()} == {"task.batch_size=null", "task.batch_size=3"}
    assert table[str(sgd)]["metric"] == f"grad_norm {rows(sgd)[-1]['grad_norm']:.4g}"
    assert {row["algorithm"] for row in chosen("study=2024_11").values()} == {"ef21"}
    assert len(chosen("state=finished", "task=logreg/breast_cancer")) == 3
    for words, said in (
        ([str(place), "state=failed"], "state=failed: no run has it"),
        ([str(place), "studdy=x"], "did you mean study?"),
        ([str(tmp_path / "none")], f"{tmp_path / 'none'}: no such folder"),
    ):
        with pytest.raises(SystemExit, match=r"^2$"):
            status.main(words)
        assert said in capsys.readouterr().err


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


SIGNS = ["\n", "\r", "\x1b[2J", "\x07", "\x00", "\x7f", "\x9b1m", "\u2028", "\u2029", "\ud800"]


@pytest.mark.parametrize("sign", SIGNS, ids=ascii)
def test_each_of_them_is_written_out(sign: str) -> None:
    assert escape_controls(f"é{sign}b") == f"é{ascii(sign)[1:-1]}b"
    assert escape_controls(f"é{sign}b", allowed=sign) == f"é{sign}b"


def test_what_other_people_s_folders_hold(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    sign = "\x1b[2J"
    path = go(*SMALL, f"results_dir={tmp_path}")
    config = yaml.safe_load((path / "config.yaml").read_text())
    config["algorithm"]["name"] = config["study"] = f"a{sign}b"
    (path / "config.yaml").write_text(yaml.safe_dump(config))
    failed = {"status": "failed", "error": f"a{sign}b", "time": "2026-01-01T00:00:00+00:00"}
    (path / "status.json").write_text(json.dumps(failed))
    renew(path.rename(path.with_name(f"{path.name}{sign}")))
    capsys.readouterr()
    status.main([f"results_dir={tmp_path}"])
    out = capsys.readouterr().out
    assert "a\\x1b[2Jb" in out
    assert "\x1b" not in out


PACKAGE = '''
import shutil
from dataclasses import dataclass
from functools import partial

from algorithms.compressors import Compressor, TopK
from algorithms.core.algorithm import Algorithm
from common.errors import DataError
from data.dataset import Dataset


class Forgetful(TopK):
    """Does not count its indices."""

    def bits(self, d: int) -> int:
        return super().bits(d) // 2


@dataclass(frozen=True)
class Sized(TopK):
    length: int = 5

    def check(self, d: int) -> None:
        if d != self.length:
            raise ValueError(f"d={d}: takes {self.length}")


def either(compressor: Forgetful | None) -> Algorithm:
    raise ValueError("never")


def missing() -> Dataset:
    raise DataError("few.svm is not there: fetch it")


def dangerous(path: str = "x") -> None:
    raise SystemExit("was called")
'''


@pytest.fixture
def check(write_package: Callable, capsys: pytest.CaptureFixture) -> Callable[[str], tuple[int | str, str, str]]:
    """Runs the command for something in `theirs`: its exit status and what it wrote to both outputs."""
    write_package("theirs", {"__init__.py": PACKAGE})
    return lambda line: (exit_status(lambda: main(line.split())), *capsys.readouterr())


@pytest.mark.slow
def test_a_failure_is_said_in_its_place(tmp_path: Path, check: Callable) -> None:
    """In a process of its own, as from a shell in any folder."""
    command = [sys.executable, "-m", "experiments.check", "theirs.Forgetful", "k=2"]
    places = os.environ | {"PYTHONPATH": str(CONF.parent)}
    ended = subprocess.run(command, cwd=tmp_path, env=places, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (1, "error: some checks failed, see above\n")
    assert "expected 128 to 128 bits for a payload of float32 [2] and int32 [2], saw 64" in ended.stdout
    assert "1 failed, " in ended.stdout


@pytest.mark.slow
def test_a_compressor_of_one_length_is_checked_at_that(check: Callable) -> None:
    status, out, err = check("theirs.Sized k=2")
    assert (status, err) == (0, ""), out
    assert out.splitlines()[0] == "compressor theirs.Sized k=2"
    assert " passed" in out.splitlines()[-1]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("theirs.dangerous", "theirs.dangerous: can be checked if it is a compressor, a subclass of"),
        ("theirs.partial", "theirs.partial: must be a class or function of algorithms, data, experiments, theirs"),
        ("theirs.Forgetfull", "module 'theirs' has no attribute 'Forgetfull'"),
        (". k=two", "k=two: options are for a class or function; . is a folder"),
        ("theirs.Forgetful k=two", "compressor.k=two: must be a valid integer"),
        ("theirs.Forgetful k=0", "compressor: k=0: top_k sends between 1 and"),
        ("theirs.missing", "error: few.svm is not there: fetch it\n"),
        ("theirs.either", "algorithm: none of the compressors and updates here has the type of its parameter"),
    ],
)
def test_what_cannot_be_checked(line: str, message: str, check: Callable) -> None:
    status, out, err = check(line)
    assert (status, out) == (1 if line == "theirs.missing" else 2, "")
    assert err.startswith("error: ")
    assert message in err
    assert gc.isenabled()
