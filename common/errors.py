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
_NO_ROOM = "make room, or choose another folder; complete files are kept, and the same command goes on"
_FULL_OF_LIBRARIES = ("iostream error", "PytorchStreamWriter failed", "requested and 0 written")  # torch's, numpy's


class UsageError(Exception):
    """The configuration is wrong; nothing was started. Exit status 2."""


class RunError(Exception):
    """A run could not go on; its results so far are kept. Exit status 1."""


class Diverged(RunError):
    """A run's numbers are no longer finite because of its step size. Resuming cannot help."""


class DataError(Exception):
    """Data is missing, damaged or requested wrongly. The user sees the message unchanged. Exit status 1."""


class Interrupted(KeyboardInterrupt):
    """The user or the system stopped a run, which can be resumed. Exit status 130.

    It is a KeyboardInterrupt so that no launcher takes it for a failed run and starts the next one.
    """


@contextmanager
def exit_with_message() -> Iterator[None]:
    """Turn the errors above, OSErrors and Ctrl-C into a message and an exit status."""
    rank = _rank()
    where = f"rank {rank}: " if rank else ""
    try:
        if not os.stat(".").st_nlink:  # libraries would abort without a word
            raise UsageError("the working folder was removed: change to another one")
        if (encoding := sys.getfilesystemencoding()) != "utf-8":
            raise UsageError(f"this locale writes text in {encoding}, UTF-8 is needed: set PYTHONUTF8=1")
        yield
    except UsageError as error:
        # All ranks of a machine have the same error, so the first one reports it. The others wait: a launcher that
        # sees one end might end rank 0 before it reports. Ranks started by hand may each have a terminal.
        if rank:
            time.sleep(2)
        local = (
            os.environ.get("LOCAL_RANK") if "TORCHELASTIC_RUN_ID" in os.environ else os.environ.get("SLURM_LOCALID")
        )
        _leave(2, f"error: {where}{error}" if local in (None, "0") or not rank else "")
    except BrokenPipeError:  # the reader of the output is gone: print nothing more, not even at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _leave(1, "")
    except ConnectionError as error:
        _leave(1, f"error: {where}{explain_lost_contact(error)}")
    except (RunError, DataError) as error:
        _leave(1, f"error: {where}{error}")
    except OSError as error:
        more = {errno.EFBIG: ": raise the limit, ulimit -f"} | dict.fromkeys(_FULL, f": {_NO_ROOM}")
        # An error without a file name comes from printing.
        name = error.filename or ("standard output" if error.errno in _FULL else "")
        reason = f"{error.strerror or error}{more.get(error.errno or 0, '')}"
        _leave(1, f"error: {where}{name}: {reason}" if name else f"error: {where}{reason}")
    except KeyboardInterrupt as error:
        _leave(130, "" if rank else str(error) or "stopped")


def is_disk_full(error: Exception) -> bool:
    """Whether an error says that a disk or quota is full, in the system's words or a library's."""
    return getattr(error, "errno", None) in _FULL or any(words in str(error) for words in _FULL_OF_LIBRARIES)


def explain_lost_contact(error: ConnectionError) -> str:
    """Explain that another process is gone, and how to continue."""
    return (
        f"lost contact to the other ranks ({error}): the first message above or in their output says why; the same "
        "command goes on from the last checkpoint"
    )


def end_at_once(message: str) -> NoReturn:
    """End the process with a message and status 1 from another thread while the main one is blocked."""
    rank = _rank()
    print(f"error: rank {rank}: {message}" if rank else f"error: {message}", file=sys.stderr, flush=True)
    os._exit(1)


def _rank() -> int:
    """This process's rank in its launch; 0 for one started alone."""
    number = os.environ.get("RANK") or os.environ.get("SLURM_PROCID") or ""
    return int(number) if is_launched() and number.isdecimal() else 0


def is_launched() -> bool:
    """Whether a launcher started this process as a rank. It reads the environment only, before torch is imported."""
    return "WORLD_SIZE" in os.environ or os.environ.get("SLURM_STEP_NUM_TASKS", "1") != "1"


def _leave(status: int, message: str) -> NoReturn:
    for stream in (sys.stderr, sys.stdout) if message else ():
        with suppress(OSError):  # the output may go to a full disk
            print(escape_controls(message, allowed="\n\t"), file=stream, flush=True)
            break
    distributed = sys.modules.get("torch.distributed")
    if distributed and distributed.is_available() and distributed.is_initialized():
        sys.stdout.flush()
        os._exit(status)  # an orderly end would wait for ranks that may be gone
    sys.exit(status)


def escape_controls(text: str, allowed: str = "") -> str:
    """Escape control characters as Python does (\\x1b): they move a terminal's cursor or end a line."""
    if text.isprintable():  # nearly every text
        return text
    return "".join(repr(c)[1:-1] if category(c) in _CONTROL and c not in allowed else c for c in text)
