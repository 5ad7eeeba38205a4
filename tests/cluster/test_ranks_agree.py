"""Ranks that have not the same: before anything starts, and in the middle of a run."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from cluster_support import at_round, fine, interrupt, launched, run_each, this_rank, variant
from run_support import go, rows, status, timeless

from experiments.cluster.launch import join_ranks, launch
from experiments.config.identity import folder
from experiments.config.schema import RunConfig
from experiments.run_store import environment
from experiments.run_store.checkpoint import rounds
from experiments.run_store.code import loaded
from experiments.tasks.logreg import LogisticRegression
from experiments.training import runner
from experiments.training.trainer import Trainer

COMMON = ("task=logreg/breast_cancer", "rounds=12", "eval_every=6", "checkpoint_every=4", "cluster.workers=6")


def _another(override: str, results: Path) -> None:
    """One rank is given other settings than the others. None gets so far that it loads anything."""
    runner.build_trainer = partial(exit, 77)
    run_each([variant(*COMMON, *([override] * this_rank()), results=results)])


@pytest.mark.parametrize(
    ("key", "override"),
    [
        pytest.param("lr", "lr=0.01", marks=pytest.mark.slow),
        ("compressor._target_", "compressor=top_k"),
        pytest.param("verify_every", "verify_every=5", marks=pytest.mark.slow),
    ],
)
def test_other_settings_are_refused_before_anything_is_written(key: str, override: str, tmp_path: Path) -> None:
    results = tmp_path / "results"
    first, second = launched(tmp_path, 2, partial(_another, override, results))
    assert (first.code, second.code) == (2, 2)
    here, there = (runner._settings(variant(*COMMON, *more, results=results))[key] for more in ((), (override,)))
    assert f"error: {key}: {there} on rank 1, {here} on rank 0; start all" in first.said
    assert "Traceback" not in first.said + second.said
    assert not (tmp_path / "results").exists()


def _edited(results: Path) -> None:
    """One rank runs other code."""
    if this_rank() == 1:
        runner.loaded = lambda packages: loaded(packages) | {"algorithms.core.channels": "0" * 16}
    run_each([variant(*COMMON, results=results)])


def _older(results: Path) -> None:
    """One rank has another version of a library."""
    if this_rank() == 1:
        runner.versions = lambda: environment.versions() | {"numpy": "1.0"}
    run_each([variant(*COMMON, results=results)])


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (_edited, "algorithms/core/channels.py: 0000000000000000 on rank 1"),
        pytest.param(_older, "numpy: 1.0 on rank 1", marks=pytest.mark.slow),
    ],
)
def test_other_code_or_libraries_are_refused(act: Callable, said: str, tmp_path: Path) -> None:
    first, second = launched(tmp_path, 2, partial(act, tmp_path / "results"))
    assert (first.code, second.code) == (2, 2)
    assert said in first.said


def _flipped(what: str, rank: int, round: int, run: RunConfig) -> None:
    """One bit of a coordinate changes on one rank, of its replica or as "server memory", when a round begins."""
    step = Trainer.step

    def flipping(trainer: Trainer, diagnose: bool = False) -> None:
        if trainer.t + 1 == round and this_rank() == rank:
            part, name = what.split() if " " in what else ("replica", what)
            state = getattr(trainer.state, part)
            vector = getattr(state, name)
            changed = vector.clone()
            changed.view(torch.int64)[0, 3] ^= 1 << 10  # the last one may be lost where the next message is added
            trainer.state = replace(trainer.state, **{part: replace(state, **{name: changed})})
        step(trainer, diagnose)

    Trainer.step = flipping
    run_each([run])


@pytest.mark.parametrize(
    ("what", "rank", "ranks", "round", "kept", "said"),
    [
        pytest.param("x", 1, 2, 6, 0, "rank 1: the model x is not that of rank 0", marks=pytest.mark.slow),
        pytest.param("x", 0, 3, 8, 6, "ranks 1, 2: the model x is not", marks=pytest.mark.slow),
        pytest.param("signal", 2, 3, 12, 6, "rank 2: the ", marks=pytest.mark.slow),
        ("server memory", 0, 2, 8, 6, "rank 1: what the server remembers of the signal is not that of rank 0"),
    ],
)
def test_a_flipped_bit_of_a_replica_ends_the_run(
    what: str, rank: int, ranks: int, round: int, kept: int, said: str, tmp_path: Path
) -> None:
    """Found at an evaluation, before a checkpoint, and at both at once."""
    run = variant(*COMMON, "algorithm=cd_adam", results=tmp_path / "results")
    for ended in launched(tmp_path / "first", ranks, partial(_flipped, what, rank, round, run)):
        assert ended.code == 1
        assert said in ended.said
    path = folder(run)
    assert status(path)["status"] == "failed"
    assert max(row["round"] for row in rows(path)) == kept  # nothing of what came after is
    fine(launched(tmp_path / "second", ranks, partial(run_each, [run])))
    alone = go(*COMMON, "algorithm=cd_adam", f"results_dir={tmp_path / 'alone'}")
    assert timeless(path) == timeless(alone)


def _begun_apart(run: RunConfig) -> None:
    """One rank begins with another x."""
    if this_rank() == 1:
        LogisticRegression.start = lambda task: torch.full((task.d,), 5e-324, dtype=task.dtype)
    run_each([run])


@pytest.mark.slow
def test_replicas_that_begin_with_different_models_do_not_start(tmp_path: Path) -> None:
    run = variant(*COMMON, results=tmp_path / "results")
    for ended in launched(tmp_path / "ranks", 2, partial(_begun_apart, run)):
        assert ended.code == 1
        assert "rank 1: the model x is not that of rank 0" in ended.said
    assert rows(folder(run)) == []


@pytest.mark.slow
def test_a_run_that_is_stopped_is_compared_before_it_is_saved(tmp_path: Path) -> None:
    run = variant(*COMMON, results=tmp_path / "results")
    stopped = partial(at_round, 9, 0, interrupt, partial(_flipped, "x", 1, 9, run))
    assert [ended.code for ended in launched(tmp_path / "ranks", 2, stopped)] == [1, 1]
    assert rounds(folder(run) / "checkpoint")[0] == 8


@pytest.mark.slow
def test_verify_every_finds_it_sooner(tmp_path: Path) -> None:
    run = variant(*COMMON, "eval_every=12", "checkpoint_every=100", "verify_every=1", results=tmp_path / "results")
    late = partial(at_round, 9, 0, partial(exit, 77), partial(_flipped, "x", 1, 8, run))
    assert [ended.code for ended in launched(tmp_path / "ranks", 2, late)] == [1, 1]


def _other_data(results: Path) -> None:
    """One rank reads other data."""
    facts = LogisticRegression.facts
    if this_rank() == 1:
        LogisticRegression.facts = lambda task: facts(task) | {"data_sha256": "another"}
    run_each([variant(*COMMON, results=results)])


@pytest.mark.slow
def test_other_data_are_refused(tmp_path: Path) -> None:
    first, second = launched(tmp_path, 2, partial(_other_data, tmp_path / "results"))
    assert (first.code, second.code) == (2, 2)
    assert "data_sha256: another on rank 1, " in first.said


def _asked(target: Path) -> None:
    """Rank 1 says yes in the second and the fifth of seven questions; the fourth and sixth are waited for."""
    heard = []
    with join_ranks(launch(), "cpu", 60) as ranks:
        before = ranks.any_before
        for number, ask in enumerate((before, before, before, ranks.any, before, ranks.any, before)):
            heard.append(ask(ranks.rank == 1 and number in (1, 4)))
        ranks.wait()
    (target / f"heard-{ranks.rank}.json").write_text(json.dumps(heard))


@pytest.mark.slow
def test_what_is_asked_before_is_heard_at_the_next_question_that_nobody_waits_for(tmp_path: Path) -> None:
    fine(launched(tmp_path, 3, partial(_asked, tmp_path)))
    heard = [json.loads((tmp_path / f"heard-{rank}.json").read_text()) for rank in range(3)]
    assert heard == [[False, False, True, False, False, False, False]] * 3
