"""What is said before anything is run."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console
from run_support import SMALL, configuration, contents, go, rows
from run_support import run_command as command

from algorithms.utils.layout import of_vectors
from common.errors import Unavailable, UsageError
from experiments.config.schema import LaunchConfig, RunConfig
from experiments.planning import cost as plan
from experiments.planning import estimate
from experiments.planning.estimate import Trial

TRIAL = Trial(d=30, layout=of_vectors([30]), dtype=torch.float64, round=1.0, evaluation=60.0)
"""Rounds of a second and evaluations of a minute, of a task of 30 coordinates."""


def said(runs: list[RunConfig], width: int = 200, **launching: int) -> list[str]:
    """The lines that are printed at a terminal of so many columns that shows no colours and no animations."""
    file = io.StringIO()
    plain = Console(
        file=file, width=width, height=50, force_terminal=True, color_system=None, _environ={"TERM": "dumb"}
    )
    plan.show(runs, LaunchConfig(**launching), plain)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def table(lines: list[str]) -> list[dict[str, str]]:
    """The rows by their columns, which two spaces or more tell apart."""
    cells = [line.split("  ") for line in lines if "  " in line]
    cells = [[cell.strip() for cell in row if cell] for row in cells]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[1:]]


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[RunConfig]:
    """What is tried, in no time."""
    asked: list[RunConfig] = []
    monkeypatch.setattr(plan, "trial", lambda run, ranks, say: (asked.append(run), TRIAL)[1])
    return asked


def test_bits_are_those_that_a_run_will_record(results: str) -> None:
    """With d = 30 a message has 32 + d bits by the sign, and 32d where it is dense."""
    methods = ("cd_adam", "onebit_adam", "amsgrad")
    configs = [configuration(*SMALL, results, f"algorithm={name}") for name in methods]
    lines = said(configs)
    for config, planned in zip(configs, table(lines), strict=True):
        last = rows(go(*SMALL, results, f"algorithm={config.algorithm.name}"))[-1]
        assert (planned["bits up"], planned["bits down"]) == (str(last["bits_up"]), str(last["bits_down"]))
    assert table(lines)[0]["bits up"] == str(20 * (32 + 30))
    up = 20 * 62 + (2 * 960 + 18 * 62) + 20 * 960  # the second has a warm-up of 2 rounds
    assert f"bits of one worker: {up} up, {up} down, {2 * up / 1000:.4g} kbit in all" in lines


@pytest.mark.parametrize(("partition", "blocks"), [("whole", 1), ("layer", 2)])
def test_bits_of_a_long_run(partition: str, blocks: int, results: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "trial", lambda *about: replace(TRIAL, layout=of_vectors([10, 20])))
    [row] = table(said([configuration(*SMALL, results, "rounds=50000", f"partition={partition}")]))
    assert row["bits up"] == str(50000 * (30 + 32 * blocks))


def test_nothing_is_written(results: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    command([*SMALL, results, "dry_run=true"])
    assert "1 runs, 1 of them to do" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_finished_runs_cost_what_they_did_and_are_not_tried(results: str, tried: list[RunConfig]) -> None:
    path = go(*SMALL, results)
    before = contents(path)
    lines = said([configuration(*SMALL, results)])
    assert not tried
    assert contents(path) == before
    [row] = table(lines)
    assert (row["state"], row["time"], row["bits up"]) == ("finished", "–", str(rows(path)[-1]["bits_up"]))
    assert "time: none" in lines


def test_what_is_left_of_an_interrupted_run(interrupted: Path, results: str, tried: list[RunConfig]) -> None:
    """20 rounds and 5 evaluations take 320 s, of which 8 rounds are left."""
    lines = said([configuration(*SMALL, results)])
    assert (table(lines)[0]["state"], table(lines)[0]["time"]) == ("at round 12", "2 min")
    assert "time: about 2 min one after the other" in lines


def test_one_trial_serves_a_task(results: str, tried: list[RunConfig]) -> None:
    """4 × 320 s, and on two at once no less than half of it."""
    configs = [configuration(*SMALL, results, "task.batch_size=3", f"seed={seed}", f"algorithm={name}")
               for seed in (0, 1) for name in ("cd_adam", "ef21")]  # fmt: skip
    assert "time: about 21 min one after the other, 11 min at best with jobs=2" in said(configs, jobs=2)
    assert "time: about 21 min one after the other, 5 min at best with jobs=50" in said(configs, jobs=50)
    assert len(tried) == 2  # one a plan


@pytest.mark.parametrize(("ranks", "workers", "memory"), [(1, 20, "428.2 kB"), (4, 5, "260.8 kB")])
def test_memory_is_that_of_one_process(
    ranks: int, workers: int, memory: str, results: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four vectors a worker and fourteen besides, of 30 numbers of 8 bytes; only these workers are tried.

    The data are 560 rows of 30 numbers with 12 bytes each, and again by columns those of these workers, each of whose
    columns takes 4 more.
    """
    built = []
    build = estimate.build_trainer
    monkeypatch.setattr(estimate, "build_trainer", lambda *about: (built.append(build(*about)), built[-1])[1])
    [row] = table(said([configuration(*SMALL, results)], ranks=ranks))
    assert row["memory"] == memory
    assert len(built[-1].cluster.ids) == workers


