"""Rounds of two exchanges: a power iteration on the mean of the workers' matrices, which no process ever has."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ...core.algorithm import Answer, Payloads, ReplicaState, Sent, ServerState, Stage, Wanted, WorkerState
from ...utils.layout import Block, Layout, Split, check_layout
from ...utils.linalg import cut, joined, product
from . import Algorithm, Channel, Lr, MessageKey, Payload, keyed_seed


@dataclass
class Factored(ReplicaState):
    """A replica with the two factors of the mean, of all matrices side by side."""

    p: Tensor  # [*T, Σ m·r]
    q: Tensor  # [*T, Σ n·r]


@dataclass(frozen=True, kw_only=True)
class LowRank(Algorithm, ABC):
    """Rounds in which D = P Rᵀ of rank r stands for mean_i M_i, for every matrix of a layout that is compressed.

        worker   M_i of the gradient and of what is left of the round before       (`worker_message`)
        stage 1  up M_i Q, and what is no matrix;  down their means;  P = orth(mean_i M_i Q)
        stage 2  up M_iᵀ P;  down R = mean_i M_iᵀ P;  D = P Rᵀ;  Q for the next round of R

    A column of R that is zero leaves that of Q as it was, for a start from zero would stay there. The workers' memory
    is M_i, the signal D with the mean of all else. A subclass says what of M_i is left, and what replicas move by.
    """

    layout: Layout
    compressed: Layout  # blocks of it
    seed: int

    needs_all = "a worker subtracts D from its M_i, and without its message M_i is not in D"

    @abstractmethod
    def rank_of(self, block: Block) -> int:
        """The rank of a matrix, no larger than its sides."""

    @abstractmethod
    def left(self, memory: Tensor, signal: Tensor) -> Tensor:
        """What is left of M_i [*T, W, c] by the next round, where D [*T, 1, c] was made of them all."""

    def kept(self, memory: Tensor, p: Sequence[Tensor], right: Sequence[Tensor]) -> Tensor:
        """What a worker keeps of M_i [*T, W, c] once it has made M_iᵀ P, of every matrix."""
        return memory

    def factor(self, right: Tensor) -> Tensor:
        """Q [..., n, r] of the R of a matrix."""
        return right

    def along(self, block: Block, p: Tensor, right: Tensor) -> Tensor:
        """What replicas move by in a matrix [..., m, n], of its P and R."""
        return product(p, right.mT)

    def start_workers(self, x: Tensor, ids: Tensor) -> WorkerState:
        memory = self.split.apart(torch.zeros_like(x))[0].unsqueeze(-2)
        return WorkerState(ids=ids, memory=memory.repeat(*[1] * (x.dim() - 1), len(ids), 1))

    def start_server(self, x: Tensor) -> ServerState:
        return ServerState(aggregate=x.new_zeros(*x.shape[:-1], 0), memory=None)

    def start_replica(self, x: Tensor) -> Factored:
        p = x.new_zeros(*x.shape[:-1], self.side(rows=True))
        drawn = [torch.zeros(0, dtype=torch.float64, device="cpu")]  # standard normal, the same numbers everywhere
        for block, (rows, columns) in zip(self.compressed, self._shapes(rows=False), strict=True):
            generator = torch.Generator().manual_seed(keyed_seed(self.seed, "low rank", block.name))
            drawn.append(torch.randn(rows * columns, generator=generator, dtype=torch.float64, device="cpu"))
        q = torch.cat(drawn).to(x).expand(*x.shape[:-1], -1).clone()
        return Factored(**vars(super().start_replica(x)), p=p, q=q)

    def worker_message(self, gradient: Tensor, state: WorkerState, replica: ReplicaState, lr: Lr, t: int) -> Wanted:
        matrices, others = self.split.apart(gradient)
        before = self.left(state.memory, self.split.apart(replica.signal)[0].unsqueeze(-2))
        return self.split.together(matrices + before, others), state.moments

    def stages(self, t: int, lr: Lr = 0.0) -> tuple[Stage, ...]:
        return LeftFactor(self, self.uplink, self.downlink), RightFactor(self, self.uplink, self.downlink)

    def check(self, d: int) -> None:
        super().check(d)
        check_layout(self.layout, d)

    @property
    def split(self) -> Split:
        return Split(self.layout, self.compressed)

    def side(self, rows: bool) -> int:
        """Σ m·r, or Σ n·r."""
        return sum(one * rank for one, rank in self._shapes(rows))

    def is_turned(self, block: Block) -> bool:
        """Whether M is the transposed of a block, so that m are its columns."""
        return False

    def matrices(self, vectors: Tensor) -> list[Tensor]:
        """Of the compressed coordinates [..., c] every M [..., m, n]."""
        found = cut(vectors, [(block.rows, block.columns) for block in self.compressed])
        return [one.mT if self.is_turned(block) else one for one, block in zip(found, self.compressed, strict=True)]

    def flat(self, matrices: Iterable[Tensor], none: Tensor) -> Tensor:
        """The compressed coordinates [..., c] of every M; `none` [..., 0] where there is no matrix."""
        parts = zip(matrices, self.compressed, strict=True)
        return joined([one.mT if self.is_turned(block) else one for one, block in parts], none)

    def factors(self, vectors: Tensor, rows: bool) -> list[Tensor]:
        """Of P [..., Σ m·r] or Q [..., Σ n·r] every matrix's [..., m, r] or [..., n, r]."""
        return cut(vectors, self._shapes(rows))

    def _shapes(self, rows: bool) -> list[tuple[int, int]]:
        return [
            (block.rows if rows != self.is_turned(block) else block.columns, self.rank_of(block))
            for block in self.compressed
        ]


