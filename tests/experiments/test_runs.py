"""What a run leaves behind, and what it is that a run leaves the same."""

from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from run_support import (
    RANDOM,
    SMALL,
    configuration,
    contents,
    go,
    record,
    rows,
    status,
    stored_config,
    timeless,
    where,
)  # fmt: skip

from experiments.cluster.ranks import Ranks
from experiments.config.compose import CONF
from experiments.config.run import read
from experiments.tasks.logreg import LogisticRegression
from experiments.training.build import build_trainer

COLUMNS = {"round", "epoch", "trial", "lr", "step_size", "bits_up", "bits_down", "bits", "payload_bytes", "seconds"}
COLUMNS |= {"train_loss", "grad_norm", "train_accuracy"}
ERRORS = {"mean_norm", "aggregate_error", "signal_error"}

FAST = {"ef21", "local_adamw", "powersgd"}
ALGORITHMS = [
    pytest.param(name, marks=() if name in FAST else pytest.mark.slow)
    for name in sorted(path.stem for path in (CONF / "algorithm").glob("*.yaml"))
]
STEPS = {
    "sgd": 0.3,
    "local_sgd": 0.3,
    "dasha": 0.05,
    "dasha_mvr": 0.05,
    "lamb": 0.03,
    "onebit_lamb": 0.03,
    "muon": 0.2,
    "powersgd": 0.05,
} | dict.fromkeys(
    ("ef21", "ef21_both_ways", "ef21_bc", "ef21_p", "ef21_sgdm", "econtrol", "diana", "marina", "doublesqueeze"), 0.1
)


def test_what_a_finished_run_leaves(results: str) -> None:
    command = [*SMALL, results, "lr=[0.001,0.003]"]
    path = go(*command)
    names = {f"{name}.json" for name in ("status", "environment", "code", "summary")}
    names |= {"config.yaml", "metrics.jsonl"}
    names |= {"checkpoint/20/shared.pt", *(f"checkpoint/20/worker-{i}.pt" for i in range(20))}
    assert set(contents(path)) == names
    assert status(path)["status"] == "finished"
    assert read(stored_config(path), []) == configuration(*command)
    code = record(path, "code")
    assert code.keys() == {"commit", "uncommitted_changes", "modules"}
    assert {"algorithms.core.channels", "data.embedded", "experiments.training.trainer"} <= code["modules"].keys()
    environment = record(path, "environment")
    assert environment["packages"]["torch"] == version("torch")
    assert (environment["data"], environment["d"], environment["rows"]) == ("breast_cancer", 30, 569)
    assert (environment["rows_per_worker"], environment["rows_left_out"]) == (28, 9)
    assert {"commit", "python", "system", "processor", "cores", "threads", "gpus"} <= set(environment)


def test_columns_of_the_metrics(results: str) -> None:
    first, *later = rows(go(*SMALL, results))
    # The errors of a round's compressed gradient, and v̂, are there once a round has been done.
    assert set(first) == COLUMNS
    assert {frozenset(row) for row in later} == {frozenset(COLUMNS | ERRORS | {"second_moment"})}
    assert set(rows(go(*SMALL, results, "algorithm=sgd"))[1]) == COLUMNS | ERRORS
    assert first["train_loss"] == pytest.approx(0.6931471805599453, rel=1e-15)
    assert {first[name] for name in ("bits_up", "bits_down", "bits", "payload_bytes", "seconds", "epoch")} == {0}
    seconds = [row["seconds"] for row in (first, *later)]
    assert seconds == sorted(set(seconds))


@pytest.mark.parametrize(
    ("rounds", "eval_every", "expected"),
    [(11, 4, [0, 4, 8, 11]), (3, 10, [0, 3])],
)
def test_rows_at_the_start_then_regularly_and_at_the_end(
    rounds: int, eval_every: int, expected: list[int], results: str
) -> None:
    path = go(*SMALL, results, "lr=[0.001,0.003]", f"rounds={rounds}", f"eval_every={eval_every}")
    assert [(row["round"], row["trial"], row["lr"]) for row in rows(path)] == [
        (r, trial, lr) for r in expected for trial, lr in enumerate([0.001, 0.003])
    ]


@pytest.mark.parametrize(
    ("overrides", "up", "down"),
    [
        (["algorithm=cd_adam"], 30 + 32, 30 + 32),
        (["algorithm=naive"], 30 + 32, 30 + 32),
        (["algorithm=error_feedback", "algorithm.uplink_only=true"], 30 + 32, 32 * 30),
        (["algorithm=amsgrad"], 32 * 30, 32 * 30),
        (["algorithm=cd_adam", "compressor=top_k", "compressor.k=7"], 64 * 7, 64 * 7),
        (["algorithm=ef21_both_ways"], 64, 64),  # ⌊0.016 · 30⌋ is 0, and one coordinate is sent at least
        (["algorithm=naive", "compressor=random_k", "compressor.k=5"], 32 * 5 + 64, 32 * 5 + 64),
    ],
)
def test_bits(overrides: list[str], up: int, down: int, results: str) -> None:
    found = rows(go(*SMALL, results, *overrides))
    for name, size in (("bits_up", up), ("bits_down", down), ("bits", up + down)):
        assert [row[name] for row in found] == [size * row["round"] for row in found]


def test_a_dense_start_is_counted(results: str) -> None:
    found = rows(go(*SMALL, results, "algorithm=ef21", "eval_every=1"))
    assert [row["bits_up"] for row in found[:4]] == [0, 960, 960 + 64, 960 + 128]


