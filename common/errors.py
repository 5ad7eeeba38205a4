"""Errors meant for the person at the terminal: one message, no traceback."""

import errno
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn
from unicodedata import category

_CONTROL = ("Cc", "Zl", "Zp", "Cs")  # control, line and paragraph separators, half a pair
_FULL = (errno.ENOSPC, errno.EDQUOT)
_NO_ROOM = "make room, or have it written elsewhere; what was written whole is kept, and the same command goes on"
_FULL_OF_LIBRARIES = ("iostream error", "PytorchStreamWriter failed", "requested and 0 written")  # torch's, numpy's


class UsageError(Exception):
    """The configuration is wrong; nothing was started. Exit status 2."""


class RunError(Exception):
    """A run could not go on; what it had is kept. Exit status 1."""


class Diverged(RunError):
    """A number of a run is no longer finite, by its step size: what it had is all that will come of it."""


class DataError(Exception):
    """Data that is missing, damaged or asked for wrongly; the message is meant for the user as it is. Status 1."""


class Interrupted(KeyboardInterrupt):
    """The user or the system asked a run to stop; it can be resumed. Exit status 130.

    A KeyboardInterrupt, since no launcher may take it for a run that failed and go on with the next.
    """


@contextmanager
def exit_with_message() -> Iterator[None]:
    """Turn the errors above, those of the data loaders and the system's into a message and an exit status."""
    rank = _rank()
    where = f"rank {rank}: " if rank else ""
    try:
        if not os.stat(".").st_nlink:  # libraries would abort without a word
            raise UsageError("the working folder was removed: change to another one")
        if (encoding := sys.getfilesystemencoding()) != "utf-8":
            raise UsageError(f"this locale writes text in {encoding}, UTF-8 is needed: set PYTHONUTF8=1")
        yield
    except UsageError as error:
        # The same is wrong on all ranks of a machine: its first one speaks, and that of the first machine before a
        # launcher, which sees another end, ends it. Ranks that were started by hand may each have their terminal.
        if rank:
            time.sleep(2)
        local = (
            os.environ.get("LOCAL_RANK") if "TORCHELASTIC_RUN_ID" in os.environ else os.environ.get("SLURM_LOCALID")
        )
        _leave(2, f"error: {where}{error}" if local in (None, "0") or not rank else "")
    except BrokenPipeError:  # whoever read the output has gone: nothing more is said, at the exit neither
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _leave(1, "")
    except ConnectionError as error:
        _leave(1, f"error: {where}{lost_contact(error)}")
    except (RunError, DataError) as error:
        _leave(1, f"error: {where}{error}")
    except OSError as error:
        more = {errno.EFBIG: ": raise the limit, ulimit -f"} | dict.fromkeys(_FULL, f": {_NO_ROOM}")
        # Files are named where they are written; what is printed is left.
        name = error.filename or ("standard output" if error.errno in _FULL else "")
        reason = f"{error.strerror or error}{more.get(error.errno or 0, '')}"
        _leave(1, f"error: {where}{name}: {reason}" if name else f"error: {where}{reason}")
    except KeyboardInterrupt as error:
        _leave(130, "" if rank else str(error) or "stopped")


def is_full(error: Exception) -> bool:
    """Whether it says that a disk or a quota is full; libraries that write by themselves have words of their own."""
    return getattr(error, "errno", None) in _FULL or any(words in str(error) for words in _FULL_OF_LIBRARIES)


def lost_contact(error: ConnectionError) -> str:
    """What to say where another process is gone."""
    return (
        f"lost contact to the other ranks ({error}): the first message above or in their output says why; the same "
        "command goes on from the last checkpoint"
    )


def end_at_once(message: str) -> NoReturn:
    """End the process with a message and status 1 from a thread other than the main one, which is blocked."""
    rank = _rank()
    print(f"error: rank {rank}: {message}" if rank else f"error: {message}", file=sys.stderr, flush=True)
    os._exit(1)


def _rank() -> int:
    """This process's number in its launch, 0 for one started alone."""
    number = os.environ.get("RANK") or os.environ.get("SLURM_PROCID") or ""
    return int(number) if is_launched() and number.isdecimal() else 0


def is_launched() -> bool:
    """Whether a launcher started this process as a rank, as far as can be told before torch is imported."""
    return "WORLD_SIZE" in os.environ or os.environ.get("SLURM_STEP_NUM_TASKS", "1") != "1"


def _leave(status: int, message: str) -> NoReturn:
    for stream in (sys.stderr, sys.stdout) if message else ():
        with suppress(OSError):  # where the output goes to a disk that is full
            print(visible(message, allowed="\n\t"), file=stream, flush=True)
            break
    distributed = sys.modules.get("torch.distributed")
    if distributed and distributed.is_available() and distributed.is_initialized():
        sys.stdout.flush()
        os._exit(status)  # an orderly end would wait for ranks that may be gone
    sys.exit(status)


def visible(text: str, allowed: str = "") -> str:
    """A text with control characters, which move a terminal's cursor or end a line, written as in Python: \\x1b."""
    if text.isprintable():  # nearly every text
        return text
    return "".join(repr(c)[1:-1] if category(c) in _CONTROL and c not in allowed else c for c in text)
