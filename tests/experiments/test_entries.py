"""A method is entered to a small track: what is tuned and judged, what is written, and what a check finds."""

import signal
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from common.errors import UsageError
from experiments import check, enter
from experiments.config.compose import CONF, choices
from experiments.entries.entry import Entry, read_entry, read_with_rows, write_entry
from experiments.entries.track import read_track
from experiments.entries.verify import problems
from experiments.figures.committed import PLACE
from experiments.tasks.logreg import LogisticRegression
from experiments.training.build import build_algorithm
from plots.runs.columns import Column

TRACK = {
    "tasks": {
        "logreg/breast_cancer": {"metric": "grad_norm", "levels": [0.3]},
        "logreg/digits": {"metric": "grad_norm", "levels": [0.3], "overrides": ["task.batch_size=16"]},
    },
    "overrides": ["rounds=8", "eval_every=2", "cluster.workers=4"],
    "seeds": [0, 1],
    "tuning": {"seed": 9, "share": 0.5, "trials": 2, "factors": [0.1, 1, 10]},
}


@pytest.fixture
def entered(tmp_path: Path, write_package: Callable) -> Callable[..., Path]:
    """Enters a method to the track, by a package that has it; returns the folder of its entry."""

    def run(*words: str, algorithm: str = "cd_adam", place: str = "results", tasks: int = 2) -> Path:
        some = dict(list(TRACK["tasks"].items())[:tasks])
        track = yaml.safe_dump({**TRACK, "tasks": some})
        write_package("small_track", {"__init__.py": "", "conf/leaderboard/small.yaml": track})
        fixed = ["track=small", "packages=[small_track]", f"algorithm={algorithm}", "jobs=1"]
        enter.main([*fixed, f"results_dir={tmp_path / place}", *words])
        return next((tmp_path / place / "leaderboard" / "small").iterdir())

    return run


def test_an_entry_has_all_trials_and_seeds_and_is_checked(entered, capsys):
    folder = entered("algorithm.warmup=0.5", "cluster.timeout=900", "label=A, b", tasks=1, algorithm="onebit_adam")
    _, rows = read_with_rows(folder)
    trials, judged = rows[~rows["judged"]], rows[rows["judged"]]
    assert trials.groupby("seed")["round"].max().to_dict() == {9: 4}
    assert judged.groupby("seed")["round"].max().to_dict() == {0: 8, 1: 8}
    best = trials[trials["round"] == 4].sort_values("grad_norm")["lr"].iloc[0]
    [chosen] = read_entry(folder).tasks.values()
    assert chosen.setting == {"lr": best}
    assert read_entry(folder).parts["memory"].startswith("ErrorFeedback(dense_rounds=4")  # of 8 rounds; trials have 4
    assert read_entry(folder).parts["method"] == "Algorithm(clip=None, combine=Mean())"  # as in committed entries
    assert read_entry(folder).label == "A, b"
    assert read_entry(folder).memory == 3  # the uplink's memory and Adam's m and v
    assert set(judged["lr"]) == {best}
    check.main([str(folder.parents[2])])
    assert capsys.readouterr().out.endswith("4 run folders and 1 entries, 0 damaged\n")


