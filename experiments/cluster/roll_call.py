"""Which ranks did not answer, where a collective ran into its time-out."""

import os
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from torch.distributed.distributed_c10d import PrefixStore, Store

from algorithms.comm.gather_broadcast import LostContact
from common.errors import RunError
from experiments.cluster.deadline import deadline

_PAUSE = 0.05  # seconds between two looks


class RollCall:
    """Every rank that loses contact says so in the launch's store; a rank that hangs is one that does not.

    A collective's own error names none: it comes from whichever message was waited for.
    """

    def __init__(self, store: Store, rank: int, size: int, patience: float) -> None:
        """patience: seconds that the others have to say that they wait, too."""
        self._store, self._rank, self._size = PrefixStore("roll call", store), rank, size
        self._patience = patience
        self._said: str | None = None
        self._store.set(f"process {rank}", f"{socket.gethostname()} {os.getpid()}")

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Turn an error of the with-block that a time-out led to into a RunError that names who did not answer."""
        try:
            yield
        except Exception as error:
            if who := self.missing(error):
                raise RunError(f"{who}; {error}") from error
            raise

    def missing(self, error: BaseException) -> str:
        """Who did not answer, in words, and is ended, where an error comes of a time-out; else nothing."""
        lost = _contact_lost_by(error)
        if lost is not None and self._said is None:
            self._said = ""
            for number in (signal.SIGINT, signal.SIGTERM):  # the launcher's, which ends all where it has noticed
                signal.signal(number, signal.SIG_IGN)
            silent = f"rank 0, or the machine of the launch's store, does not answer: {error}"
            with deadline(self._patience + 2, silent), suppress(RuntimeError):  # where the store is gone
                if missing := self._missing(self._patience if "imed out" in str(lost) else 0):
                    self._end(missing)
                    self._said = f"no answer from {', '.join(map(self._named, missing))}"
        return self._said or "" if lost else ""

    def _missing(self, patience: float) -> list[int]:
        """The ranks that did not report within so many seconds; none where there is no time for them to."""
        self._store.set(f"lost {self._rank}", "")
        limit, waiting = time.monotonic() + patience, list(range(self._size))
        while time.monotonic() < limit and waiting:
            waiting = [rank for rank in waiting if not self._store.check([f"lost {rank}"])]
            time.sleep(_PAUSE)
        return waiting if patience else []

    def _named(self, rank: int) -> str:
        host, process = self._process(rank)
        return f"rank {rank} (process {process} on {host})"

    def _process(self, rank: int) -> Sequence[str]:
        key = f"process {rank}"
        return self._store.get(key).decode().split() if self._store.check([key]) else ("?", "?")

    def _end(self, missing: Sequence[int]) -> None:
        """Those on this machine. The launcher would wait for them, since what is stopped or hangs hears no signal."""
        for rank in missing:
            host, process = self._process(rank)
            with suppress(OSError):
                if host == socket.gethostname() and _is_sibling(int(process)):
                    os.kill(int(process), signal.SIGKILL)


def _is_sibling(process: int) -> bool:
    """Whether the launcher that started this process started that one, as far as the system tells."""
    with suppress(OSError):
        parent = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        return process != os.getpid() and parent == os.getppid()
    return False


def _contact_lost_by(error: BaseException | None) -> LostContact | None:
    """The loss of contact that an error is or was raised from."""
    while error is not None and not isinstance(error, LostContact):
        error = error.__cause__
    return error
