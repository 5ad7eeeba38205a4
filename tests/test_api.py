"""The library as scripts and notebooks use it, in a folder of their own."""

import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pandas as pd
import pytest
from docs_support import ROOT

from common.errors import UsageError
from experiments import compare, load, train
from experiments.config.run import LAUNCH
from plots.runs.choose import best
from plots.runs.find import find

SMALL = ("task=logreg/breast_cancer", "rounds=20", "eval_every=5")
SAME = ["task", "algorithm", "seed", "lr", "round", "bits", "train_loss", "grad_norm"]
"""Columns that do not depend on the clock or on the folder."""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def same(one: pd.DataFrame, other: pd.DataFrame) -> bool:
    """Whether two tables hold the same rows, in whatever order."""
    first, second = (sorted(rows[SAME].itertuples(index=False, name=None)) for rows in (one, other))
    return first == second


def test_a_run_is_its_rows_and_no_file(place: Path) -> None:
    rows = train(*SMALL, algorithm="cd_adam", lr=[0.003, 0.01], update="amsgrad", eval_early=False)
    assert list(zip(rows["round"], rows["lr"], strict=True)) == [
        (r, lr) for r in (0, 5, 10, 15, 20) for lr in (0.003, 0.01)
    ]
    assert set(rows["task"] + " " + rows["algorithm"]) == {"logreg/breast_cancer cd_adam"}
    assert rows["bits"].iloc[-1] == 20 * 2 * 62
    assert list(place.iterdir()) == []


def test_with_a_folder_a_finished_run_is_read_and_not_run_again(place: Path) -> None:
    folder = place / "my results, kept"  # which Hydra's grammar wants in quotes
    rows = train(*SMALL, results_dir=folder)
    [metrics] = folder.rglob("metrics.jsonl")
    before = metrics.stat().st_mtime_ns
    assert train(*SMALL, results_dir=folder).equals(rows)
    assert metrics.stat().st_mtime_ns == before
    assert same(rows, train(*SMALL))


@pytest.mark.slow
def test_seeds_differ_where_something_is_drawn(place: Path) -> None:
    rows = compare(*SMALL, seed=[0, 1], results_dir="results")
    assert rows.groupby("seed")["grad_norm"].min().nunique() == 1
    drawn = compare(*SMALL, seed=[0, 1], results_dir="results", **{"task.batch_size": 3})
    assert drawn.groupby("seed")["grad_norm"].min().nunique() == 2


def test_a_comparison_is_every_combination_and_what_was_compared_a_column() -> None:
    lists = {"algorithm": ["cd_adam", "ef21"], "cluster.workers": [4, 5]}
    rows = compare(*SMALL, lr=[0.003, 0.01], **lists)
    runs = rows.drop_duplicates("run")[["algorithm", "cluster.workers"]]
    assert list(runs.itertuples(index=False, name=None)) == list(product(*lists.values()))
    one = rows.query("algorithm == 'ef21' and `cluster.workers` == 5")
    assert same(one, train(*SMALL, "algorithm=ef21", "lr=[0.003,0.01]", "cluster.workers=5"))


def test_finished_runs_are_loaded_by_study_and_name(place: Path) -> None:
    rows = compare(*SMALL, algorithm=["cd_adam", "ef21"], study="mine", results_dir="results")
    train(*SMALL, seed=2, results_dir="results")
    assert len(load()["run"].unique()) == 3
    assert same(load("results", study="mine"), rows)
    one = rows.query("algorithm == 'ef21'")
    assert same(load(place / "results", algorithm="ef21", seed=[0]), one)
    with pytest.raises(UsageError, match=r"algorithm=ef12: no run has it; did you mean ef21\?"):
        load(algorithm="ef12")
    with pytest.raises(UsageError, match="results_dir=elsewhere: no such folder"):
        load("elsewhere")
    for status in (place / "results").rglob("status.json"):
        status.write_text('{"status": "failed"}')
    with pytest.raises(UsageError, match="no such finished run"):
        load()


def test_settings_in_which_runs_differ_are_columns_and_best_is_that_of_reports() -> None:
    lists = {"algorithm": ["cd_adam", "ef21"], "cluster.workers": [4, 5]}
    made = compare(*SMALL, lr=[0.003, 0.1], results_dir="results", **lists)
    rows = load()
    assert rows.settings == ["cluster.workers"]
    assert rows.drop_duplicates("run").set_index("run")["cluster.workers"].sort_index().equals(
        made.drop_duplicates("run").set_index("run")["cluster.workers"].sort_index()
    )  # fmt: skip
    chosen = {(one.algorithm, one.settings): one.lr for one in best(find(Path("results")))}
    table = rows.best()
    found = {
        (name, f"cluster.workers={workers}"): lr
        for name, workers, lr in table[["algorithm", "cluster.workers", "lr"]].itertuples(index=False)
    }
    assert found == chosen


@pytest.mark.slow
def test_reading_needs_no_torch(place: Path) -> None:
    train(*SMALL, results_dir="results")
    code = "import sys; from experiments import load; print(load().best()['lr'][0], 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)},
                          capture_output=True, text=True, check=True)  # fmt: skip
    assert done.stdout.split() == ["0.001", "False"]


def test_what_is_wrong_is_said_before_anything_is_started(place: Path) -> None:
    for settings, message in (
        ({"sede": 3}, "did you mean seed?"),
        ({"lr": -1.0}, "lr=-1.0: must be greater than 0"),
        ({"seed": [0, -1]}, "seed=-1: must be greater than or equal to 0"),
        ({"compressor": None}, "compressor=null: no such choice"),
        ({"study": 'a "quoted" é'}, "study="),
        *(({key: 2}, f"{key}=2: applies only to commands") for key in ("jobs", "ranks")),
    ):
        with pytest.raises(UsageError) as wrong:
            compare(*SMALL, results_dir="results", **settings)
        assert message in str(wrong.value)
    assert {"jobs", "ranks"} <= set(LAUNCH)
    assert list(place.iterdir()) == []


@pytest.mark.slow
def test_importing_the_package_is_cheap_and_it_works_from_any_folder(place: Path) -> None:
    code = f"""
import sys, experiments, experiments.__main__ as commands
print({{"torch", "pandas", "hydra"}} & set(sys.modules), dir(experiments) != [])
sys.argv = ["compressed-optimization", "run", *{SMALL!r}, "results_dir=mine"]
commands.main()
print(len(experiments.load("mine")))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    first, *_, last = done.stdout.splitlines()
    assert first == "set() True"
    assert last == "5"
    assert [path.name for path in place.iterdir()] == ["mine"]


def test_the_one_command_names_all(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from experiments import __main__ as commands

    monkeypatch.setattr(sys, "argv", ["compressed-optimization"])
    commands.main()
    said = capsys.readouterr().out
    for name, (module, _) in commands.COMMANDS.items():
        assert f"    {name} " in said
        assert (ROOT / f"{module.replace('.', '/')}.py").is_file()
    monkeypatch.setattr(sys, "argv", ["compressed-optimization", "reprot"])
    with pytest.raises(SystemExit, match="2"):
        commands.main()
    assert "reprot: no such command; did you mean report?" in capsys.readouterr().err
