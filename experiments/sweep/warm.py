"""A process that imports the libraries that runs use while their command still checks them, and then forks them.

Importing takes longer than a small run; so it is done once for all of them, beside what the command itself imports.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from common.template import WORKS, Template
from experiments.config.compose import ROOT
from experiments.config.schema import LaunchConfig, RunConfig
from experiments.sweep.extend import is_finished


@contextmanager
def warmed(runs: Sequence[RunConfig], launch: LaunchConfig) -> Iterator[Template | None]:
    """The process, for as long as it is needed; None where it would save nothing."""
    missing = [run for run in runs if not is_finished(run)]
    if not WORKS or len(missing) < 2 or launch.ranks > 1 or launch.dry_run:
        yield None
        return
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    # A process with threads does not bear to be forked; every run sets how many it has.
    template = Template(
        ["hydra", "pandas", "torch"],  # and none of this project's: a run reads and records the files of its own time
        {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": path},
    )
    try:
        yield template
    finally:
        template.close()
