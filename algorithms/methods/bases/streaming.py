"""Local steps that exchange models in fragments, in turn."""

from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor

from ...compressors.base import Compressor, Wrapper
from ...compressors.blocks import Blocks
from ...core.algorithm import Answer, Payloads, ReplicaState, Sent, ServerState, Stage, Wanted, WorkerState
from ...utils.layout import Layout
from . import Channel, Lr, Payload
from .local_steps import LocalSteps, OuterMomentum


@dataclass(frozen=True, kw_only=True)
class Streaming(LocalSteps):
    """LocalSteps in P fragments of whole parameter tensors: one is exchanged every H/P rounds, in turn.

        round t = k·H/P, fragment p = (k − 1) mod P:  Δ_i = x − x_i up and their mean down, only its coordinates
        replica  x of the fragment by the outer step
        worker   τ rounds later, after its local step:  x_i ← (1 − a)x_i + ax

    τ is `delay`, and a is `mixing`. `cuts` are the places 0, …, d between fragments. Norms for clipping and a
    compressor's blocks are the fragment's. x is the server's model, which workers get τ rounds later.
    Source: Douillard et al., Streaming DiLoCo with Overlapping Communication, 2025 (arXiv 2501.18512), and the class
    in torchft's local_sgd.py.
    Differences: There α = 1 − a. torchft sends in round t − τ and takes the result in t. The paper's fragments are
    layers. Here a fragment is neighbouring tensors with about d/P coordinates in all.
    """

    cuts: tuple[int, ...]
    delay: int
    mixing: float

    is_coordinatewise = False
    needs_all = "workers take a fragment's result without knowing whether anything crossed"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.delay < self.period:
            raise ValueError(f"delay={self.delay}: must be at least 0 and less than period={self.period}")
        if not 0 < self.mixing <= 1:
            raise ValueError(f"mixing={self.mixing}: must lie in (0, 1]")

    def stages(self, t: int, lr: Lr = 0.0) -> tuple[Stage, ...]:
        return tuple(Fragment(self, *bounds) for bounds in self._exchanged_bounds(t))

    def local_step(self, gradient: Tensor, state: WorkerState, replica: ReplicaState, lr: Lr, t: int) -> WorkerState:
        stepped = super().local_step(gradient, state, replica, lr, t)
        return self._mix(stepped, replica, t) if self.delay else stepped

    def worker_message(self, gradient: Tensor, state: WorkerState, replica: ReplicaState, lr: Lr, t: int) -> Wanted:
        wanted, moments = super().worker_message(gradient, state, replica, lr, t)
        (bounds,) = self._exchanged_bounds(t)
        return _put(wanted[..., slice(*bounds)], torch.zeros_like(wanted), bounds), moments

    def sync_workers(self, state: WorkerState, replica: ReplicaState, t: int) -> WorkerState:
        return state if self.delay else self._mix(state, replica, t)

    def check(self, d: int) -> None:
        if self.cuts[-1] != d:
            raise ValueError(f"layout: {self.cuts[-1]} coordinates in all; the vectors have d = {d}")
        self.inner.check(d)
        for begin, end in pairwise(self.cuts):
            for channel in (Fragment(self, begin, end).uplink, Fragment(self, begin, end).downlink):
                channel.check(end - begin)

    def _exchanged_bounds(self, t: int) -> tuple[tuple[int, int], ...]:
        """Return the bounds of the fragment exchanged in round t, if any."""
        bounds = tuple(pairwise(self.cuts))
        number, rest = divmod(t * len(bounds), self.period)
        return (bounds[(number - 1) % len(bounds)],) if bounds and t > 0 and not rest else ()

    def _mix(self, state: WorkerState, replica: ReplicaState, t: int) -> WorkerState:
        for bounds in self._exchanged_bounds(t - self.delay):
            own, new = (vectors[..., slice(*bounds)] for vectors in (state.x, replica.x.unsqueeze(-2)))
            state = replace(state, x=_put((1 - self.mixing) * own + self.mixing * new, state.x, bounds))
        return state


