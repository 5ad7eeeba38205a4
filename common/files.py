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

from common.errors import RunError, is_disk_full


@contextmanager
def atomic_write(target: Path, durable: bool = False) -> Iterator[Path]:
    """Yield a temporary path that becomes `target` if the with-block succeeds, and is removed if it fails.

    Readers of `target` see the old file or the complete new one. With `durable` this also holds after a power cut.
    After the with-block they see the new one. If `target` is a link, the file behind it is replaced.
    Raises OSError if the folder is not writable, if the disk is full, and if `target` is a device, pipe or folder:
    replacing would destroy it.
    """
    target = target.resolve()
    if target.exists() and not target.is_file():
        raise OSError(errno.EINVAL, "not a regular file, so nothing is written there", str(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    # The tempfile module's files are readable by their owner alone, but data folders are shared.
    temporary = target.with_name(f".{target.name}.{os.getpid()}-{uuid4().hex}.tmp")
    try:
        with name_in_errors(target, temporary):
            yield temporary
            if durable:
                sync(temporary)
            os.replace(temporary, target)
            if durable:
                sync(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


def refuse_links(folder: Path, *below: str) -> None:
    """Raise RunError if a folder, an entry in it, or a path that matches a pattern in it is a link.

    Through a link, a command would write and remove files elsewhere.
    """
    for place in (folder, *(entry for pattern in ("*", *below) for entry in folder.glob(pattern))):
        if place.is_symlink():
            raise RunError(f"{place}: is a link, so nothing is written there; put the folder or file itself there")


def remove_partial_files(files: Iterable[Path]) -> None:
    """Remove temporary files of killed processes. Processes alive on this machine keep theirs."""
    for file in files:
        writer = re.fullmatch(r"\..+\.(\d+)-[0-9a-f]{32}\.tmp", file.name)
        if writer and (int(writer[1]) == os.getpid() or not _is_alive(int(writer[1]))):
            file.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # another user's process
        pass
    return True


def require_regular(file: Path) -> Path:
    """Return the path. Raises OSError if it is a device, pipe, socket or folder: reading one may never end."""
    if not os.path.isfile(file) and file.exists():  # faster than Path.is_file
        raise OSError(errno.EINVAL, "not a regular file", str(file))
    return file


def sync(*places: Path) -> None:
    """Wait until the bytes of files and the entries of folders are on disk.

    A file system that cannot do this is accepted; other failures raise OSError.
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
def name_in_errors(target: Path, temporary: Path | None = None) -> Iterator[None]:
    """Name `target`, a file or folder, in errors. A full disk is raised as an OSError.

    An OSError that names a file other than `temporary` keeps that name."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        if not is_disk_full(error) or getattr(error, "filename", None) not in (None, str(temporary)):
            if isinstance(error, OSError) and error.errno and error.filename in (None, str(temporary)):
                error.filename = str(target)
            raise
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target)) from error


@contextmanager
def hold_lock(file: Path, what: str, place: str, patience: float) -> Iterator[None]:
    """Hold the lock `file` of a `what` (run, sweep, …) in a with-block. The file names this host and process.

    place: the setting that chooses its folder, for messages. patience: seconds to wait for another process.
    Raises RunError if another process keeps the lock, naming it, or if the file system cannot lock. Raises OSError
    if the file cannot be created.
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
                        f"{file.parent}: another process uses this {what}{who}; wait for it or stop it"
                    ) from error
                time.sleep(0.05)
            except OSError as error:
                name = errno.errorcode.get(error.errno or 0, "error")
                raise RunError(
                    f"{file}: cannot be locked ({name}: {error.strerror}): two processes could write "
                    f"one {what}; put {place} on another file system"
                ) from error
        with suppress(OSError):  # on a full disk the lock holds without a name
            os.ftruncate(stream.fileno(), 0)
            os.write(stream.fileno(), f"{own}\n".encode())
        yield
