"""Mirror one run to wandb while it goes on, until standard input ends.

    python -m experiments.loggers.follow FOLDER

What a run with logger=wandb starts beside itself; it reads the folder and takes as little as possible of the
processors. Every line that it prints is shown by the run.
"""

import os
import select
import signal
import sys
from functools import partial
from pathlib import Path

from experiments.loggers.service import one_line, serving
from plots.runs.read import open_run

PAUSE = 1.0  # seconds between two looks for new rows


def main() -> None:
    """The command line above."""
    os.nice(10)  # training first
    for number in (signal.SIGINT, signal.SIGTERM):  # which are for the run; a job's end reaches all its processes
        signal.signal(number, signal.SIG_IGN)
    folder, say = Path(sys.argv[1]), partial(print, flush=True)
    try:
        from experiments.loggers.mirror import Mirror  # a broken wandb is one more reason to do without

        options = open_run(folder).config["logger"]
        patience = options["finish_timeout"]  # for the mirror of a run that was killed, which may still be sending
        with serving():
            Mirror(options["mode"], watched=os.getppid()).show(folder, options, say, _ended, patience)
    except Exception as error:
        say(f"wandb: incomplete ({one_line(error)}); to send the rest: python -m experiments.upload {folder}")


def _ended() -> bool:
    """Whether the run has ended, which closes its side of standard input; looks again after a pause."""
    ready, _, _ = select.select([sys.stdin], [], [], PAUSE)
    return bool(ready)


if __name__ == "__main__":
    main()
