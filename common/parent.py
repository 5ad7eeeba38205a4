"""Processes that do not outlive the one that started them, however that ended.

    python -m common.parent MODULE [ARGUMENT ...]

is `python -m MODULE ARGUMENT ...` as such a process. Not for use by hand.
"""

import ctypes
import os
import runpy
import signal
import socket
import sys
import threading
import time
from contextlib import suppress

GRACE = 4.0
"""Seconds that a process has for an orderly end once its parent is gone."""

_VARIABLE = "EXPERIMENTS_PARENT"
_PAUSE = 0.2  # seconds between two looks
_ANSWER = 5.0  # seconds
_DEATH_SIGNAL = 1  # prctl's PR_SET_PDEATHSIG


def named() -> dict[str, str]:
    """The variable that tells a process started by the command line above who its parent is.

    A parent that is gone before the process could look would else be taken for whoever inherited it.
    """
    return {_VARIABLE: str(os.getpid())}


def end_with_parent(parent: int) -> None:
    """Have this process end once its parent, the process of this id, has: as by SIGTERM, and GRACE seconds later at
    once, since a rank that waits for the others in a collective cannot act on a signal."""
    with suppress(OSError, AttributeError):  # Linux alone has it
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGCONT)  # or one that is stopped could not look
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def end_with_torchrun() -> None:
    """The same for a process that a torchrun started as one of its ranks.

    Where torchrun was gone before the rank could look, nobody answers at its port any more, on one machine at least.
    """
    end_with_parent(os.getppid())
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        try:
            place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
            socket.create_connection(place, _ANSWER).close()
        except ConnectionRefusedError:
            sys.exit("error: torchrun, which started this rank, is gone")
        except (OSError, KeyError, ValueError):
            pass  # it is for whoever joins the ranks to say what is wrong


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_PAUSE)
    with suppress(OSError):
        print(f"process {os.getpid()} ends: the one that started it, {parent}, is gone", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(1)


if __name__ == "__main__":
    end_with_parent(int(os.environ[_VARIABLE]))
    os.environ.update(named())  # for what it starts itself, as torchrun does its ranks
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
