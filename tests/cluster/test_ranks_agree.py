"""Impossible launches, ranks that differ at the start or during a run, and what ranks compare."""

import copy
import math
import pickle
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from cluster_support import as_torchrun, at_round, interrupt, my_rank, results_of, run_all, spawn, variant
from run_support import SMALL, before_rounds, exit_code, go, rows, small, status, timeless
from torch import Tensor

from algorithms.comm.consistency import Disagreement, digest, is_finite
from experiments.cluster.ranks import Group
from experiments.config.identity import folder
from experiments.config.schema import RunConfig
from experiments.run_store import environment
from experiments.run_store.checkpoint import rounds
from experiments.run_store.code import digests
from experiments.tasks.logreg import LogisticRegression
from experiments.training import runner
from experiments.training.trainer import Trainer

COMMON = ("task=logreg/breast_cancer", "rounds=12", "eval_every=6", "checkpoint_every=4", "cluster.workers=6")
CD_ADAM = (*COMMON, "algorithm=cd_adam")


def slow(*cases: tuple) -> list:
    """Mark these cases as slow tests."""
    return [pytest.param(*case, marks=pytest.mark.slow) for case in cases]


# In this process, as one rank of several of which no other is there


@pytest.fixture
def as_rank(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Makes this process one of several."""

    def become(rank: int, size: int) -> None:
        for name, value in as_torchrun(rank, size, 1).items():
            monkeypatch.setenv(name, value)

    return become


@pytest.mark.parametrize(
    ("overrides", "parts"),
    [
        (["cluster.workers=1"], ["cluster.workers=1", "too few for 2 ranks", "start 1 ranks or fewer"]),
        *slow(
            (
                ["ranks=2", "cluster.workers=4"],
                ["a run with ranks= starts its own processes: leave out torchrun or srun"],
            ),
            (["cluster.server=rank1"], ["cluster.server=rank1", "rank0"]),
            (["cluster.workers=4", "device=cuda"], ["device=cuda", "runs on cpu only"]),
            (["cluster.workers=4", "task=digits", "task.batch_size=400"], ["task.batch_size=400", "384 images"]),
            (
                ["-m", "cluster.workers=4", "seed=0,1"],
                ["a sweep or a run with ranks= starts its own processes: leave out torchrun or srun"],
            ),
        ),
    ],
)
def test_a_wrong_launch(
    overrides: list[str], parts: list[str], results: str, tmp_path: Path, as_rank: Callable,
    capsys: pytest.CaptureFixture,
) -> None:  # fmt: skip
    as_rank(0, 2)
    assert exit_code([*SMALL, results, *overrides]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert all(part in said for part in parts), said
    assert not (tmp_path / "results").exists()


def test_runs_of_one_launch_are_connected_once(as_rank: Callable, capsys: pytest.CaptureFixture) -> None:
    as_rank(0, 2)
    with pytest.raises(SystemExit, match=r"^2$"):
        run_all([small("cluster.workers=4", f"cluster.timeout={seconds}") for seconds in (3, 4)])
    assert "cluster.timeout: must be the same for all runs of one launch" in capsys.readouterr().err


# Of ranks that are connected

SETTINGS = {
    "compressor=top_k": "error: compressor._target_: algorithms:TopK on rank 1, ",
    "lr=0.01": "error: lr: ",
    "verify_every=5": "error: verify_every: 5 on rank 1, ",
}


def _another(what: str, results: Path) -> None:
    """The second rank is given another setting, or has other code, libraries or data. Nobody waits to speak."""
    facts, is_odd = LogisticRegression.facts, my_rank() == 1
    time.sleep = lambda seconds: None
    if what != "data":  # is found before anything is loaded
        runner.build_trainer = partial(exit, 77)
    if what == "code" and is_odd:
        runner.digests = lambda packages: digests(packages) | {"algorithms.core.channels": "0" * 16}
    if what == "libraries" and is_odd:
        runner.versions = lambda: environment.versions() | {"numpy": "1.0"}
    if what == "data" and is_odd:
        LogisticRegression.facts = lambda task: facts(task) | {"data_sha256": "another"}
    run_all([variant(*COMMON, *([what] * is_odd if what in SETTINGS else ()), results=results)])


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("compressor=top_k", SETTINGS["compressor=top_k"]),
        *slow(
            *list(SETTINGS.items())[1:],
            ("code", "algorithms/core/channels.py: 0000000000000000 on rank 1"),
            ("libraries", "numpy: 1.0 on rank 1"),
            ("data", "data_sha256: another on rank 1, "),
        ),
    ],
)
def test_what_ranks_do_not_have_alike_is_refused_before_anything_is_written(what, said, tmp_path):
    first, second = spawn(tmp_path, 2, partial(_another, what, tmp_path / "results"))
    assert (first.code, second.code) == (2, 2)
    assert said in first.said
    assert "Traceback" not in first.said + second.said
    assert what == "data" or not (tmp_path / "results").exists()


def _flipped(what: str, rank: int, round: int, run: RunConfig) -> None:
    """One bit of a coordinate changes on one rank, of its replica or as "server memory", when a round begins."""

    def flip(trainer: Trainer) -> None:
        if trainer.t + 1 == round and my_rank() == rank:
            part, name = what.split() if " " in what else ("replica", what)
            state = getattr(trainer.state, part)
            changed = getattr(state, name).clone()
            changed.view(torch.int64)[0, 3] ^= 1 << 10  # the last one may be lost where the next message is added
            trainer.state = replace(trainer.state, **{part: replace(state, **{name: changed})})

    with before_rounds(flip):
        run_all([run])


@pytest.mark.parametrize(
    ("what", "rank", "ranks", "round", "kept", "said"),
    [
        ("server memory", 0, 2, 8, 6, "rank 1: the server's memory of the signal differs from rank 0's"),
        *slow(
            ("x", 1, 2, 6, 0, "rank 1: the model x differs from rank 0's"),
            ("x", 0, 3, 8, 6, "ranks 1, 2: the model x differs from"),
            ("signal", 2, 3, 12, 6, "rank 2: the "),
        ),
    ],
)
def test_a_flipped_bit_of_a_replica_ends_the_run(what, rank, ranks, round, kept, said, tmp_path):
    """Found at an evaluation, before a checkpoint, and at both at once."""
    run = variant(*CD_ADAM, results=tmp_path / "results")
    for ended in spawn(tmp_path / "first", ranks, partial(_flipped, what, rank, round, run)):
        assert ended.code == 1
        assert said in ended.said
    path = folder(run)
    assert status(path)["status"] == "failed"
    assert max(row["round"] for row in rows(path)) == kept  # nothing of what came after is
    alone, again = (go(*CD_ADAM, f"results_dir={tmp_path / place}") for place in ("alone", "results"))
    assert again == path
    assert timeless(path) == timeless(alone)


def _begun_apart(run: RunConfig) -> None:
    """One rank begins with another x."""
    if my_rank() == 1:
        LogisticRegression.start = lambda task: torch.full((task.d,), 5e-324, dtype=task.dtype)
    run_all([run])


@pytest.mark.slow
def test_replicas_that_begin_with_different_models_do_not_start(tmp_path: Path) -> None:
    run = variant(*COMMON, results=tmp_path / "results")
    for ended in spawn(tmp_path / "ranks", 2, partial(_begun_apart, run)):
        assert ended.code == 1
        assert "rank 1: the model x differs from rank 0's" in ended.said
    assert rows(folder(run)) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("overrides", "round", "does"),
    [
        ((), 9, interrupt),  # a run that is stopped is compared before it is saved
        (("eval_every=12", "checkpoint_every=100", "verify_every=1"), 8, partial(exit, 77)),
    ],
)
def test_it_is_found_before_anything_else_happens(overrides, round, does, tmp_path):
    run = variant(*COMMON, *overrides, results=tmp_path / "results")
    act = partial(at_round, 9, 0, does, partial(_flipped, "x", 1, round, run))
    assert [ended.code for ended in spawn(tmp_path / "ranks", 2, act)] == [1, 1]
    assert rounds(folder(run) / "checkpoint")[:1] == [8] * (does is interrupt)


def _asked() -> list[bool]:
    """Rank 1 says yes in the second and the fifth of seven questions; the fourth and sixth are waited for."""
    ranks = Group(my_rank())
    before = ranks.any_before
    asks = (before, before, before, ranks.any, before, ranks.any, before)
    heard = [ask(ranks.rank == 1 and number in (1, 4)) for number, ask in enumerate(asks)]
    ranks.wait()
    return heard


@pytest.mark.slow
def test_what_is_asked_before_is_heard_at_the_next_question_that_nobody_waits_for(tmp_path: Path) -> None:
    assert results_of(tmp_path, 3, _asked) == [[False, False, True, False, False, False, False]] * 3


DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
ROW = 8 * 61 * 64  # bytes of one row in every block of the digest


def drawn(d: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """A vector [d]."""
    return torch.randn(d, generator=torch.Generator().manual_seed(d)).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_one_flipped_bit_anywhere_changes_the_digest(dtype: torch.dtype) -> None:
    generator, row = torch.Generator().manual_seed(0), ROW // dtype.itemsize
    for d in (1, 7, row - 1, row, 3 * row + 5):
        x = drawn(d, dtype)
        expected = digest(x)
        assert digest(x.clone()) == expected
        places = {0, d - 1, *torch.randint(d, (5,), generator=generator).tolist()}
        for place in places:
            for bit in (0, 8 * dtype.itemsize - 2, 8 * dtype.itemsize - 1):
                changed = x.clone()
                bits = changed.view(INTEGERS[dtype.itemsize])
                bits[place] ^= torch.tensor(1).bitwise_left_shift(bit).to(bits.dtype)
                assert digest(changed) != expected, (d, place, bit)


def test_coordinates_exchanged_and_a_zero_of_another_sign_change_it() -> None:
    d = 10 * ROW // 4
    x = drawn(d)
    x[5] = 0.0
    expected = digest(x)
    for one, other in ((0, 1), (1, 3), (7, d - 1), (100, 100 + 2048), (1000, 1000 + 65 * 2)):
        changed = x.clone()
        changed[[one, other]] = x[[other, one]]
        assert digest(changed) != expected
    changed = x.clone()
    changed[5] = -0.0
    assert digest(changed) != expected
    signs = x.clone()  # only the top bit differs: linear weights would not see it
    signs[[11, 19]] = torch.tensor([2.0, -2.0])
    swapped = signs.clone()
    swapped[[11, 19]] = torch.tensor([-2.0, 2.0])
    assert digest(signs) != digest(swapped)
    assert digest(torch.zeros(5)) != digest(torch.zeros(6))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_vector_is_finite_where_every_coordinate_is(dtype: torch.dtype) -> None:
    largest = torch.finfo(dtype).max
    for d in (1, 2, 1000):
        x = torch.full((d,), largest, dtype=dtype)  # whose sum and squares are not
        x[d // 2] = -largest
        assert is_finite(x)
        for value in (math.nan, math.inf, -math.inf):
            for place in {0, d // 2, d - 1}:
                changed = x.clone()
                changed[place] = value
                assert not is_finite(changed)


def test_a_disagreement_says_who_when_and_what_also_from_another_process() -> None:
    error = Disagreement(2, 7, "lr", "0.1 instead of 0.2")
    for same in (error, pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert str(same) == "step 7: rank 2 differs from the others in lr: 0.1 instead of 0.2"
        assert (same.rank, same.step, same.quantity) == (2, 7, "lr")
    assert isinstance(error, RuntimeError)
