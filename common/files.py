"""Files that appear whole or not at all, and locks that keep a second process out."""

import errno
import fcntl
import os
import re
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from common.errors import RunError, is_full


@contextmanager
def atomic(target: Path, durable: bool = False) -> Iterator[Path]:
    """Give a path to write to that becomes `target` if the with-block ends well, and is removed if not.

    Readers of `target` see the old file or the whole new one; with `durable` so do those after a power cut, who see
    the new one once the with-block has ended. Where `target` is a link, the file that it leads to is replaced.
    Raises OSError where the folder cannot be written to, where there is no room, and where `target` is a device, a
    pipe or a folder, which replacing would destroy.
    """
    target = target.resolve()
    if target.exists() and not target.is_file():
        raise OSError(errno.EINVAL, "not a regular file, so nothing is written there", str(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    # Not the tempfile module: its files are readable by their owner alone, and data folders are shared.
    temporary = target.with_name(f".{target.name}.{os.getpid()}-{uuid4().hex}.tmp")
    try:
        with naming(target, temporary):
            yield temporary
            if durable:
                sync(temporary)
            os.replace(temporary, target)
            if durable:
                sync(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


def refuse_links(folder: Path, *below: str) -> None:
    """Raise RunError if a folder, an entry of it, or a path that a pattern matches in it is a link.

    Through a link, a command would write and remove files elsewhere.
    """
    for place in (folder, *(found for pattern in ("*", *below) for found in folder.glob(pattern))):
        if place.is_symlink():
            raise RunError(f"{place}: is a link, so nothing is written there; put the folder or file itself there")


def remove_halves(files: Iterable[Path]) -> None:
    """Remove what killed processes left of files that they were writing, of those given; what a process that lives
    on this machine has begun stays."""
    for file in files:
        writer = re.fullmatch(r"\..+\.(\d+)-[0-9a-f]{32}\.tmp", file.name)
        if writer and (int(writer[1]) == os.getpid() or not _lives(int(writer[1]))):
            file.unlink(missing_ok=True)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # it is another user's
        pass
    return True


def regular(file: Path) -> Path:
    """The same path. Raises OSError where it is a device, a pipe, a socket or a folder: reading one need not end."""
    if not os.path.isfile(file) and file.exists():  # faster than Path.is_file
        raise OSError(errno.EINVAL, "not a regular file", str(file))
    return file


def sync(*places: Path) -> None:
    """Wait until files' bytes and folders' entries are on the disk itself.

    Raises OSError, except on a file system that cannot do this.
    """
    for place in places:
        descriptor = os.open(place, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):
                raise
        finally:
            os.close(descriptor)


@contextmanager
def naming(target: Path, temporary: Path | None = None) -> Iterator[None]:
    """Raise any error about missing space as an OSError that names `target`, a file or folder.

    Errors of the system that name no file, or `temporary`, name it too."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        if not is_full(error):
            if isinstance(error, OSError) and error.errno and error.filename in (None, str(temporary)):
                error.filename = str(target)
            raise
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target)) from error


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
