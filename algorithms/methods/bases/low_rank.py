"""Rounds of two exchanges: a power iteration on the mean of the workers' matrices, which no process forms."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ...core.algorithm import Answer, Payloads, ReplicaState, Sent, ServerState, Stage, Wanted, WorkerState
from ...utils.layout import Block, Layout, Split, check_layout
from ...utils.linalg import cut, join, orthonormalize, product
from . import Algorithm, Channel, Lr, MessageKey, Payload, keyed_seed


@dataclass
class Factored(ReplicaState):
    """A replica with both factors of the mean, for all matrices, concatenated."""

    p: Tensor  # [*T, Σ m·r]
    q: Tensor  # [*T, Σ n·r]


@dataclass(frozen=True, kw_only=True)
class LowRank(Algorithm, ABC):
    """Rounds in which D = P Rᵀ of rank r approximates mean_i M_i, for every compressed matrix of a layout.

        worker   M_i = gradient plus the rest of the previous M_i       (`worker_message`)
        stage 1  up M_i Q, and all else uncompressed;  down their means;  P = orth(mean_i M_i Q)
        stage 2  up M_iᵀ P;  down R = mean_i M_iᵀ P;  D = P Rᵀ;  next Q from R

    A zero column of R does not replace its column of Q, because a zero column would stay zero. The workers' memory is
    M_i, the signal D with the mean of all else. A subclass defines the rest of M_i, and the replicas' step.
    """

    layout: Layout
    compressed: Layout  # blocks of it
    seed: int

    needs_all = "a worker subtracts D from its M_i, and without its message M_i is not in D"

    @abstractmethod
    def rank_of(self, block: Block) -> int:
        """Return the rank of a matrix, at most its smaller side."""

    @abstractmethod
    def carry_over(self, memory: Tensor, signal: Tensor) -> Tensor:
        """Return the rest of M_i [*T, W, c] for the next round, given D [*T, 1, c] of all workers."""

    def update_memory(self, memory: Tensor, p: Sequence[Tensor], right: Sequence[Tensor]) -> Tensor:
        """Return the new memory from M_i [*T, W, c] and every matrix's P and M_iᵀ P."""
        return memory

    def next_factor(self, right: Tensor) -> Tensor:
        """Return a matrix's next Q [..., n, r] from its R."""
        return right

    def matrix_step(self, block: Block, p: Tensor, right: Tensor) -> Tensor:
        """Return the replicas' step of a matrix [..., m, n] from its P and R."""
        return product(p, right.mT)

    def start_workers(self, x: Tensor, ids: Tensor) -> WorkerState:
        memory = self.split.separate(torch.zeros_like(x))[0].unsqueeze(-2)
        return WorkerState(ids=ids, memory=memory.repeat(*[1] * (x.dim() - 1), len(ids), 1))

    def start_server(self, x: Tensor) -> ServerState:
        return ServerState(aggregate=x.new_zeros(*x.shape[:-1], 0), memory=None)

    def start_replica(self, x: Tensor) -> Factored:
        p = x.new_zeros(*x.shape[:-1], self.factor_size(rows=True))
        drawn = [torch.zeros(0, dtype=torch.float64, device="cpu")]  # standard normal, equal everywhere
        for block, (rows, columns) in zip(self.compressed, self._factor_shapes(rows=False), strict=True):
            generator = torch.Generator().manual_seed(keyed_seed(self.seed, "low rank", block.name))
            drawn.append(torch.randn(rows * columns, generator=generator, dtype=torch.float64, device="cpu"))
        q = torch.cat(drawn).to(x).expand(*x.shape[:-1], -1).clone()
        return Factored(**vars(super().start_replica(x)), p=p, q=q)

    def worker_message(self, gradient: Tensor, state: WorkerState, replica: ReplicaState, lr: Lr, t: int) -> Wanted:
        matrices, others = self.split.separate(gradient)
        before = self.carry_over(state.memory, self.split.separate(replica.signal)[0].unsqueeze(-2))
        return self.split.join(matrices + before, others), state.moments

    def stages(self, t: int, lr: Lr = 0.0) -> tuple[Stage, ...]:
        return LeftFactor(self, self.uplink, self.downlink), RightFactor(self, self.uplink, self.downlink)

    def check(self, d: int) -> None:
        super().check(d)
        check_layout(self.layout, d)

    @property
    def split(self) -> Split:
        return Split(self.layout, self.compressed)

    def factor_size(self, rows: bool) -> int:
        """Return Σ m·r, or Σ n·r."""
        return sum(one * rank for one, rank in self._factor_shapes(rows))

    def is_transposed(self, block: Block) -> bool:
        """Whether M is the block transposed, so that m counts its columns."""
        return False

    def split_matrices(self, vectors: Tensor) -> list[Tensor]:
        """Split the compressed coordinates [..., c] into every M [..., m, n]."""
        found = cut(vectors, [(block.rows, block.columns) for block in self.compressed])
        return [m.mT if self.is_transposed(block) else m for m, block in zip(found, self.compressed, strict=True)]

    def flatten(self, matrices: Iterable[Tensor], none: Tensor) -> Tensor:
        """Return the compressed coordinates [..., c] of every M; `none` [..., 0] if there is no matrix."""
        parts = zip(matrices, self.compressed, strict=True)
        return join([m.mT if self.is_transposed(block) else m for m, block in parts], none)

    def split_factors(self, vectors: Tensor, rows: bool) -> list[Tensor]:
        """Split P [..., Σ m·r] or Q [..., Σ n·r] into the matrices' [..., m, r] or [..., n, r]."""
        return cut(vectors, self._factor_shapes(rows))

    def _factor_shapes(self, rows: bool) -> list[tuple[int, int]]:
        return [
            (block.rows if rows != self.is_transposed(block) else block.columns, self.rank_of(block))
            for block in self.compressed
        ]


