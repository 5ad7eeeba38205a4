"""What the processes of one launch agree on besides the algorithm's messages."""

import torch
import torch.distributed as dist

from algorithms.wire import contact


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

    def any(self, mine: bool) -> bool:
        """Whether it is so on any rank."""
        return mine

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

    def any(self, mine: bool) -> bool:
        flag = torch.tensor([mine], dtype=torch.uint8)
        with contact():
            dist.all_reduce(flag, dist.ReduceOp.MAX)
        return bool(flag)

    def told(self, value: int) -> int:
        number = torch.tensor([value], dtype=torch.int64)
        with contact():
            dist.broadcast(number, src=0)
        return int(number)
