"""What a run leaves behind, and what it is that a run leaves the same."""

import os
import random
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from reference import plain_loop
from run_support import RANDOM, SMALL, before_rounds, configuration, contents, go, record, rows, status, timeless

from common.errors import RunError, UsageError
from data.embedded import breast_cancer
from experiments.cluster.ranks import Ranks
from experiments.config.run import read_run
from experiments.tasks.logreg import LogisticRegression
from experiments.training.runner import summarise
from experiments.training.trainer import Trainer
from plots.runs.columns import higher_is_better

COLUMNS = {"round", "epoch", "trial", "lr", "step_size", "bits_up", "bits_down", "bits", "payload_bytes", "seconds"}
COLUMNS |= {"train_loss", "grad_norm", "train_accuracy"}
ERRORS = {"mean_norm", "aggregate_error", "signal_error"}


def test_what_a_finished_run_leaves(results: str) -> None:
    command = [*SMALL, results, "lr=[0.001,0.003]"]
    path = go(*command)
    names = {f"{name}.json" for name in ("status", "environment", "code", "summary")}
    names |= {"config.yaml", "metrics.jsonl"}
    names |= {"checkpoint/20/shared.pt", *(f"checkpoint/20/worker-{i}.pt" for i in range(20))}
    assert set(contents(path)) == names
    assert status(path)["status"] == "finished"
    assert read_run(yaml.safe_load((path / "config.yaml").read_text()), []) == configuration(*command)
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


def test_waiting_for_a_gpu_is_counted_before_ranks_are_compared(results, monkeypatch):
    """`wait` counts the time, `fingerprints` only wait."""
    called: list[str] = []
    for name in ("step", "wait", "fingerprints"):
        act = getattr(Trainer, name)
        monkeypatch.setattr(
            Trainer, name, lambda *given, act=act, name=name, **more: (act(*given, **more), called.append(name))[0]
        )
    monkeypatch.setattr(Ranks, "any", lambda ranks, mine, alike=None: (alike and alike(), mine)[1])
    go(*SMALL, results, "verify_every=3")
    text = " ".join(called)
    assert text.count("step wait fingerprints") == 9
    assert "step fingerprints" not in text


def test_summary(results: str) -> None:
    path = go(*SMALL, results, "lr=[0.001,0.5]")
    found = record(path, "summary")
    assert found == summarise(iter(rows(path)), [0.001, 0.5])
    assert [trial["ends_above_its_start"] for trial in found["trials"]] == [False, True]


@pytest.mark.parametrize("seed", range(3))
def test_a_summary_is_what_all_rows_say(seed: int) -> None:
    dice, lrs = random.Random(seed), [0.1, 0.2, 0.3]
    rows = [
        {"round": t, "trial": trial, "lr": lr, "bits": 8 * t, "payload_bytes": t, "seconds": t / 10,
         "train_loss": dice.choice([dice.random(), 0.0, -0.0]), "test_accuracy": dice.random(),
         "undeclared": dice.random(),
         **({"signal_error": dice.random()} if t else {})}
        for t in range(0, 100, 7) for trial, lr in enumerate(lrs)
    ]  # fmt: skip
    found = summarise(iter(rows), lrs)
    assert (found["bits"], found["payload_bytes"], found["seconds"]) == (784, 98, 9.8)
    for trial, lr in enumerate(lrs):
        mine, said = [row for row in rows if row["trial"] == trial], found["trials"][trial]
        assert (said["lr"], said["final"]) == (lr, mine[-1])
        assert said["ends_above_its_start"] == (mine[-1]["train_loss"] > mine[0]["train_loss"])
        assert list(said["best"]) == ["train_loss", "test_accuracy"]
        for name, value in said["best"].items():
            assert repr(value) == repr((max if higher_is_better(name) else min)(row[name] for row in mine))


def test_a_finished_run_is_left_alone(results: str, capsys: pytest.CaptureFixture) -> None:
    path = go(*SMALL, results)
    before = contents(path)
    capsys.readouterr()
    assert go(*SMALL, results) == path
    assert contents(path) == before
    assert go(*SMALL, results, "task.display.label=other", "checkpoint_every=3") == path
    assert {name for name, _ in before.items() ^ contents(path).items()} == {"config.yaml"}
    text = (path / "config.yaml").read_text()
    assert ("label: other" in text, "checkpoint_every: 3" in text) == (True, False)
    assert f"already finished: {path}" in capsys.readouterr().err


def test_a_grid_is_its_step_sizes_one_by_one(results: str) -> None:
    lrs, overrides = [0.001, 0.003, 0.01], RANDOM[:-1]
    together = rows(go(*SMALL, results, *overrides, f"lr={lrs}".replace(" ", "")))
    for trial, lr in enumerate(lrs):
        mine = [row for row in together if row["trial"] == trial]
        for row, alone in zip(mine, rows(go(*SMALL, results, *overrides, f"lr={lr}")), strict=True):
            assert set(row) == set(alone)
            for name in set(row) - {"seconds", "trial"}:
                assert row[name] == pytest.approx(alone[name], rel=1e-9, abs=1e-13), name