@dataclass(frozen=True)
class _Averaging:
    """A stage of uncompressed numbers. The server sends their mean back, and has no memory."""

    method: LowRank
    uplink: Channel
    downlink: Channel

    def server(self, payloads: Payloads, state: ServerState, t: int, seed: int) -> Answer:
        mean = self.method.mean(payloads, 0, t)
        return self.downlink.send(mean, None, MessageKey(seed, "down", t))[0], state

    def _send(self, numbers: Tensor, state: WorkerState, t: int, seed: int) -> Payload:
        return self.uplink.send(numbers, None, MessageKey(seed, "up", t, tuple(state.ids.tolist())))[0]


class LeftFactor(_Averaging):
    """The first exchange: M_i Q and all uncompressed coordinates."""

    def message_size(self, d: int) -> int:
        return self.method.factor_size(rows=True) + d - sum(block.size for block in self.method.compressed)

    def worker(self, gradient: Tensor, state: WorkerState, replica: Any, lr: Lr, t: int, seed: int) -> Sent:
        wanted, moments = self.method.worker_message(gradient, state, replica, lr, t)
        memory, others = self.method.split.separate(wanted)
        q = self.method.split_factors(replica.q.unsqueeze(-2), rows=False)
        left = [product(m, one) for m, one in zip(self.method.split_matrices(memory), q, strict=True)]
        payload = self._send(join(left, others), state, t, seed)
        return payload, replace(state, memory=memory, moments=moments)

    def replica(self, payload: Payload, state: Any, lr: Lr, t: int) -> Factored:
        split, sides = self.method.split, self.method.factor_size(rows=True)
        left, others = self.downlink.decode(payload, 0, t).tensor_split([sides], -1)
        p = [orthonormalize(one) for one in self.method.split_factors(left, rows=True)]
        signal = split.join(split.separate(state.signal)[0], others)
        return replace(state, p=join(p, left[..., :0]), signal=signal)


class RightFactor(_Averaging):
    """The second exchange: M_iᵀ P. Then replicas step."""

    def message_size(self, d: int) -> int:
        return self.method.factor_size(rows=False)

    def worker(self, gradient: Tensor, state: WorkerState, replica: Any, lr: Lr, t: int, seed: int) -> Sent:
        p = self.method.split_factors(replica.p.unsqueeze(-2), rows=True)
        right = [product(m.mT, one) for m, one in zip(self.method.split_matrices(state.memory), p, strict=True)]
        memory = self.method.update_memory(state.memory, p, right)
        return self._send(join(right, memory[..., :0]), state, t, seed), replace(state, memory=memory)

    def replica(self, payload: Payload, state: Any, lr: Lr, t: int) -> Factored:
        of, split, mean = self.method, self.method.split, self.downlink.decode(payload, 0, t)
        p, right = of.split_factors(state.p, rows=True), of.split_factors(mean, rows=False)
        none, others = mean[..., :0], split.separate(state.signal)[1]
        products = [product(one, other.mT) for one, other in zip(p, right, strict=True)]
        along = [of.matrix_step(*block) for block in zip(of.compressed, p, right, strict=True)]
        signal, u = (split.join(of.flatten(matrices, none), others) for matrices in (products, along))
        x, moments = of.update.step(state.x, of.clip_aggregate(u), state.moments, lr, t)
        pairs = zip(right, of.split_factors(state.q, rows=False), strict=True)
        q = [torch.where(new.any(-2, keepdim=True), of.next_factor(new), old) for new, old in pairs]
        return replace(state, x=x, moments=moments, signal=signal, q=join(q, none))
