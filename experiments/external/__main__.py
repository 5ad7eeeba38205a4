"""Train one configuration with an external strategy as its algorithm, one worker per rank.

    PYTHONPATH=examples torchrun --standalone --nproc-per-node=4 -m experiments.external packages=[strategies] \\
        algorithm=torch_powersgd task=digits cluster.workers=4 lr=0.1

Keys are those of a run. The harness provides the task, data, batches, x₁, step sizes, evaluations and run folder.
The strategy alone moves x, and bits are counted at torch.distributed. A finished run is skipped. A stopped run begins
anew, because the harness does not save a strategy's state.
"""

import os
import sys
from collections.abc import Sequence

from common.errors import UsageError, exit_with_message
from common.signals import end_with_parent
from experiments.config.compose import split
from experiments.config.run import LAUNCH, load_run


def main(arguments: Sequence[str] | None = None) -> None:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if {"-h", "--help"} & {*given}:
        print(__doc__)
        return
    if "TORCHELASTIC_RUN_ID" in os.environ:
        end_with_parent()  # ranks would outlive a torchrun that is killed
    with exit_with_message():
        for word in split(given, (*LAUNCH, "sweep"))[0]:
            raise UsageError(f"{word}: no key of this command")
        run = load_run(given)
        from experiments.external.record import build_trainer, check  # imports torch
        from experiments.training.session import train_here

        check(run)
        train_here(run, build_trainer)


if __name__ == "__main__":
    main()
