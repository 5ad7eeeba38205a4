"""A tiny figure from its command to its files; step sizes chosen on a seed that is judged nowhere."""

import csv
import io
import os
import subprocess
import sys
from operator import itemgetter
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure
from rich.console import Console
from run_support import rows

from common.errors import UsageError
from experiments import reproduce
from experiments.config.compose import ROOT, compose, resolve
from experiments.figures import committed, held_out
from experiments.figures.configuration import read_figure, reproduction_of
from experiments.figures.runs import runs_of
from plots.runs.best import level

TINY = ("rounds=20", "eval_every=5", "cluster.workers=4", "lr=[0.001,0.01]")
FOLDER = "-".join(["demo", *TINY])  # a figure with other settings stands beside the one without
METHODS = ("amsgrad", "naive", "error_feedback", "cd_adam")
DEMO = ("figure=demo", f"figure.grid=[['task=logreg/breast_cancer'],{[f'algorithm={name}' for name in METHODS]}]")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the figure `demo` has been reproduced with TINY."""
    place = tmp_path_factory.mktemp("results")
    reproduce.main([*DEMO, *TINY, f"results_dir={place}", "jobs=1"])
    return place


def runs(results: Path) -> list[Path]:
    """The folders of all runs."""
    return sorted(status.parent for status in results.rglob("status.json"))


def test_files_of_the_figure_and_of_every_cell(results: Path) -> None:
    figure = results / "figures" / FOLDER
    names = {"demo.pdf", "demo.png", "demo.csv", "claims.csv", "report.md"}
    assert {file.name for file in figure.iterdir()} == names
    assert sorted(path.parts[-2] for path in runs(results)) == sorted(METHODS)
    listed = (results / "sweeps" / "demo" / "cells.txt").read_text().split()
    assert sorted(listed) == sorted(path.name for path in runs(results))


def test_the_csv_has_every_row_of_every_run(results: Path) -> None:
    with (results / "figures" / FOLDER / "demo.csv").open() as file:
        table = list(csv.DictReader(file))
    assert len(table) == len(runs(results)) * 5 * 2
    for path in runs(results):
        written = [line for line in table if line["run"] == path.name]
        assert {line["task"] for line in written} == {f"logreg/{path.parts[-3]}"}
        assert {line["algorithm"] for line in written} == {path.parts[-2]}
        assert len({line["lr"] for line in written if line["best"] == "True"}) == 1
        for row, line in zip(rows(path), written, strict=True):
            assert {name: float(line[name]) for name in row} == row


def test_a_rank_starts_no_process_for_jobs(monkeypatch, capsys):
    def enough(*arguments: object) -> None:
        raise UsageError("composed")

    monkeypatch.setattr("experiments.reproduce.runs_of", enough)
    started: list[str] = []
    monkeypatch.setattr("experiments.reproduce.start_server", lambda: started.append("server"))
    for ranks in ({}, {"RANK": "0", "WORLD_SIZE": "2"}, {"SLURM_STEP_NUM_TASKS": "2"}):
        for name, value in ranks.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit, match=r"^2$"):
            reproduce.main(["figure=demo"])
        for name in ranks:
            monkeypatch.delenv(name)
    assert started == ["server"]
    assert capsys.readouterr().err == "error: composed\n" * 3


@pytest.mark.parametrize("words", ["figure.rows=[{x: bits, y: lost}]", "+figure.select=lost"])
def test_a_column_that_no_run_measured_is_named(words, results, capsys):
    with pytest.raises(SystemExit, match=r"^2$"):
        reproduce.main([*DEMO, *TINY, words, f"results_dir={results}", "jobs=1", "figure.name=lost"])
    assert "error: figure=lost: lost: no run measured it; Valid: train_loss, grad_norm, " in capsys.readouterr().err
    assert not (results / "figures" / f"lost-{'-'.join(TINY)}").exists()


@pytest.mark.slow
def test_finished_runs_are_drawn_with_the_display_of_today(results, monkeypatch):
    drawn = []
    monkeypatch.setattr("plots.figure.curves.draw", lambda frame, *_, **__: drawn.append(frame) or Figure())
    reproduce.main([*DEMO, *TINY, f"results_dir={results}", f"task.display.label={'mine' * 60}"])
    assert set(drawn[0]["task_label"]) == {"mine" * 60}


def test_what_goes_to_the_runs_is_quoted_for_hydra() -> None:
    values = ["lr=[0.1,0.3]", "data_dir='a b/it\\'s'", "results_dir=${data_dir}/x", 'study="x"', "+new=1"]
    [figure, dry, moved] = reproduce.move_overrides(["figure=demo", *values, "dry_run=true"])
    assert (figure, dry) == ("figure=demo", "dry_run=true")
    composed = compose([figure, moved], "reproduction")
    assert list(composed.overrides) == values


PUBLISHED = {"amsgrad": 0.003, "cd_adam": 0.001}  # the first of them beyond the grid
GRID = [0.001, 0.01, 0.1]
STUDY = [
    "figure=demo",
    'figure.grid=[["task=logreg/breast_cancer"],["algorithm=amsgrad","algorithm=cd_adam"]]',
    'figure.claims=[{number: 3, statement: As low, check: reaches_level, subject: cd_adam, reference: amsgrad, '
    'within: 2.0}]',
    "+figure.held_out=9",
    "+figure.trial_share=0.5",
    '+figure.trial_overrides=["eval_every=5"]',
    "+figure.published={amsgrad: 0.003, cd_adam: 0.001}",
    "figure.name=tuned",
    *("lr=[0.001,0.01,0.1]", "rounds=20", "eval_every=2", "task.batch_size=4", "cluster.workers=4", "seeds=[0,4]"),
]  # fmt: skip


@pytest.mark.slow
def test_nothing_is_judged_or_drawn_on_the_seed_that_is_held_out(tmp_path, monkeypatch):
    """The best step size is the one that ends lowest on that seed."""
    monkeypatch.setattr("plots.figure.curves.draw", lambda *_, **__: Figure())
    reproduce.main([*STUDY, f"results_dir={tmp_path}", "jobs=1"])
    [written] = (tmp_path / "figures").iterdir()
    table, best = pd.read_csv(written / "tuned.csv"), {}
    for name in PUBLISHED:
        tried = table[(table["algorithm"] == name) & (table["seed"] == 9)]
        best[name] = min(GRID, key=lambda lr, tried=tried: level(tried[tried["lr"] == lr]))
    assert table[table["best"]].groupby("algorithm")["lr"].agg(set).to_dict() == {name: {best[name]} for name in best}
    assert set(table.loc[table["drawn"], "seed"]) == {0, 4}
    assert set(table.loc[table["drawn"], "lr"]) == {*PUBLISHED.values(), *best.values()}
    claims = pd.read_csv(written / "claims.csv").set_index("step_size")
    for protocol, chosen in (("paper's", PUBLISHED), ("best", best)):
        ends = {
            (name, seed): level(table[(table["algorithm"] == name) & (table["seed"] == seed) & (table["lr"] == lr)])
            for name, lr in chosen.items()
            for seed in (0, 4)
        }
        low, high = sorted(ends["cd_adam", seed] / ends["amsgrad", seed] for seed in (0, 4))
        assert f"({low:.2g}× to {high:.2g}×, 2 seeds)" in claims.loc[protocol, "measured"]
    text = (written / "report.md").read_text()
    assert "The paper's step sizes: AMSGrad 0.003, CD-Adam 0.001." in text
    assert "on seed 9 and 50% of the rounds alone, which is judged nowhere:" in text
    assert "seeds 0, 4." in text


def test_the_runs_of_both_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 2 methods 3 trials each on seed 9, then on 2 seeds the published and the best step size."""
    asked = reproduction_of(resolve(compose(reproduce.move_overrides(STUDY), "reproduction")))
    best = {("logreg/breast_cancer", "amsgrad"): 0.1, ("logreg/breast_cancer", "cd_adam"): 0.001}
    monkeypatch.setattr(held_out, "best_step_sizes", lambda *_: best)
    both, known = held_out.both_steps(read_figure(asked, itemgetter(0)), asked.overrides, ())
    found = sorted((run.algorithm.name, run.seed, *run.lr, run.rounds, run.eval_every) for run in runs_of(both, ()))
    tried = [(name, 9, lr, 10, 5) for name in PUBLISHED for lr in GRID]
    judged = {(name, seed, lr, 20, 2) for name in PUBLISHED for seed in (0, 4)
              for lr in (PUBLISHED[name], best["logreg/breast_cancer", name])}  # fmt: skip
    assert known
    assert found == sorted([*tried, *judged])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["figure=figure_3000"], "figure=figure_3000: no such choice; did you mean figure_3"),
        (["rounds=20"], "figure: which one? figure=bandwidth, batch_one, demo, "),
        (["figurre=figure_2"], "figurre: no such key; did you mean figure? Valid here: figure, "),
        (["seed=1"], "figure: which one?"),
        (["figure=figure_3", "budget=ful"], "budget=ful: no such choice; did you mean full?"),
        (["figure=demo", "seed=0,1"], "seed=0,1: a figure takes no sweeps"),
        (["figure=demo", "-m"], "--multirun: a figure takes no sweeps; leave it out"),
        (["figure=demo", "select=final_grad_norm"], "select=final_grad_norm: is for sweeps; "),
        (
            [*STUDY[:-1], "seeds=[0,9]"],
            "seeds=[0, 9]: figure=tuned chooses step sizes on seed 9, so nothing is judged",
        ),
        (
            [*STUDY, "seed=3"],
            "seed=3: this figure chooses step sizes on a seed of its own; set the others by seeds=[0",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_refusals_before_anything_is_run(words, message, tmp_path, capsys):
    with pytest.raises(SystemExit, match=r"^2$"):
        reproduce.main([*words, f"results_dir={tmp_path / 'results'}"])
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


STEEP = [  # 1e308 overflows at once with SGD, in the trials and in the runs that are judged
    "figure=demo",
    'figure.grid=[["task=logreg/breast_cancer"],["algorithm=sgd","algorithm=cd_adam"]]',
    "figure.claims=[{number: 3, statement: Low, check: reaches_level, subject: cd_adam, reference: sgd, within: 2}]",
    *("+figure.held_out=9", "+figure.published={sgd: 1e308, cd_adam: 0.001}", "figure.name=steep"),
    *("lr=[0.01,1e308]", "rounds=20", "eval_every=2", "task.batch_size=4", "cluster.workers=4", "seeds=[0,4]"),
]


@pytest.mark.slow
def test_a_step_size_that_diverges_is_never_the_best_and_is_drawn_as_far_as_it_came(tmp_path: Path) -> None:
    reproduce.main([*STEEP, f"results_dir={tmp_path}", "jobs=1"])
    [written] = (tmp_path / "figures").iterdir()
    claims = pd.read_csv(written / "claims.csv").set_index("step_size")
    assert claims.loc["paper's", "verdict"] == "not decidable"
    assert claims.loc["paper's", "measured"] == "sgd ends at round 0 of 20 (2 seeds alike)"
    assert "×" in claims.loc["best", "measured"]
    report = (written / "report.md").read_text()
    assert "Diverged: SGD on breast cancer, paper's step sizes after round 0." in report
    table = pd.read_csv(written / "steep.csv")
    assert table.loc[(table["algorithm"] == "sgd") & table["best"], "lr"].unique().tolist() == [0.01]
    assert table.loc[table["lr"] == 1e308, "round"].max() == 0


def beside(name: str, budget: str, target: Path) -> tuple[str, str]:
    """The report, which so far says what was trained here, and what is printed."""
    figure = committed.figure_of(name, budget).replace(name=name)
    (target / "report.md").write_text(f"# {figure.title}\n\nOurs\n")
    printed = io.StringIO()
    committed.report_committed(figure, target, Console(file=printed, width=200))
    return (target / "report.md").read_text(), printed.getvalue()


@pytest.mark.slow
def test_committed_runs_come_first_and_the_full_setting_is_named(tmp_path: Path) -> None:
    report, printed = beside("figure_3_wrn16_4", "quick", tmp_path)
    assert report.index("## Committed runs") < report.index("- 13 (6a)") < report.index("## Trained here")
    assert report.endswith("Ours\n")
    assert printed.index("Committed runs: medium budget") < printed.index("13 (6a)") < printed.index("Trained here: ")
    for text in (report, printed):
        assert "budget=full, which needs a GPU such as an H100" in text
    assert (tmp_path / "committed" / "figure_3_wrn16_4.png").exists()


@pytest.mark.parametrize(("name", "budget"), [("figure_3", "medium"), ("figure_2", "auto"), ("regime", "quick")])
def test_nothing_is_beside_what_has_no_larger_committed_runs(name: str, budget: str, tmp_path: Path) -> None:
    assert beside(name, budget, tmp_path)[1] == ""
    assert not (tmp_path / "committed").exists()


# Python runs this file at its start: these packages cannot be imported, as if they were not installed.
WITHOUT = """
import sys

MISSING = [
    "plotly", "wandb", "wandb_workspaces", "tensorboard", "playwright", "submitit", "optuna", "ray", "sphinx",
    "furo", "myst_parser", "pyright", "pip_audit", "uv", "hypothesis", "pooch", "platformdirs",
    *(f"hydra_plugins.hydra_{name}" for name in ("joblib_launcher", "optuna_sweeper", "submitit_launcher")),
]
sys.modules.update(dict.fromkeys(MISSING))
"""

FEW = (
    "task=digits", "task.model.width=2", "task.precision=float32", "task.evaluation_rows=64", "task.rows=512",
    "cluster.workers=2", "device=cpu", "threads=1", "epochs=2", "eval_every=6",
)  # fmt: skip


@pytest.mark.slow
def test_a_figure_where_little_is_installed(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT)
    known = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "experiments.reproduce", "figure=digits", *FEW]
    done = subprocess.run(words, cwd=tmp_path, env=known, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    [report] = tmp_path.glob("results/figures/*/report.md")
    assert "digits.png" in report.read_text()
    assert (report.parent / "claims.csv").is_file()
