"""The ranks of a launch with the display of the first one, and one whole run in this process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

from common.errors import UsageError
from common.progress import Display
from experiments.cluster.launch import join_ranks, read_launch
from experiments.cluster.ranks import Ranks
from experiments.config.schema import RunConfig
from experiments.run_store.folder import RunFolder
from experiments.training.build import build_trainer, device_of
from experiments.training.runner import bring_to_end
from experiments.training.trainer import Trainer


@contextmanager
def session(runs: list[RunConfig]) -> Iterator[tuple[Ranks, Display]]:
    """Join the ranks of this launch, if any, to train these runs one after the other.

    Raises UsageError, before anything is connected, if the runs do not fit the launch.
    """
    place = read_launch()
    device = "cpu"
    if place:
        for run in runs:
            place.check(run.cluster.workers, run.cluster.groups)
            device_of(run, place.local_size - 1)  # the last local rank's, so that all ranks agree
        kinds = {(device_of(run, place.local_rank), run.cluster.timeout) for run in runs}
        if len(kinds) > 1:
            raise UsageError(
                "device, cluster.timeout: must be the same for all runs of one launch; or launch them separately"
            )
        device = kinds.pop()[0]
    with join_ranks(place, device, runs[0].cluster.timeout) as ranks:
        console = None if ranks.is_first else Console(quiet=True)
        with Display(sum(run.rounds for run in runs), console) as display:
            yield ranks, display


def train_here(run: RunConfig, build: Callable[[RunConfig, Ranks], Trainer] = build_trainer) -> RunFolder | None:
    """Train a run in this process, alone or as one of the ranks of a launch, and print its outcome.

    Returns its folder; None on the other ranks.
    """
    with session([run]) as (ranks, display):
        folder = bring_to_end(run, display, ranks, build)
        if not ranks.is_first:
            return None
    print(*folder.outcome(), f"results: {folder.path}", sep="\n", flush=True)
    return folder