def test_a_method_with_values_of_its_own_has_fewer_step_sizes() -> None:
    [candidate], _ = enter.read(["track=digits", "algorithm=econtrol", "+algorithm.entry={algorithm.eta:[0.1,0.5]}"])
    assert candidate.grids["digits"] == {"lr": [0.01, 0.03, 0.1, 0.3], "algorithm.eta": [0.1, 0.5]}
    trials = [cell.run for cell in candidate.trials() if cell.run.task.name == "digits"]
    assert {run.algorithm.options["eta"] for run in trials} == {0.1, 0.5}
    assert {(run.seed, run.rounds) for run in trials} == {(1000, 600)}
    assert len(trials) == 8


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("rounds=10", "rounds=10: the track fixes this"),
        ("seeds=[0,99]", r"seeds=\[0,99\]: must be a list of seeds of the track"),
        ("seeds=0", "seeds=0: must be a list of seeds of the track"),
        ("seeds=[]", "each once"),
        ("seeds=[1,1]", "each once"),
        ("seeds=[1.0]", "each once"),
        ("seeds=[true]", "each once"),
        ("track=digit", "digits"),
    ],
)
def test_what_a_track_fixes_is_not_set(word: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        enter.read(["track=digits", "algorithm=cd_adam", word])


def test_a_misspelt_key_is_named() -> None:
    with pytest.raises(UsageError, match=r"algoritm: no such key; did you mean algorithm\?"):
        enter.read(["track=digits", "algoritm=cd_adam"])
    [candidate], _ = enter.read(["track=digits", "algorithm=ef21", "+algorithm.entry.famly=Signs"])
    with pytest.raises(UsageError, match=r"algorithm.entry.famly=Signs: must be a list of values"):
        _ = candidate.grids


def test_a_tuned_key_cannot_be_set_as_well() -> None:
    tried = "+algorithm.entry={algorithm.eta:[0.1,0.5],lr:0.1}"
    [candidate], _ = enter.read(["track=digits", "algorithm=econtrol", tried, "algorithm.eta=0.3"])
    with pytest.raises(UsageError, match=r"algorithm.eta=0.3: algorithm.entry tries several values of this key"):
        _ = candidate.grids


def test_an_entry_is_named_after_its_overrides(tmp_path: Path) -> None:
    [candidate], _ = enter.read(["track=digits", "algorithm=ef21", "compressor.ratio=0.1", "algorithm.entry.lr=3"])
    assert candidate.name == "ef21-compressor.ratio-0.1-algorithm.entry.lr-3"
    assert candidate.grids["digits"]["lr"][3] == 3.0
    empty: dict[str, Any] = {one.name: "" for one in fields(Entry)} | {"tasks": {}}
    write_entry(Entry(**empty), pd.DataFrame({"run": ["1"], "seconds": [1.0]}), tmp_path / candidate.name)
    assert read_entry(tmp_path / candidate.name).tasks == {}


@pytest.mark.parametrize(("name", "said"), [("mine/ef21", "must not contain /"), ("cd_adam", "is the name of")])
def test_a_name_that_would_replace_another_entry_is_refused(name: str, said: str) -> None:
    with pytest.raises(UsageError, match=f"name={name}: {said}"):
        enter.read(["track=digits", "algorithm=ef21", f"name={name}"])
    assert enter.read(["track=digits", "algorithm=ef21", "name=ef21"])[0][0].name == "ef21"


@pytest.mark.slow
@pytest.mark.parametrize("track", choices("leaderboard", [CONF]))
def test_the_runs_of_a_track_are_right(track: str) -> None:
    [candidate], seeds = enter.read([f"track={track}", "algorithm=cd_adam"])
    settings = {task: {"lr": grid["lr"][0]} for task, grid in candidate.grids.items()}
    cells = [*candidate.trials(), *candidate.judged_runs(settings, seeds)]
    assert len({cell.id for cell in cells}) == len(settings) * (candidate.track.tuning.trials + len(seeds))
    for cell in cells:
        build_algorithm(cell.run)


@pytest.mark.slow
def test_an_entry_that_was_interrupted_is_the_same(entered, at_round):
    whole = entered(place="whole")
    at_round(6, lambda: signal.raise_signal(signal.SIGINT))  # trials have four rounds
    with pytest.raises(SystemExit, match="130"):
        entered()
    again = entered()
    expected, found = (read_with_rows(folder)[1].drop(columns="seconds") for folder in (whole, again))
    pd.testing.assert_frame_equal(found, expected)
    assert replace(read_entry(again), rows_sha256="") == replace(read_entry(whole), rows_sha256="")


@pytest.mark.slow
def test_a_method_that_diverges_is_entered_as_such(entered: Callable[..., Path]) -> None:
    folder = entered("algorithm.entry.lr=1e307", "update.momentum=0.9", "name=wild", algorithm="sgd")
    _, rows = read_with_rows(folder)
    diverged = rows[(rows["task"] == "logreg/digits") & rows["judged"]]
    assert set(diverged["status"]) == {"diverged"}
    assert set(diverged["seed"]) == {0, 1}
    assert not any(chosen.inside for chosen in read_entry(folder).tasks.values())
    assert read_entry(folder).tasks["logreg/digits"].note == "every trial diverged"
    assert problems(folder) == []


@pytest.mark.slow
def test_one_seed_is_compared_with_the_committed_entry(entered, monkeypatch, capsys):
    committed, mine = entered(tasks=1, place="whole"), entered("seeds=[0]", tasks=1, place="mine")
    monkeypatch.setattr("experiments.figures.committed.PLACE", committed.parents[2])
    with pytest.raises(SystemExit, match="1"):
        check.main([str(mine)])
    said = capsys.readouterr().out
    assert f"{mine}: to 1 levels of common runs its bits and those of {committed} differ by at most 0 %" in said
    assert "lacks seeds 1" in said


def test_a_track_knows_the_columns_of_its_tasks(write_package, monkeypatch):
    monkeypatch.setattr(LogisticRegression, "columns", (Column("found", better="higher"),), raising=False)
    for metric, levels, said in (("fund", [1, 2], "did you mean found"), ("found", [2, 1], "in order")):
        goal = {"metric": metric, "levels": levels}
        track = yaml.safe_dump({**TRACK, "tasks": {"logreg/breast_cancer": goal}})
        write_package("small_track", {"__init__.py": "", "conf/leaderboard/small.yaml": track})
        with pytest.raises(UsageError, match=said):
            read_track("small", ["small_track"])


def test_an_entry_of_a_package_that_is_not_here_is_not_called_damaged(tmp_path, capsys):
    folder = tmp_path / "leaderboard" / "digits" / "cd_adam"  # one of that name is committed
    entry, rows = read_with_rows(PLACE / "leaderboard" / "digits" / "cd_adam")
    write_entry(replace(entry, packages=["gone"]), rows, folder)
    with pytest.raises(SystemExit, match=r"^2$"):
        check.main([str(tmp_path)])
    said = capsys.readouterr()
    assert f"not checked  {folder}: packages=[gone]: cannot be imported" in said.out
    assert "entries that were not checked: 1" in said.err
    assert "damaged  " not in said.out


@pytest.mark.slow
def test_a_changed_entry_is_found(entered: Callable[..., Path]) -> None:
    folder = entered()
    entry, rows = read_with_rows(folder)

    def found(**columns: pd.Series) -> str:
        write_entry(entry, rows.assign(**columns), folder)
        return "; ".join(problems(folder))

    assert not found()
    assert "bits" in found(bits_up=rows["bits_up"] - (rows["round"] == 8))
    assert "sum" in found(bits=rows["bits"] // 2)
    assert "another planned_rounds" in found(planned_rounds=rows["round"])
    assert "choose" in found(grad_norm=rows["grad_norm"].where(rows["judged"], 1 / rows["grad_norm"]))
    write_entry(entry, rows[rows["seed"] != 1], folder)
    assert "missing" in problems(folder)[0]
    write_entry(replace(entry, seeds=[0]), rows[rows["seed"] != 1], folder)
    assert problems(folder) == ["lacks seeds 1; experiments.enter without seeds= adds them"]
    write_entry(replace(entry, seeds=[0, 1, 7]), rows, folder)
    assert problems(folder)[0] == "has seeds 7, which are not the track's"
    write_entry(replace(entry, parts={}), rows, folder)
    assert problems(folder) == ["its parts are not those of the method"]
    write_entry(replace(entry, memory=1.0), rows, folder)
    assert problems(folder) == ["says that a worker keeps 1 numbers per coordinate; it keeps 5"]
    write_entry(replace(entry, version="other"), rows, folder)
    assert "version" in problems(folder)[0]
