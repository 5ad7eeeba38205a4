"""Locks that keep a second process out, and say which process is in."""

import errno
import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from common.errors import RunError


@contextmanager
def held(file: Path, what: str, place: str, patience: float) -> Iterator[None]:
    """Hold the lock `file` of a `what` through a with-block, with this host and process named in it.

    place: the setting that says where such a one lies. patience: seconds to wait for another process.
    Raises RunError, naming that process, where it does not let go, and where the file system does not lock; OSError
    where the file cannot be made.
    """
    end, own = time.monotonic() + patience, f"{socket.gethostname()} {os.getpid()}"
    with file.open("a+") as stream:
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() >= end:
                    stream.seek(0)
                    host, _, pid = stream.read().strip().partition(" ")
                    who = f" (process {pid} on {host})" if pid and f"{host} {pid}" != own else ""
                    raise RunError(
                        f"{file.parent}: another process is at this {what}{who}; wait for it or stop it"
                    ) from error
                time.sleep(0.05)
            except OSError as error:
                name = errno.errorcode.get(error.errno or 0, "error")
                raise RunError(
                    f"{file}: cannot be locked ({name}: {error.strerror}): two processes could write "
                    f"one {what}; put {place} on another file system"
                ) from error
        with suppress(OSError):  # on a full disk it stays without a name
            os.ftruncate(stream.fileno(), 0)
            os.write(stream.fileno(), f"{own}\n".encode())
        yield
