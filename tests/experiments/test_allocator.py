"""What is freed is there for what is asked for next, without the system."""

from __future__ import annotations

import multiprocessing
import platform
import resource

import pytest
import torch

from experiments.training.build import keep_freed_memory

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


def test_it_may_be_called_again() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for _ in range(2):
            assert pool.apply(keep_freed_memory) is None