@dataclass(frozen=True)
class _Averaging:
    """A stage whose messages are numbers as they are: the server sends their mean back, and remembers nothing."""

    of: LowRank
    uplink: Channel
    downlink: Channel

    def server(self, payloads: Payloads, state: ServerState, t: int, seed: int) -> Answer:
        mean = self.of.mean(payloads, 0, t)
        return self.downlink.send(mean, None, MessageKey(seed, "down", t))[0], state

    def _sent(self, numbers: Tensor, state: WorkerState, t: int, seed: int) -> Payload:
        return self.uplink.send(numbers, None, MessageKey(seed, "up", t, tuple(state.ids.tolist())))[0]


class LeftFactor(_Averaging):
    """The first exchange: M_i Q and all that is no matrix."""

    def width(self, d: int) -> int:
        return self.of.side(rows=True) + d - sum(block.size for block in self.of.compressed)

    def worker(self, gradient: Tensor, state: WorkerState, replica: Any, lr: Lr, t: int, seed: int) -> Sent:
        wanted, moments = self.of.worker_message(gradient, state, replica, lr, t)
        memory, others = self.of.split.apart(wanted)
        q = self.of.factors(replica.q.unsqueeze(-2), rows=False)
        left = [product(m, one) for m, one in zip(self.of.matrices(memory), q, strict=True)]
        payload = self._sent(joined(left, others), state, t, seed)
        return payload, replace(state, memory=memory, moments=moments)

    def replica(self, payload: Payload, state: Any, lr: Lr, t: int) -> Factored:
        split, sides = self.of.split, self.of.side(rows=True)
        left, others = self.downlink.decode(payload, 0, t).tensor_split([sides], -1)
        p = [torch.linalg.qr(one).Q for one in self.of.factors(left, rows=True)]
        signal = split.together(split.apart(state.signal)[0], others)
        return replace(state, p=joined(p, left[..., :0]), signal=signal)


class RightFactor(_Averaging):
    """The second exchange, after which replicas move: M_iᵀ P."""

    def width(self, d: int) -> int:
        return self.of.side(rows=False)

    def worker(self, gradient: Tensor, state: WorkerState, replica: Any, lr: Lr, t: int, seed: int) -> Sent:
        p = self.of.factors(replica.p.unsqueeze(-2), rows=True)
        right = [product(m.mT, one) for m, one in zip(self.of.matrices(state.memory), p, strict=True)]
        memory = self.of.kept(state.memory, p, right)
        return self._sent(joined(right, memory[..., :0]), state, t, seed), replace(state, memory=memory)

    def replica(self, payload: Payload, state: Any, lr: Lr, t: int) -> Factored:
        of, split, mean = self.of, self.of.split, self.downlink.decode(payload, 0, t)
        p, right = of.factors(state.p, rows=True), of.factors(mean, rows=False)
        none, others = mean[..., :0], split.apart(state.signal)[1]
        products = [product(one, other.mT) for one, other in zip(p, right, strict=True)]
        along = [of.along(*block) for block in zip(of.compressed, p, right, strict=True)]
        signal, u = (split.together(of.flat(matrices, none), others) for matrices in (products, along))
        x, moments = of.update.step(state.x, of.clipped_aggregate(u), state.moments, lr, t)
        pairs = zip(right, of.factors(state.q, rows=False), strict=True)
        q = [torch.where(new.any(-2, keepdim=True), of.factor(new), old) for new, old in pairs]
        return replace(state, x=x, moments=moments, signal=signal, q=joined(q, none))
