"""Files that appear whole or not at all."""

import errno
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from common.errors import is_full


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
        with naming(target):
            yield temporary
            if durable:
                sync(temporary)
            os.replace(temporary, target)
            if durable:
                sync(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


def remove_halves(files: Iterable[Path]) -> None:
    """Remove what killed processes left of files that they were writing, of those given; what a process that lives
    on this machine has begun stays."""
    for file in files:
        writer = re.search(r"\.(\d+)-[0-9a-f]{32}\.tmp$", file.name)
        if not (writer and int(writer[1]) != os.getpid() and _lives(int(writer[1]))):
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
    if file.exists() and not file.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(file))
    return file


def sync(*places: Path) -> None:
    """Wait until files' bytes and folders' entries are on the disk itself.

    Raises OSError, but for a folder of a file system that cannot do this.
    """
    for place in places:
        descriptor = os.open(place, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP) or not place.is_dir():
                raise
        finally:
            os.close(descriptor)


@contextmanager
def naming(target: Path) -> Iterator[None]:
    """Turn whatever says that there is no room to write into an OSError that says where: into the file `target`, or
    somewhere below the folder `target`."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        if not is_full(error):
            raise
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target)) from error
