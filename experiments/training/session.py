"""What the commands that run things share: the ranks of a launch, the display of its first one, and one whole run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

from common.errors import UsageError
from common.progress import Display
from experiments.cluster.launch import join_ranks, launch
from experiments.cluster.ranks import Ranks
from experiments.config.schema import RunConfig
from experiments.run_store.folder import RunFolder
from experiments.training.build import build_trainer, device_of
from experiments.training.runner import bring_to_end
from experiments.training.trainer import Trainer


@contextmanager
def session(runs: list[RunConfig]) -> Iterator[tuple[Ranks, Display]]:
    """Join the ranks of this launch, if there are any, for all of these runs one after the other.

    Raises UsageError where the runs do not fit the launch, before anything is connected.
    """
    place = launch()
    device = "cpu"
    if place:
        for run in runs:
            place.check(run.cluster.workers, run.cluster.groups)
            device_of(run, place.local_size - 1)  # the first rank speaks for all of its machine
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
    """Bring it to its end in this process, alone or as one of the ranks of a launch, and say what came of it.

    Returns its folder, None where another rank has it.
    """
    with session([run]) as (ranks, display):
        folder = bring_to_end(run, display, ranks, build)
        if not ranks.is_first:
            return None
    print(*folder.outcome(), f"results: {folder.path}", sep="\n", flush=True)
    return folder
