"""What a run takes of a machine: memory and threads."""

from __future__ import annotations

import json
import multiprocessing
import platform
import resource
from collections.abc import Iterator

import pytest
import torch
from run_support import SMALL, go

from experiments.training import threads as module
from experiments.training.build import keep_freed_memory
from experiments.training.threads import SHARE
from experiments.training.threads import SMALL as LARGE

SIZE = 2**26  # bytes: beyond what glibc keeps by default


def faults_of_the_last_vectors(is_kept: bool) -> int:
    """Pages that the system hands out, zeroed, for three vectors like ten that were freed before."""
    if is_kept:
        keep_freed_memory()
    before = 0
    for number in range(13):
        if number == 10:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        torch.ones(SIZE, dtype=torch.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it tells glibc what to do")
@pytest.mark.slow
def test_freed_memory_is_used_again() -> None:
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        given_back, kept = (pool.apply(faults_of_the_last_vectors, (is_kept,)) for is_kept in (False, True))
    assert given_back > 16  # huge pages make few of them
    assert kept < given_back / 4


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody said how many, on a machine of 4 cores; torch has as many afterwards as before."""
    for name in ("OMP_NUM_THREADS", SHARE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(module, "cores", lambda: 4)
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("overrides", "variables", "threshold", "expected"),
    [
        ((), {SHARE: "2", "OMP_NUM_THREADS": "2"}, 20 * 30, 2),  # n · d of breast_cancer: as if that were large
        ((), {}, 20 * 30 + 1, 1),
        (("lr=[0.1,0.2]",), {}, 20 * 30 + 1, 4),
        ((), {"OMP_NUM_THREADS": "3"}, 0, 3),
        (("threads=2",), {"OMP_NUM_THREADS": "3"}, LARGE, 2),
    ],
)
def test_what_a_run_takes_and_records(overrides, variables, threshold, expected, tmp_path, monkeypatch):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(module, "SMALL", threshold)
    torch.set_num_threads(3)  # what torch itself would take
    path = go(*SMALL, "rounds=1", *overrides, f"results_dir={tmp_path}")
    assert json.loads((path / "environment.json").read_text())["threads"] == expected
    assert torch.get_num_threads() == (2 if "threads=2" in overrides else 3)
