"""Locks that keep a second process out, and say which process is in."""

import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from common.errors import RunError


@contextmanager
def held(file: Path, what: str, place: str, patience: float) -> Iterator[None]:
    """Hold the lock `file` of a `what` through a with-block, with this host and process named in it.

    place: the setting that says where such a one lies. patience: seconds to wait for another process.
    Raises RunError, naming that process, where it does not let go, and where the file system does not lock; OSError
    where the file cannot be made.
    """
    try:
        lock = FileLock(file, timeout=patience, fallback_to_soft=False, on_acquired=_sign).acquire()
    except Timeout as error:
        refused = _refusal(file)
        if refused is not None:
            raise _unlockable(file, what, place, refused) from error
        who = f"another process is at this {what}{signature(file)}"
        raise RunError(f"{file.parent}: {who}; wait for it or stop it") from error
    except NotImplementedError as error:
        raise _unlockable(file, what, place, OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))) from error
    except OSError as error:
        if error.filename is not None:  # it could not be opened
            raise
        raise _unlockable(file, what, place, error) from error
    with lock:
        yield


def signature(file: Path) -> str:
    """The process that held a lock last, in brackets behind a space; empty where that is this one or not known."""
    with suppress(OSError, ValueError):
        host, pid = file.read_text().split()
        return f" (process {int(pid)} on {host})" if (host, pid) != _own() else ""
    return ""


def _sign(descriptor: int) -> None:
    """Name this process in its lock. On a full disk it stays without a name."""
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, " ".join([*_own(), "\n"]).encode(), 0)


def _own() -> tuple[str, str]:
    return socket.gethostname(), str(os.getpid())


def _refusal(file: Path) -> OSError | None:
    """The error other than that another process has it, which filelock takes for that."""
    try:
        with file.open("rb+") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    except OSError as error:
        return error
    return None


def _unlockable(file: Path, what: str, place: str, error: OSError) -> RunError:
    name = errno.errorcode.get(error.errno or 0, "error")
    return RunError(
        f"{file}: cannot be locked ({name}: {error.strerror}): on this file system nothing would keep two processes "
        f"from writing one {what}; mount it with locks, or put {place} on another one"
    )
