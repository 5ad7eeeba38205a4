"""What the processes of one launch agree on besides the algorithm's messages."""

from collections.abc import Callable, Mapping

import torch
import torch.distributed as dist

from algorithms.wire import contact
from common.errors import RunError, UsageError


class Ranks:
    """A process among `size`, of number `rank`, which is `local_rank` on its machine; as it is, the only one.

    Rank 0 writes, logs and decides; the others learn from it. All ranks call the same methods in the same order.
    """

    rank, size, local_rank = 0, 1, 0

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0."""
        return self.rank == 0

    def ids(self, workers: int) -> range:
        """Which of n workers this rank has: r·n/R to (r+1)·n/R − 1 on rank r of R, which divides n."""
        share = workers // self.size
        return range(self.rank * share, (self.rank + 1) * share)

    def any(self, mine: bool, alike: Callable[[], Mapping[str, int]] | None = None) -> bool:
        """Whether it is so on any rank.

        alike: what must be the same on all of them, whole numbers by name. Raises RunError, naming
        ranks and quantity, where one is not.
        """
        return mine

    def agree(self, facts: Mapping[str, object]) -> None:
        """Raise UsageError, naming rank and fact, where a rank does not have the facts of rank 0."""

    def told(self, value: int) -> int:
        """Rank 0's value, a whole number, on every rank."""
        return value

    def wait(self) -> None:
        """Until every rank is here."""
        self.any(False)


class Group(Ranks):
    """Those of the default process group, over CPU tensors. Every method raises LostContact."""

    def __init__(self, local_rank: int) -> None:
        self.rank, self.size, self.local_rank = dist.get_rank(), dist.get_world_size(), local_rank

    def any(self, mine: bool, alike: Callable[[], Mapping[str, int]] | None = None) -> bool:
        found = alike() if alike else {}
        # The largest of a number and of its negative: they cancel where it is the same everywhere.
        greatest = torch.tensor([mine, *found.values(), *(-value for value in found.values())])
        with contact():
            dist.all_reduce(greatest, dist.ReduceOp.MAX)
        flag, *both = greatest.tolist()
        for position, name in enumerate(found):
            if both[position] != -both[position + len(found)]:
                raise RunError(
                    f"{self._who_differs(found[name])}: {name} is not that of rank 0: a fault of memory, hardware or "
                    "libraries; the same command goes on from the last checkpoint"
                )
        return bool(flag)

    def agree(self, facts: Mapping[str, object]) -> None:
        mine = {name: str(fact) for name, fact in facts.items()}
        everyone: list[dict[str, str]] = [{}] * self.size
        with contact():
            dist.all_gather_object(everyone, mine)
        first = everyone[0]
        for rank, other in enumerate(everyone):
            for name in {**first, **other}:
                if other.get(name) != first.get(name):
                    theirs, ours = (facts.get(name, "none") for facts in (other, first))
                    raise UsageError(
                        f"{name}: {theirs} on rank {rank}, {ours} on rank 0; start all ranks by the same command, "
                        "from the same code and with the same packages and data"
                    )

    def _who_differs(self, value: int) -> str:
        """In words, the ranks whose value is not that of rank 0."""
        everyone = [torch.empty(1, dtype=torch.int64) for _ in range(self.size)]
        with contact():
            dist.all_gather(everyone, torch.tensor([value]))
        others = [str(rank) for rank, other in enumerate(everyone) if other != everyone[0]]
        return f"rank{'s' * (len(others) > 1)} {', '.join(others)}"

    def told(self, value: int) -> int:
        number = torch.tensor([value], dtype=torch.int64)
        with contact():
            dist.broadcast(number, src=0)
        return int(number)
