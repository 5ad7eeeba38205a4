"""One run of a sweep, in a process of its own.

    python -m experiments.sweep.child FILE [PACKAGE ...]

FILE is a configuration that the sweep resolved and checked; the packages of users are those that its command line let
in. Not for use by hand.
"""

from __future__ import annotations

import sys
from pathlib import Path

from common.errors import exit_with_message
from experiments.config.run import frozen
from experiments.training.session import train_here

if __name__ == "__main__":
    with exit_with_message():
        train_here(frozen(Path(sys.argv[1]), sys.argv[2:]))