def test_payload_bytes_are_those_of_float64(results: str) -> None:
    # Signs: ⌈30/8⌉ bytes and one scale; dense: 30 doubles; top-k: 7 doubles and 7 int32.
    for overrides, size in [
        (["algorithm=cd_adam"], 4 + 8),
        (["algorithm=amsgrad"], 240),
        (["algorithm=cd_adam", "compressor=top_k", "compressor.k=7"], 84),
    ]:
        assert rows(go(*SMALL, results, *overrides))[-1]["payload_bytes"] == 2 * 20 * size


def test_summary(results: str) -> None:
    path = go(*SMALL, results, "lr=[0.001,0.5]")
    found, summary = rows(path), record(path, "summary")
    assert summary["bits"] == 20 * 2 * 62
    assert [trial["lr"] for trial in summary["trials"]] == [0.001, 0.5]
    for number, trial in enumerate(summary["trials"]):
        mine = [row for row in found if row["trial"] == number]
        assert trial["final"] == mine[-1]
        assert trial["best"] == {
            "train_loss": min(row["train_loss"] for row in mine),
            "grad_norm": min(row["grad_norm"] for row in mine),
            "train_accuracy": max(row["train_accuracy"] for row in mine),
        }
    assert [trial["ends_above_its_start"] for trial in summary["trials"]] == [False, True]
    assert found[-1]["train_loss"] > found[1]["train_loss"]
    # With so long a step the best is not the last.
    assert summary["trials"][1]["best"]["train_loss"] < summary["trials"][1]["final"]["train_loss"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_learns(name: str) -> None:
    run = ("task=logreg/breast_cancer", "rounds=200", f"algorithm={name}", f"lr={STEPS.get(name, 0.003)}")
    trainer = build_trainer(configuration(*run), Ranks())
    [first] = trainer.evaluate()
    for _ in range(200):
        trainer.step()
    [last] = trainer.evaluate()
    assert last["train_loss"] < 0.30
    assert last["train_accuracy"] > 0.95
    assert last["grad_norm"] < 0.2 * first["grad_norm"]


def test_a_finished_run_is_left_alone(results: str, capsys: pytest.CaptureFixture) -> None:
    path = go(*SMALL, results)
    before = contents(path)
    capsys.readouterr()
    assert go(*SMALL, results) == path
    assert contents(path) == before
    assert go(*SMALL, results, "task.display.label=other", "checkpoint_every=3") == path
    after = contents(path)
    assert {name for name in before | after if before.get(name) != after.get(name)} == {"config.yaml"}
    assert stored_config(path)["task"]["display"]["label"] == "other"
    assert f"already finished: {path}" in capsys.readouterr().err


@pytest.mark.parametrize("overrides", [(), RANDOM])
def test_the_same_run_elsewhere_is_the_same_bit_for_bit(overrides: tuple[str, ...], tmp_path: Path) -> None:
    one, two = (timeless(go(*SMALL, *overrides, f"results_dir={tmp_path / name}")) for name in ("one", "two"))
    assert one == two


@pytest.mark.parametrize("overrides", [RANDOM[:-1], pytest.param(("algorithm=cd_adam",), marks=pytest.mark.slow)])
def test_a_grid_is_its_step_sizes_one_by_one(overrides: tuple[str, ...], results: str) -> None:
    lrs = [0.001, 0.003, 0.01]
    together = rows(go(*SMALL, results, *overrides, f"lr={lrs}".replace(" ", "")))
    for trial, lr in enumerate(lrs):
        mine = [row for row in together if row["trial"] == trial]
        for row, alone in zip(mine, rows(go(*SMALL, results, *overrides, f"lr={lr}")), strict=True):
            assert set(row) == set(alone)
            for name in set(row) - {"seconds", "trial"}:
                assert row[name] == pytest.approx(alone[name], rel=1e-9, abs=1e-13), name


def test_seeds_matter_where_something_is_drawn(results: str) -> None:
    one, two = (timeless(go(*SMALL, *RANDOM, results, f"seed={seed}")) for seed in (0, 1))
    assert one[0] == two[0]
    assert one[-1]["train_loss"] != two[-1]["train_loss"]


def test_schedules(results: str) -> None:
    constant, decay = (
        rows(go(*SMALL, results, "algorithm=sgd", "lr=0.1", "eval_every=1", f"lr_schedule={name}"))
        for name in ("constant", "step_decay")
    )
    for before in range(11):
        assert decay[before]["train_loss"] == constant[before]["train_loss"]
    moved = [abs(decay[r]["train_loss"] - decay[r - 1]["train_loss"]) for r in range(1, 21)]
    # A tenth of the step along a gradient that is a little shorter each round.
    for first in (10, 15):
        assert 0.07 < moved[first] / moved[first - 1] < 0.1


def test_threads_are_set_and_no_part_of_what_a_run_is(results: str) -> None:
    before = torch.get_num_threads()
    try:
        path = go(*SMALL, results, "threads=2")
        assert torch.get_num_threads() == 2
        assert path == where(*SMALL, results)
    finally:
        torch.set_num_threads(before)


def test_the_environment_has_the_dimension_whatever_a_task_tells(
    results: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LogisticRegression, "facts", lambda self: {})
    assert record(go(*SMALL, results), "environment")["d"] == 30
