"""Train one configuration whose algorithm is an external strategy, one worker a rank.

    PYTHONPATH=examples torchrun --standalone --nproc-per-node=4 -m experiments.external packages=[strategies] \\
        algorithm=torch_powersgd task=digits cluster.workers=4 lr=0.1

Keys are those of a run. The task, its data, batches, x₁, step sizes and evaluations are the harness's, as
is the folder that is left; x moves by the strategy alone, and bits are counted at torch.distributed. A finished run
is skipped. One that was stopped begins anew: what a strategy remembers is its own.
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
        from experiments.external.record import build_trainer, check  # torch, once the configuration is right
        from experiments.training.session import train_here

        check(run)
        train_here(run, build_trainer)


if __name__ == "__main__":
    main()
