"""Two-level process groups: dense inside a node, compressed between nodes."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ..compressors.base import Payload
from .gather_broadcast import broadcast, convert_collective_errors, rank_and_size


class Nodes:
    """The nodes of a process group. Each node is one worker. Without `intra_group` every rank is a node.

    The ranks of a node average their gradients. The first one `leads`: it exchanges messages with the other nodes.

    rank: the number of this rank's node, in the order of first ranks. size: the number of nodes. count: the
    number of ranks in a node. group: the ranks that have this rank's place in their nodes. order: all ranks of the
    process group, node by node.

    Raises ValueError on all ranks unless every rank is in exactly one node and all nodes have the same size. Raises
    LostContact.
    """

    def __init__(self, group: dist.ProcessGroup | None = None, intra_group: dist.ProcessGroup | None = None) -> None:
        rank, size = rank_and_size(group)
        ranks = dist.get_process_group_ranks(group or dist.group.WORLD)  # pyright: ignore[reportArgumentType]
        members = [ranks[rank]]
        if intra_group is not None:
            members = dist.get_process_group_ranks(intra_group) if dist.get_rank(intra_group) >= 0 else []
        of_ranks: list[Any] = [None] * size
        with convert_collective_errors():
            dist.all_gather_object(of_ranks, tuple(members), group)
        nodes = sorted(set(of_ranks), key=lambda node: [ranks.index(one) for one in node if one in ranks])
        given = [one for node in nodes for one in node]
        if sorted(given) != sorted(ranks) or any(one not in node for one, node in zip(ranks, of_ranks, strict=True)):
            groups = ", ".join(f"rank {one}: {list(node)}" for one, node in zip(ranks, of_ranks, strict=True))
            raise ValueError(
                f"intra_group= is {groups}. Every rank must give the group of its node, and each rank of the process "
                "group must be in one"
            )
        if len(given) > len(nodes) and size < dist.get_world_size():
            raise ValueError("intra_group= takes all ranks: leave out process_group=")
        if len({len(node) for node in nodes}) > 1:
            raise ValueError(f"intra_group= makes nodes of ranks {nodes}: all must have the same number of ranks")
        mine = members.index(ranks[rank])
        self.rank, self.size, self.count = nodes.index(tuple(members)), len(nodes), len(members)
        self.order = [ranks.index(one) for one in given]
        self.leads, self._intra, self.group = mine == 0, intra_group, group
        if self.count > 1:
            with convert_collective_errors():  # torch requires every rank to make all groups
                alike = [dist.new_group(list(places)) for places in zip(*nodes, strict=True)]
            self.group = alike[mine]

    def mean(self, gradient: Tensor) -> Tensor:
        """Average the gradients [d] of this rank's node, in place. Raises LostContact."""
        if self.count > 1:
            with convert_collective_errors():
                dist.all_reduce(gradient, group=self._intra)
            gradient /= self.count
        return gradient

    def gather(self, header: Tensor) -> Tensor:
        """Gather the headers [1, n] of a node's ranks as [1, ranks · n]. Raises LostContact."""
        if self.count == 1:
            return header
        headers = [torch.empty_like(header) for _ in range(self.count)]
        with convert_collective_errors():
            dist.all_gather(headers, header, self._intra)
        return torch.cat(headers, -1)

    def broadcast(self, answer: Payload) -> Payload:
        """Broadcast the leader's payload to its node. Other ranks pass one of its form. Raises LostContact."""
        return answer if self.count == 1 else broadcast(answer, self._intra)
