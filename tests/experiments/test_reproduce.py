"""A tiny figure from its command to its files."""

import csv
from contextlib import suppress
from itertools import product
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure
from run_support import rows

from experiments import reproduce
from experiments.config.compose import compose

TINY = ("rounds=20", "eval_every=5", "cluster.workers=4", "lr=[0.001,0.01]")
FOLDER = "-".join(["demo", *TINY])  # a figure with other settings stands beside the one without
TASKS = ("logreg/breast_cancer",)
METHODS = ("amsgrad", "naive", "error_feedback", "cd_adam")
DEMO = (
    "figure=demo",
    f"figure.grid=[['task=logreg/breast_cancer'],{[f'algorithm={name}' for name in METHODS]}]",
)


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
    names = {"demo.pdf", "demo.png", "demo.csv", "demo.txt", "claims.csv", "report.md"}
    assert {file.name for file in figure.iterdir()} == names
    cells = [(f"logreg/{path.parts[-3]}", path.parts[-2]) for path in runs(results)]
    assert sorted(cells) == sorted(product(TASKS, METHODS))


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


def test_claims_are_judged_for_the_best_and_for_equal_step_sizes(results: Path) -> None:
    claims = pd.read_csv(results / "figures" / FOLDER / "claims.csv", dtype={"number": str, "step_size": str})
    judged = list(claims[["number", "task", "step_size"]].itertuples(index=False, name=None))
    assert sorted(judged) == sorted(product(("3", "4", "5", "10", "12a", "12b"), TASKS, ("best", "0.001", "0.01")))
    assert set(claims["verdict"]) <= {"holds", "fails", "not decidable"}
    ten = claims[claims["number"] == "10"]
    assert set(ten["verdict"]) == {"holds"}
    assert set(ten["measured"]) == {"d = 30: 62 bits, 12 bytes"}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ("figure=figure_3000", "figure=figure_3000: no such choice; did you mean figure_3"),
        ("rounds=20", "figure: which one? figure=bandwidth, batch_one, demo, "),
        ("figure=figure_3 budget=ful", "budget=ful: no such choice; did you mean full?"),
        ("figure=demo seed=0,1", "seed=0,1: a figure takes no sweeps"),
    ],
)
def test_refusals_before_anything_is_run(
    overrides: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    with pytest.raises(SystemExit) as stop:
        reproduce.main([*overrides.split(), f"results_dir={tmp_path / 'results'}"])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_finished_runs_are_not_run_again_and_drawn_with_the_display_of_today(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    drawn, before = [], {path: rows(path) for path in runs(results)}
    monkeypatch.setattr("plots.figure.curves.draw", lambda frame, *_, **__: drawn.append(frame) or Figure())
    reproduce.main([*DEMO, *TINY, f"results_dir={results}", "task.display.label=mine"])
    assert set(drawn[0]["task_label"]) == {"mine"}
    assert capsys.readouterr().err.count("already finished") == len(before)
    assert {path: rows(path) for path in runs(results)} == before


@pytest.mark.slow
def test_runs_in_processes_of_their_own_are_the_same(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.orchestration.job.cores", lambda: 2)
    reproduce.main([*DEMO, *TINY, f"results_dir={tmp_path}", "jobs=2"])
    assert len(list(tmp_path.glob("sweeps/demo/jobs/*.log"))) == 4
    apart, here = (pd.read_csv(place / "figures" / FOLDER / "demo.csv") for place in (tmp_path, results))
    clock = ["seconds", "modelled_seconds"]
    pd.testing.assert_frame_equal(apart.drop(columns=clock), here.drop(columns=clock))


@pytest.mark.slow
def test_a_dry_run_says_the_budget_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    reproduce.main([*DEMO, *TINY, f"results_dir={tmp_path / 'results'}", "dry_run=true"])
    said = capsys.readouterr()
    assert said.err.splitlines()[:2] == ["demo: 4 runs", "timing a round of logreg/breast_cancer with 4 workers"]
    assert "4 runs, 4 of them to do" in said.out
    assert not list(tmp_path.iterdir())


def test_what_goes_to_the_runs_is_quoted_for_hydra() -> None:
    values = ["lr=[0.1,0.3]", "data_dir='a b/it\\'s'", "results_dir=${data_dir}/x", 'study="x"', "+new=1"]
    [figure, dry, moved] = reproduce.move_overrides(["figure=demo", *values, "dry_run=true"])
    assert (figure, dry) == ("figure=demo", "dry_run=true")
    composed = compose([figure, moved], "reproduce")
    assert list(composed.overrides) == values


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(
            ["--help"],
            ["bandwidth, batch_one, demo, ", "budget=auto", "python -m experiments.run --help"],
            marks=pytest.mark.slow,
        ),
        (
            ["figure=demo", "rounds=7", "--cfg", "job"],
            ["title: The study of Figure 2 on", "- rounds=7", "jobs: null"],
        ),
    ],
    ids=["help", "cfg"],
)
def test_hydras_flags(arguments: list[str], said: list[str], capsys: pytest.CaptureFixture) -> None:
    with suppress(SystemExit):
        reproduce.main(arguments)
    shown = capsys.readouterr().out
    assert all(words in shown for words in said)


@pytest.mark.slow
def test_a_figure_of_images_with_two_seeds(tmp_path: Path) -> None:
    words = ["rounds=12", "eval_every=4", "task.model.width=2", "task.rows=160", "task.batch_size=10", "seeds=[0,1]"]
    reproduce.main(["figure=digits", *words, f"results_dir={tmp_path}"])
    figure = tmp_path / "figures" / "-".join(["digits", *words])
    table, claims = (pd.read_csv(figure / f"{name}.csv") for name in ("digits", "claims"))
    assert set(table["seed"]) == {0, 1}
    for _, curve in table.groupby(["algorithm", "lr", "seed"]):
        assert curve["round"].tolist() == [0, 1, 2, 4, 8, 12]
        assert curve["epoch"].tolist() == [0, 0.5, 1, 2, 4, 6]
        assert curve["test_accuracy"].between(0, 1).all()
    assert table.groupby(["algorithm", "lr", "seed"]).ngroups == 3 * 3 * 2
    last = table[table["round"] == 12].groupby("algorithm").first()
    d = int(last["d"].iloc[0])
    assert last.loc["cd_adam", "bits"] == 12 * 2 * (d + 32)
    assert last.loc["onebit_adam", "bits"] == 2 * (1 * 32 * d + 11 * (d + 32))  # ⌊0.13·12⌋ = 1 dense round
    assert last.loc["ef21_both_ways", "bits"] == 12 * 2 * 64 * int(0.016 * d)
    # In float32 the scale is 4 bytes, and d bits are padded to whole bytes.
    assert last.loc["cd_adam", "payload_bytes"] == 12 * 2 * (-(-d // 8) + 4)
    assert claims["number"].astype(str).tolist() == ["6a", "6b", "7", "8", "9"]
    assert "seeds 0, 1" in (figure / "report.md").read_text()