def test_missing_data_leave_question_marks(results: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def trial(run: RunConfig, *about: object) -> Trial:
        if run.task.name == "logreg/a9a":
            raise Unavailable("could not download a9a: no network\nat all")
        return TRIAL

    monkeypatch.setattr(plan, "trial", trial)
    tasks = ("logreg/a9a", "logreg/a9a", "logreg/breast_cancer")
    configs = [configuration(*SMALL, results, f"task={task}", f"seed={k}") for k, task in enumerate(tasks)]
    lines = said(configs)
    assert [row["bits up"] for row in table(lines)] == ["?", "?", "1240"]
    assert lines.count("? logreg/a9a: could not download a9a: no network") == 1
    assert "3 runs, 3 of them to do" in lines
    assert any("5 min" in line and "without those marked ?" in line for line in lines)


def test_a_damaged_run_is_said_to_be(results: str, tried: list[RunConfig]) -> None:
    (go(*SMALL, results) / "summary.json").write_text("{}")
    [row] = table(said([configuration(*SMALL, results)]))
    assert (row["state"], row["bits up"]) == ("damaged", "?")


def test_ranks_of_a_launch_are_checked_and_one_prints(results: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = {"WORLD_SIZE": "3", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "3", "MASTER_ADDR": "", "MASTER_PORT": "1"}
    for name, value in {**place, "RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match="too few for 3 ranks"):
        said([configuration(*SMALL, results, "cluster.workers=2")])
    assert said([configuration(*SMALL, results, "cluster.workers=4")]) == []


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["cluster.workers=1000"], "the data set has 569 rows"),
        (["compressor=top_k", "compressor.k=31"], "k=31"),
    ],
    ids=["workers", "coordinates"],
)
def test_settings_that_do_not_fit_the_data_are_no_missing_data(overrides, message, results: str) -> None:
    with pytest.raises(UsageError, match=message):
        said([configuration(*SMALL, results), configuration(*SMALL, results, *overrides)])


def test_columns_are_the_settings_that_differ(results: str, tried: list[RunConfig]) -> None:
    configs = [configuration(*SMALL, results, f"algorithm={name}", "compressor=top_k", f"compressor.k={k}")
               for name in ("cd_adam", "ef21") for k in (1, 2)]  # fmt: skip
    lines = said(configs)
    assert lines[0] == "all runs: task logreg/breast_cancer, n 20, seed 0, lr 0.001, rounds 20"
    costs = ["state", "bits up", "bits down", "both", "memory", "time"]
    assert list(table(lines)[0]) == ["algorithm", "settings", *costs]
    compressors = [configuration(*SMALL, results, f"compressor={name}") for name in ("scaled_sign", "top_k")]
    assert [row["settings"] for row in table(said(compressors))] == ["compressor=ScaledSign", "compressor=TopK"]
    several = [configuration(*SMALL, results, f"cluster.workers={n}", f"update.beta1=0.{n}") for n in (4, 5)]
    found = table(said(several))
    assert list(found[0]) == ["settings", *costs]
    assert [row["settings"] for row in found] == [f"cluster.workers={n}, update.beta1=0.{n}" for n in (4, 5)]


def test_a_large_figure_fits_a_terminal(results: str, monkeypatch: pytest.MonkeyPatch) -> None:
    resnet = Trial(d=11_173_962, layout=of_vectors([11_173_962]), dtype=torch.float32, round=35.0, evaluation=400.0)
    monkeypatch.setattr(plan, "trial", lambda *about: resnet)
    configs = [
        configuration("task=cifar10/resnet18", results, f"algorithm={name}") for name in ("cd_adam", "amsgrad")
    ]
    cells = [line for line in said(configs, width=100) if "to do  " in line]
    assert len(cells) == len(configs)
    assert f" {32 * 11_173_962 * configs[0].rounds} " in cells[1]


@pytest.mark.parametrize(
    ("bits", "words"), [(0, "0 bit"), (999, "999 bit"), (1000, "1 kbit"), (1234567, "1.235 Mbit"), (10**9, "1 Gbit")]
)
def test_bits_in_words(bits: int, words: str) -> None:
    assert plan.readable(bits) == words
