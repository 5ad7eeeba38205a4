"""Runs of several seeds from which nothing is drawn: one is trained, and the others are as if they were."""

from dataclasses import replace
from pathlib import Path

import pytest
from run_support import SMALL, configuration, rows
from sweep_support import sweep

from experiments import run
from experiments.config import identity
from experiments.run_store.folder import RunFolder
from experiments.run_store.parts import read, verify
from experiments.sweep.repeats import draws, repeats, take_over
from experiments.training.session import train_here
from plots.runs.files import read_json

MARKOV = ("task=text/markov", "rounds=3", "eval_every=3", "warmup_rounds=0")


def timeless(folder: Path) -> list[dict]:
    """The rows without what differs between a run and its repetition: clocks and checksums."""
    return [{key: value for key, value in row.items() if key not in ("seconds", "crc32")} for row in rows(folder)]


@pytest.mark.parametrize(
    ("overrides", "what"),
    [
        (SMALL, None),
        ((*SMALL, "algorithm=quantized_adam"), None),
        ((*SMALL, "algorithm=ef21", "compressor=top_k", "compressor.k=4", "lr=[0.1,0.3]"), None),
        ((*SMALL, "task.batch_size=3"), "task"),
        ((*SMALL, "task.partition=shuffled"), "task"),
        ((*SMALL, "task.partition=dirichlet"), "task"),
        ((*SMALL, "compressor=random_k", "compressor.k=4"), "method"),
        ((*SMALL, "algorithm=naive", "compressor=qsgd"), "method"),
        # dense for all rounds but the last, which alone draws
        ((*SMALL, "algorithm=onebit_adam", "compressor=random_k", "algorithm.warmup=0.95"), "method"),
        (MARKOV, "task"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_a_run_draws_from_its_seed(overrides: tuple[str, ...], what: str | None, results: str) -> None:
    """Without looking: a run of another seed comes to other rows, or to the same."""
    first, second = (configuration(*overrides, results, f"seed={seed}") for seed in (0, 1))
    assert draws(first) == what
    for each in (first, second):
        train_here(each)
    assert (timeless(identity.folder(first)) != timeless(identity.folder(second))) is (what is not None)


def test_a_sweep_trains_one_of_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = f"results_dir={tmp_path}"
    assert not sweep("seed=0,1,2", results)
    said = capsys.readouterr().err
    assert "1 of 1 runs to do" in said
    assert "copied from another seed, since nothing is drawn at random: 2 more" in said
    folders = [identity.folder(configuration(*SMALL, results, f"seed={seed}")) for seed in (0, 1, 2)]
    assert [read_json(folder / "environment.json").get("repeats_seed") for folder in folders] == [None, 0, 0]
    assert all(RunFolder(folder).is_finished() for folder in folders)  # every checksum, of its own id
    assert timeless(folders[0]) == timeless(folders[2])
    assert not sweep("seed=0,1,2", results)
    assert "all 3 runs are finished" in capsys.readouterr().err
    run.main([*SMALL, "seed=2", results])
    assert "already finished" in capsys.readouterr().err


def test_the_plan_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not sweep("seed=0,1", f"results_dir={tmp_path / 'results'}", "dry_run=true")
    said = capsys.readouterr().out
    assert "2 runs, 1 of them to do" in said
    assert "as seed 0" in said
    assert not (tmp_path / "results").exists()


def test_a_repetition_has_a_checkpoint_of_its_own(results: str) -> None:
    """What other parts read it by: it names the run, round and part that it is of."""
    first, second = (configuration(*SMALL, results, f"seed={seed}") for seed in (0, 1))
    train_here(first)
    assert repeats([first, second]) == {identity.folder(second): first}
    assert take_over(second, first)
    assert not take_over(second, first)
    verify(identity.folder(second) / "checkpoint", workers=20)


def test_what_was_begun_or_differs_otherwise_is_no_repetition(results: str) -> None:
    first, second = (configuration(*SMALL, results, f"seed={seed}") for seed in (0, 1))
    other = configuration(*SMALL, results, "seed=2", "rounds=21")
    assert list(repeats([first, second, other])) == [identity.folder(second)]
    identity.folder(second).mkdir(parents=True)
    assert repeats([first, second, other]) == {}


def test_nothing_is_taken_from_what_is_not_finished(results: str) -> None:
    first, second = (configuration(*SMALL, results, f"seed={seed}") for seed in (0, 1))
    assert not take_over(second, first)
    assert not identity.folder(second).exists()


def test_a_run_with_parts_of_a_user_is_never_a_copy(results: str) -> None:
    """They may read their seed in rounds that are not tried."""
    first, second = (replace(configuration(*SMALL, results, f"seed={seed}"), packages=("mine",)) for seed in (0, 1))
    assert repeats([first, second]) == {}


def test_where_the_original_is_damaged_the_sweep_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = f"results_dir={tmp_path}"
    first = configuration(*SMALL, results, "seed=0")
    train_here(first)
    [shared] = identity.folder(first).glob("checkpoint/*/shared.pt")
    shared.write_bytes(b"0" * 100)
    assert sweep("seed=0,1", "algorithm=cd_adam,ef21", results) == 1
    said = capsys.readouterr().err
    assert f"{identity.folder(first)}: cannot be copied for seed 1" in said
    assert "1 are left" in said
    assert RunFolder(identity.folder(configuration(*SMALL, results, "algorithm=ef21", "seed=1"))).is_finished()


def test_a_checkpoint_holds_what_the_original_s_does(results: str) -> None:
    first, second = (configuration(*SMALL, results, f"seed={seed}") for seed in (0, 1))
    train_here(first)
    take_over(second, first)
    for part in ("shared", "worker-0", "worker-19"):
        one, other = (read(identity.folder(run) / "checkpoint", 20, part) for run in (first, second))
        assert one == other