@dataclass(frozen=True)
class Fragment:
    """The exchange of the coordinates from `begin` to `end`. All others stay."""

    method: Streaming
    begin: int
    end: int

    @cached_property
    def restricted(self) -> LocalSteps:
        """The method for vectors of only these coordinates."""
        return LocalSteps(**_options(self.method)).with_compressors(self._restrict)

    @property
    def uplink(self) -> Channel:
        return self.restricted.uplink

    @property
    def downlink(self) -> Channel:
        return self.restricted.downlink

    def message_size(self, d: int) -> int:
        return self.end - self.begin

    def worker(self, gradient: Tensor, state: WorkerState, replica: ReplicaState, lr: Lr, t: int, seed: int) -> Sent:
        own = replace(state, memory=self._cut(state.memory), x=self._cut(state.x))
        at = replace(replica, x=self._cut(replica.x))
        payload, sent = self.restricted.worker(self._cut(gradient), own, at, lr, t, seed)
        return payload, replace(state, memory=self._put(sent.memory, state.memory))

    def server(self, payloads: Payloads, state: ServerState, t: int, seed: int) -> Answer:
        own = ServerState(self._cut(state.aggregate), self._cut(state.memory))
        payload, found = self.restricted.server(payloads, own, t, seed)
        aggregate = self._put(found.aggregate, torch.zeros_like(state.aggregate))
        return payload, ServerState(aggregate, self._put(found.memory, state.memory))

    def replica(self, payload: Payload, state: ReplicaState, lr: Lr, t: int) -> ReplicaState:
        b = state.moments.b
        own = ReplicaState(self._cut(state.x), self._cut(state.signal), OuterMomentum(self._cut(b)))
        found = self.restricted.replica(payload, own, lr, t)
        signal = self._put(found.signal, torch.zeros_like(state.signal))
        return ReplicaState(self._put(found.x, state.x), signal, OuterMomentum(self._put(found.moments.b, b)))

    def _cut(self, vectors: Any) -> Any:
        return None if vectors is None else vectors[..., self.begin : self.end]

    def _put(self, part: Any, vectors: Any) -> Any:
        return None if vectors is None else _put(part, vectors, (self.begin, self.end))

    def _restrict(self, compressor: Compressor) -> Compressor:
        """Return the compressor for these coordinates. Raises ValueError if a block is in two fragments."""
        if isinstance(compressor, Blocks):
            places = [0, *accumulate(compressor.sizes)]
            if not {self.begin, self.end} <= {*places}:
                raise ValueError("fragments: blocks of the compressor cross fragments; take partition=layer or whole")
            return Blocks(compressor.compressor, compressor.sizes[places.index(self.begin) : places.index(self.end)])
        if isinstance(compressor, Wrapper):
            return replace(compressor, compressor=self._restrict(compressor.compressor))
        return compressor


def streaming(method: LocalSteps, layout: Layout, fragments: int, delay: int, mixing: float) -> LocalSteps:
    """Return the method in fragments of whole tensors, of about equal size.

    With one fragment, no delay and mixing 1 it is the method itself. Without a layout its `check` rejects any vector.
    Raises ValueError if there are not enough tensors, or the method's period is no multiple of `fragments`.
    """
    if (fragments, delay, mixing) == (1, 0, 1):
        return method
    if fragments < 1 or method.period % fragments:
        raise ValueError(f"fragments={fragments}: must divide period={method.period}")
    places = list(accumulate(block.size for block in layout))
    wanted = [places[-1] * number / fragments for number in range(1, fragments)] if layout else []
    cuts = {0, *(min(places, key=lambda place: abs(place - one)) for one in wanted), *places[-1:]}
    if layout and len(cuts) != fragments + 1:
        raise ValueError(
            f"fragments={fragments}: cuts between parameter tensors give only {len(cuts) - 1} of about equal size; "
            "take fewer"
        )
    return Streaming(**_options(method), cuts=tuple(sorted(cuts)), delay=delay, mixing=mixing)


def _options(method: LocalSteps) -> dict[str, Any]:
    return {one.name: getattr(method, one.name) for one in fields(LocalSteps)}


def _put(part: Tensor, vectors: Tensor, bounds: tuple[int, int]) -> Tensor:
    """Return the vectors with `part` between the bounds."""
    begin, end = bounds
    return torch.cat([vectors[..., :begin], part, vectors[..., end:]], -1)
