"""Speed and wire measurements, as ratios taken in one run."""

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import date

import experiments  # noqa: F401 (sets how torch's threads wait, before torch is imported)

# isort: split
import torch
from torch.utils.benchmark import Timer

from data.limits import in_words
from experiments.run_store.environment import environment


def seconds(call: Callable[[], object], repeats: int = 5) -> float:
    """The mean time of a call, after two that are not timed; a GPU is waited for."""
    return Timer("call()", globals={"call": call}, num_threads=torch.get_num_threads()).timeit(repeats).mean


def markdown(rows: Sequence[Mapping[str, object]]) -> str:
    """A Markdown table of rows that have the same columns."""
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(row.values() for row in rows)]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def today_here(load: float) -> str:
    """The date, the processor and its cores, the memory, torch, and the given load before. For Linux."""
    here, memory = environment(), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return (
        f"{date.today()}, {here['processor']}, {here['cores']} cores, {in_words(memory)} of memory, torch "
        f"{torch.__version__}, load {load:.1f} before"
    )
