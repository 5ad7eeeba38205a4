"""Communication of a launch's processes besides the algorithm's messages."""

import errno
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from threading import Timer
from typing import Any, cast

import torch
import torch.distributed as dist

from algorithms.comm.gather_broadcast import LostContact, convert_collective_errors
from common.errors import RunError, UsageError, end_at_once

Content = bytes | memoryview

_PATIENCE = 3.0  # seconds that other ranks have to answer


def shares(workers: int, ranks: int, groups: int | None = None) -> list[int]:
    """Return how many of n workers each rank has: equally many, or one more on the first ranks.

    With groups a rank has whole groups, or a part of one. Raises UsageError if neither is possible.
    """
    if groups and ranks <= groups:
        return [count * (workers // groups) for count in shares(groups, ranks)]
    if groups and ranks % groups == 0:
        return shares(workers // groups, ranks // groups) * groups
    if groups:
        raise UsageError(
            f"cluster.groups={groups}: {ranks} ranks cannot share them; start at most {groups} ranks, "
            f"or a multiple of {groups}"
        )
    return [workers // ranks + (rank < workers % ranks) for rank in range(ranks)]


class Ranks:
    """Process `rank` of `size`, number `local_rank` on its machine.

    An object of this class is the only process, or stands for the first of `size` without starting the others.

    Rank 0 writes, logs and decides; the others learn from it. All ranks call the same methods in the same order.
    """

    rank, local_rank = 0, 0

    def __init__(self, size: int = 1) -> None:
        self.size = size

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0."""
        return self.rank == 0

    def ids(self, workers: int, groups: int | None = None) -> range:
        """Return this rank's workers out of n. Ranks take consecutive workers, in order of rank.

        Raises UsageError if ranks cannot share the groups.
        """
        counts = shares(workers, self.size, groups)
        first = sum(counts[: self.rank])
        return range(first, first + counts[self.rank])

    def any(self, mine: bool, alike: Callable[[], Mapping[str, int]] | None = None) -> bool:
        """Whether `mine` is true on any rank.

        alike: returns whole numbers by name, which must be equal on all ranks; not called on a single rank. Raises
        RunError, naming ranks and quantity, if one differs.
        """
        return mine

    def any_before(self, mine: bool) -> bool:
        """Whether `mine` was true on any rank at the call before; a call of `any` in between forgets it. Ranks do not
        wait for one another."""
        return mine

    def agree(self, facts: Mapping[str, object]) -> None:
        """Raise UsageError, naming rank and fact, if a rank's facts differ from rank 0's."""

    def from_first(self, value: int) -> int:
        """Return rank 0's value, a whole number, on every rank."""
        return value

    def collect(self, names: Iterable[str], make: Callable[[str], Content]) -> Iterator[tuple[str, Content]]:
        """Send rank 0 what every rank makes for its names. Rank 0 yields names and contents, the others nothing."""
        return ((name, make(name)) for name in names)

    def fetch(self, names: Sequence[str], read: Callable[[str], bytes]) -> Iterable[Content]:
        """Let rank 0 read these names for this rank. Every rank calls this, with names of its own.

        Raises FileNotFoundError if rank 0 cannot read one of this rank's names.
        """
        return map(read, names)  # one in memory at a time

    def silent_ranks(self, error: BaseException) -> str:
        """Name the ranks that did not answer, if that caused the error; else return nothing."""
        return ""

    def wait(self) -> None:
        """Wait until every rank is here."""
        self.any(False)


class Group(Ranks):
    """The ranks of the default process group, over CPU tensors. Every method raises LostContact."""

    def __init__(self, local_rank: int) -> None:
        self.rank, self.size, self.local_rank = dist.get_rank(), dist.get_world_size(), local_rank
        self._pending: tuple[dist.Work, torch.Tensor] | None = None  # the last `any_before`, not yet answered
        # A group of its own, since a collective that ran into its time-out closes the connections of its group.
        self._roll_call = cast(dist.ProcessGroup, dist.new_group(backend="gloo"))
        self._missing: str | None = None

    def any(self, mine: bool, alike: Callable[[], Mapping[str, int]] | None = None) -> bool:
        self._wait_for_answer()  # ranks that wanted to stop say so again
        said = self._gather_objects((mine, alike() if alike else {}))
        first = said[0][1]
        for name in first:
            if others := [rank for rank, (_, found) in enumerate(said) if found[name] != first[name]]:
                raise RunError(
                    f"rank{'s' * (len(others) > 1)} {', '.join(map(str, others))}: {name} differs from rank 0's: a "
                    "fault of memory, hardware or libraries; the same command goes on from the last checkpoint"
                )
        return any(flag for flag, _ in said)

    def any_before(self, mine: bool) -> bool:
        answer, flag = self._wait_for_answer(), torch.tensor(int(mine))
        with convert_collective_errors():
            self._pending = cast(dist.Work, dist.all_reduce(flag, dist.ReduceOp.MAX, async_op=True)), flag
        return answer

    def _wait_for_answer(self) -> bool:
        """Wait for the answer to the last `any_before`; False without one."""
        if self._pending is None:
            return False
        asking, flag = self._pending
        self._pending = None
        with convert_collective_errors():
            asking.wait()
        return bool(flag)

    def agree(self, facts: Mapping[str, object]) -> None:
        first, *others = self._gather_objects({name: str(fact) for name, fact in facts.items()})
        for rank, theirs in enumerate(others, 1):
            for name in {**first, **theirs}:
                here, there = (found.get(name, "none") for found in (theirs, first))
                if here != there:
                    raise UsageError(
                        f"{name}: {here} on rank {rank}, {there} on rank 0; start all ranks by the same command, "
                        "from the same code and with the same packages and data"
                    )

    def _gather_objects(self, mine: Any) -> list[Any]:
        """Return every rank's object, in order of ranks."""
        said = [None] * self.size
        with convert_collective_errors():
            dist.all_gather_object(said, mine)
        return said

    def collect(self, names: Iterable[str], make: Callable[[str], Content]) -> Iterator[tuple[str, Content]]:
        everyones = self._gather_objects([*names])
        if not self.is_first:
            for name in everyones[self.rank]:
                _send(make(name), 0)
            return
        for rank, theirs in enumerate(everyones):
            for name in theirs:
                yield name, _receive(rank) if rank else make(name)

    def fetch(self, names: Sequence[str], read: Callable[[str], bytes]) -> Iterable[Content]:
        everyones = self._gather_objects(names)
        if not self.is_first:
            found = [_receive(0) for _ in names]
            if b"" in found:
                raise FileNotFoundError(errno.ENOENT, "rank 0 cannot read it", names[found.index(b"")])
            return found
        for rank, theirs in enumerate(everyones[1:], 1):
            for name in theirs:
                try:
                    content = read(name)
                except OSError:
                    content = b""  # no file is empty
                _send(content, rank)
        return super().fetch(names, read)

    def silent_ranks(self, error: BaseException) -> str:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, LostContact):
            cause = cause.__cause__
        if "imed out" not in str(cause):
            return ""
        if self._missing is None:
            # Only rank 0 keeps to the time-out of the barrier.
            with deadline(2 * _PATIENCE, f"no answer from rank 0; {error}"):
                self._missing = self._call_roll()
        return self._missing

    def _call_roll(self) -> str:
        try:
            dist.monitored_barrier(self._roll_call, timedelta(seconds=_PATIENCE), wait_all_ranks=True)
        except RuntimeError as error:
            if named := re.search(r"[Rr]anks? ([\d, ]+) failed to pass", str(error)):
                return f"no answer from rank{'s' * (',' in named[1])} {named[1]}"
        return ""

    def from_first(self, value: int) -> int:
        number = torch.tensor([value], dtype=torch.int64)
        with convert_collective_errors():
            dist.broadcast(number, src=0)
        return int(number)


def _send(content: Content, rank: int) -> None:
    with convert_collective_errors():
        dist.send(torch.tensor([len(content)]), rank)
        if len(content):
            dist.send(torch.frombuffer(bytearray(content), dtype=torch.uint8), rank)


def _receive(rank: int) -> Content:
    size = torch.zeros(1, dtype=torch.int64)
    with convert_collective_errors():
        dist.recv(size, rank)
        content = torch.empty(int(size), dtype=torch.uint8)
        if len(content):
            dist.recv(content, rank)
    return content.numpy().data


@contextmanager
def deadline(seconds: float, message: str) -> Iterator[None]:
    """End this process with an error message if the with-block takes longer than `seconds`. Neither a signal nor an
    exception would reach a thread that waits for other ranks."""
    timer = Timer(seconds, end_at_once, [message])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