@pytest.mark.parametrize(
    ("rounds", "every", "early", "expected"),
    [
        (20, 5, False, [5, 10, 15, 20]),
        (23, 10, True, [1, 2, 4, 8, 10, 20, 23]),
        (20, 8, True, [1, 2, 4, 8, 16, 20]),
        (3, 100, True, [1, 2, 3]),
        (3, 100, False, [3]),
    ],
)
def test_rounds_that_are_due(rounds: int, every: int, early: bool, expected: list[int]) -> None:
    run = replace(configuration(*SMALL), rounds=rounds, eval_every=every, eval_early=early)
    assert [t for t in range(1, rounds + 1) if run.is_due(t)] == expected
    assert run.evaluations == 1 + len(expected)


WORKERS, ROUNDS, LR = 4, 12, 0.01


@pytest.mark.parametrize("method", ["amsgrad", "naive", "error_feedback", "cd_adam"])
def test_errors_are_those_of_the_round_just_done(method, tmp_path):
    path = go("task=logreg/breast_cancer", f"algorithm={method}", f"cluster.workers={WORKERS}", f"lr={LR}",
              f"rounds={ROUNDS}", "eval_every=1", f"results_dir={tmp_path}")  # fmt: skip
    start, *later = rows(path)
    names = ("mean_norm", "aggregate_error", "signal_error", "second_moment")
    assert not {*names} & start.keys()
    measured = [[row[name] for name in names] for row in later]
    data = breast_cancer()
    shares = plain_loop.parts(data.features.toarray(), data.labels, WORKERS)
    expected = [
        [*map(np.linalg.norm, (each.mean, each.aggregate - each.mean, each.signal - each.mean)), each.v_hat.sum()]
        for each in islice(plain_loop.rounds(shares, method, LR), ROUNDS)
    ]
    np.testing.assert_allclose(measured, expected, rtol=1e-9)


@pytest.mark.parametrize("method", ["onebit_adam", "quantized_adam"])
def test_what_is_compared_is_what_workers_wanted_to_send(method, tmp_path):
    """Compressing next to nothing, errors of momentum and of steps are next to nothing too."""
    fine = ["compressor=uniform_quantize", "compressor.bits=16"]
    if method == "quantized_adam":
        fine.append("algorithm.weight_bits=16")
    run = ["task=logreg/breast_cancer", f"algorithm={method}", *fine, "lr=0.01", "rounds=20", "eval_every=10"]
    path = go(*run, f"results_dir={tmp_path}")
    last = rows(path)[-1]
    assert 0 < last["aggregate_error"] < 1e-4
    assert 0 < last["signal_error"] < 1e-3


def test_too_few_rounds_to_exchange_are_refused_and_fragments_exchange_earlier(tmp_path):
    run = ("task=digits", "algorithm=diloco", "algorithm.period=6", "rounds=5", *IMAGES[2:])
    with pytest.raises(UsageError, match="algorithm=diloco exchange nothing in so few rounds"):
        go(*run, f"results_dir={tmp_path}")
    assert rows(go(*run, "algorithm.fragments=2", f"results_dir={tmp_path}"))[-1]["bits"] > 0


def test_a_signal_in_units_of_its_own_has_no_error(tmp_path):
    path = go("task=logreg/breast_cancer", "algorithm=int_sgd", "rounds=2", "eval_every=1", f"results_dir={tmp_path}")
    assert ERRORS - rows(path)[-1].keys() == {"signal_error"}


IMAGES = (
    "task=digits", "rounds=3", "eval_every=1", "cluster.workers=2", "device=cpu", "task.batch_size=8",
    "task.rows=64", "task.precision=float32",
)  # fmt: skip


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Torch's and the environment's settings are put back after each test."""
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", torch.backends.cudnn.benchmark)
    yield
    torch.use_deterministic_algorithms(False)
    os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)


@pytest.mark.slow
def test_it_changes_no_number_on_a_cpu(results: str) -> None:
    one, other = (timeless(go(*IMAGES, results, f"deterministic={value}")) for value in ("false", "true"))
    assert one == other
    assert len(one) > 2


def test_it_is_asked_of_torch_while_its_run_computes(results: str) -> None:
    seen = []

    def look(trainer: Trainer) -> None:
        enabled, config = torch.are_deterministic_algorithms_enabled(), os.environ.get("CUBLAS_WORKSPACE_CONFIG")
        seen.append((enabled, config, torch.backends.cudnn.benchmark))

    torch.backends.cudnn.benchmark = True
    with before_rounds(look):
        go(*SMALL, results, "rounds=1")
        go(*SMALL, results, "rounds=1", "deterministic=true")
        assert seen == [(False, None, True), (True, ":4096:8", False)]
        go(*SMALL, results, "rounds=1", "seed=1")
    assert seen[2][0] is False


def test_a_run_goes_on_only_with_the_data_it_began_with(results: str, interrupted: Path, monkeypatch) -> None:
    facts = LogisticRegression.facts
    with monkeypatch.context() as other:
        other.setattr(LogisticRegression, "facts", lambda task: {**facts(task), "data_sha256": "of other data"})
        with pytest.raises(RunError, match="its data changed since it began"):
            go(*SMALL, results)
    assert rows(go(*SMALL, results))[-1]["round"] == 20
