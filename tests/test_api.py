"""The library as scripts and notebooks use it, in a folder of their own, and its wheel."""

import os
import subprocess
import sys
import zipfile
from itertools import product
from pathlib import Path

import pandas as pd
import pytest
from docs_support import ROOT

from common.errors import UsageError
from experiments import compare, load, train
from experiments.config.run import LAUNCH

SMALL = ("task=logreg/breast_cancer", "rounds=20", "eval_every=5")
COMPARED = {"algorithm": ["cd_adam", "ef21"], "cluster.workers": [4, 5]}
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
    found = list(rows[["round", "lr"]].itertuples(index=False, name=None))
    assert found == list(product((0, 5, 10, 15, 20), (0.003, 0.01)))
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


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame]:
    """A folder with a study of four runs, whose rows these are, and another run."""
    folder = tmp_path_factory.mktemp("compared")
    rows = compare(*SMALL, lr=[0.003, 0.1], study="mine", results_dir=folder, **COMPARED)
    train(*SMALL, seed=2, results_dir=folder)
    return folder, rows


def test_a_comparison_is_every_combination_and_what_was_compared_a_column(compared) -> None:
    _, rows = compared
    runs = rows.drop_duplicates("run")[["algorithm", "cluster.workers"]]
    assert list(runs.itertuples(index=False, name=None)) == list(product(*COMPARED.values()))
    one = rows.query("algorithm == 'ef21' and `cluster.workers` == 5")
    assert same(one, train(*SMALL, "algorithm=ef21", "lr=[0.003,0.1]", "cluster.workers=5"))


def test_finished_runs_are_loaded_by_study_and_name(compared, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, rows = compared
    assert len(load(folder)["run"].unique()) == 5
    assert same(load(folder, study="mine"), rows)
    assert same(load(folder, algorithm="ef21", seed=[0]), rows.query("algorithm == 'ef21'"))
    assert len(load(folder, algorithm="cd_adam", seed=[0, 2])["run"].unique()) == 3
    with pytest.raises(UsageError, match=r"algorithm=ef12: no run has it; did you mean ef21\?"):
        load(folder, algorithm="ef12")
    with pytest.raises(UsageError, match="results_dir=elsewhere: no such folder"):
        load("elsewhere")
    (place / "results").mkdir()
    with pytest.raises(UsageError, match=r"seed=\[\]: an empty list"):
        load(seed=[])
    with pytest.raises(UsageError, match="no such finished run"):
        load()


def test_what_is_wrong_is_said_before_anything_is_started(place: Path) -> None:
    for settings, message in (
        ({"sede": 3}, "did you mean seed?"),
        ({"lr": -1.0}, "lr=-1.0: must be greater than 0"),
        ({"seed": [0, -1]}, "seed=-1: must be greater than or equal to 0"),
        ({"compressor": None}, "compressor=null: no such choice"),
        ({"study": 'a "quoted" é'}, "study="),
        ({"algorithm": [], "seed": [0, 1]}, "algorithm=[]: an empty list, so there is no run"),
        ({"threads": [1, 2]}, "threads: two of the values give the same run; give one of them"),
        ({"results_dir": ["one", "other"]}, "results_dir: two of the values give the same run"),
        *(({key: 2}, f"{key}=2: applies only to commands") for key in ("jobs", "ranks")),
    ):
        with pytest.raises(UsageError) as wrong:
            compare(*SMALL, **{"results_dir": "results", **settings})
        assert message in str(wrong.value)
    assert {"jobs", "ranks"} <= set(LAUNCH)
    assert list(place.iterdir()) == []


@pytest.mark.slow
def test_importing_the_package_is_cheap_and_it_works_beside_files_of_any_name(place: Path) -> None:
    """The console command, its job and its ranks find our modules, and a user's package in the current folder."""
    (place / "mine").mkdir()
    (place / "mine" / "command.py").write_text("from algorithms.harness import main; main()")
    (place / "mine" / "__init__.py").write_text("from algorithms.compressors import ScaledSign")
    for name in ("common", "experiments"):
        (place / f"{name}.py").write_text("raise RuntimeError('a file of the user')")
    code = "import sys, experiments.__main__; print({'torch', 'pandas', 'hydra'} & set(sys.modules), "
    code += "dir(experiments) != [])"
    words = ["run", *SMALL, "packages=[mine]", "compressor._target_=mine.ScaledSign", "ranks=2", "results_dir=mine"]
    reading = "import sys; from experiments import load; print(len(load('mine').best()), 'torch' in sys.modules)"
    known = {**os.environ, "PYTHONPATH": str(ROOT)}
    first, _, last = (
        subprocess.run([sys.executable, *part], env=known, capture_output=True, text=True, check=True).stdout
        for part in (["-Pc", code], ["mine/command.py", *words], ["-Pc", reading])
    )
    assert (first, last) == ("set() True\n", "1 False\n")
    assert {path.name for path in place.iterdir() if path.suffix != ".py"} == {"mine"}


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


SCRIPT = """
import torch
from compressed_optimizers import CompressedOptimizer, compressed
from compressed_optimizers.registry import names

param = torch.nn.Parameter(torch.ones(4))
optimizer = CompressedOptimizer([param], "onebit_adam", lr=0.1, rounds=4, warmup=2)
for _ in range(4):
    param.square().sum().backward()
    optimizer.step()
print(optimizer.meter.bits, callable(compressed), len(names()))
"""


@pytest.mark.slow  # builds a wheel
def test_a_wheel_works_beside_files_of_any_name(tmp_path: Path) -> None:
    source = tmp_path / "source"
    files = ("pyproject.toml", "README.md", "LICENSE", "algorithms", "conf")
    source.mkdir()
    subprocess.run(["cp", "-r", *files, source], check=True, cwd=ROOT)
    build = ["-m", "pip", "wheel", ".", "--no-deps", "--no-build-isolation", "--no-index", "-q", "-w", str(tmp_path)]
    subprocess.run([sys.executable, *build], check=True, cwd=source)
    [wheel] = tmp_path.glob("compressed_optimizers-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        packed.extractall(tmp_path / "installed")
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"compressed_optimizers"}
    user = tmp_path / "user"
    user.mkdir()
    for name in ("common", "data", "algorithms", "conf", "experiments"):
        (user / f"{name}.py").write_text("raise RuntimeError('a file of the user')")
    (user / "script.py").write_text(SCRIPT)
    environment = {"PYTHONPATH": str(tmp_path / "installed"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=user, env=environment, capture_output=True, text=True, check=False
    )
    expected = len(list((ROOT / "conf" / "algorithm").glob("*.yaml")))
    # 2 · 32 · 4 bits in each of two dense rounds, 2 · (4 + 32) in each of two with signs
    assert (done.stdout.split(), done.stderr) == ([str(2 * 256 + 2 * 72), "True", str(expected)], "")
