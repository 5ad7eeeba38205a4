"""What a result was measured on."""

import os
from datetime import date

from data.limits import in_words
from experiments.run_store.environment import environment, versions


def today_here(load: float) -> str:
    """The date, the processor and its cores, the memory, torch, and the given load before. For Linux."""
    here, memory = environment(), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return (
        f"{date.today()}, {here['processor']}, {here['cores']} cores, {in_words(memory)} of memory, torch "
        f"{versions()['torch']}, load {load:.1f} before"
    )
