"""One synchronous round: worker → server → replica, as three functions of explicit state.

    worker:   (gradient, worker state, replica state, step size, round) → payload  the uplink message
    server:   (payloads of all workers, server state, round) → payload             the downlink message
    replica:  (payload, replica state, step size, round) → updated model           identical on every worker

State is dataclasses of tensors. The functions return new state and change none in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar, Protocol, Self, TypeVar

import torch
from torch import Tensor

from ..compressors.base import Compressor, Floats, Identity, Payload, Unpacked
from ..compressors.blocks import Blocks, Parts
from ..compressors.floats import Cast
from ..compressors.shard import whole_shard
from ..compressors.sign import Unscaled
from ..utils.seeding import MessageKey
from ..utils.words import check_words
from .aggregation import Combine, Mean
from .channels import Channel, Memory, dense
from .update_rules import Lr, Moments, Update


@dataclass
class WorkerState:
    """State of the workers in one process."""

    ids: Tensor  # int64 [W], the numbers of these workers
    memory: Memory  # [*T, W, d], of the uplink's senders
    moments: Moments = ()  # [*T, W, d], if each worker keeps its own
    x: Any = None  # Tensor [*T, W, d], the workers' own models, if any


@dataclass
class ServerState:
    """State of the server."""

    aggregate: Tensor  # ĝ_t [*T, d], the aggregate of the workers' messages
    memory: Memory  # [*T, d], of the downlink's sender


@dataclass
class ReplicaState:
    """The model and the state of its copies, equal on all workers."""

    x: Tensor  # [*T, d] parameters
    signal: Tensor  # g̃_t [*T, d], the received signal
    moments: Moments
    # [*T, d], parameters of the previous round, if the method looks back:
    previous: Tensor | None = field(default=None, kw_only=True)


S = TypeVar("S")

Wanted = tuple[Tensor, Moments]  # the vectors to send [*T, W, d], and the workers' new moments
Sent = tuple[Payload, WorkerState]
Answer = tuple[Payload, ServerState]

Payloads = Payload | Iterable[Payload]
"""Messages of all n workers, in worker order: one payload with a worker axis, or an iterator of payloads."""


def as_dicts(state: object) -> Any:
    """Return a state as nested dicts. Tensors are not copied, because no function of a round changes one in place."""
    if is_dataclass(state):
        return {field.name: as_dicts(getattr(state, field.name)) for field in fields(state)}
    if isinstance(state, tuple):
        return {name: as_dicts(part) for name, part in zip(getattr(state, "_fields", ()), state, strict=True)}
    return state


def from_dicts(saved: Any, like: S) -> S:
    """The inverse of `as_dicts`, with the types of `like`, such as the state before round 1.

    Raises TypeError if the names differ.
    """
    kind: Any = type(like)
    if is_dataclass(like) or isinstance(like, tuple):
        return kind(**{name: from_dicts(part, getattr(like, name, None)) for name, part in saved.items()})
    return saved


def leaves(node: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested dicts, with dotted names."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield from leaves(value, f"{name}.{key}" if name else str(key))
    else:
        yield name, node


def nest_leaves(found: Mapping[str, Any], like: Any, name: str = "") -> Any:
    """The inverse of `leaves`: nested dicts with the names of `like`, and None for missing ones."""
    if isinstance(like, dict):
        return {key: nest_leaves(found, part, f"{name}.{key}" if name else key) for key, part in like.items()}
    return found.get(name)


def map_tensors(parts: Sequence[Any], function: Callable[[list[Tensor]], Tensor]) -> Any:
    """Apply a function to tensors of the same name in all parts, nested dicts with equal names."""
    if isinstance(parts[0], dict):
        return {name: map_tensors([part[name] for part in parts], function) for name in parts[0]}
    return None if parts[0] is None else function(list(parts))


def overridden(own: type, base: type, *names: str) -> str:
    """Return which of these functions of `base` a class overrides, separated by commas."""
    return ", ".join(name for name in names if getattr(own, name) is not getattr(base, name))


class Stage(Protocol):
    """One exchange of a round: a message up, a message down, and the steps of both ends.

    Its messages have `message_size(d)` coordinates. Worker or replica state keeps what a later stage needs.
    """

    @property
    def uplink(self) -> Channel: ...

    @property
    def downlink(self) -> Channel: ...

    def message_size(self, d: int) -> int: ...

    def worker(
        self, gradient: Tensor, state: WorkerState, replica: ReplicaState, lr: Lr, t: int, seed: int
    ) -> Sent: ...

    def server(self, payloads: Payloads, state: ServerState, t: int, seed: int) -> Answer: ...

    def replica(self, payload: Payload, state: ReplicaState, lr: Lr, t: int) -> ReplicaState: ...


@dataclass(frozen=True)
class Algorithm:
    """A method made of an uplink channel, a downlink channel and an update rule.

    clip: the largest norm ‖g̃_t‖₂ that a replica's update gets; a longer signal is shortened to it. None: no limit.
    Weight decay is added after clipping. Memories of channels are not clipped. If replicas do not step along the
    received signal, the subclass clips the mean that it steps along, with `clip_aggregate`.
    combine: the server's aggregation of the workers' messages.
    """

    uplink: Channel
    downlink: Channel
    update: Update
    clip: float | None = field(default=None, kw_only=True)
    combine: Combine = field(default=Mean(), kw_only=True)

    is_coordinatewise: ClassVar[bool] = True
    """Whether a server may have a shard of the vector. Only compressors and the norm to clip by may then need other
    coordinates. Every subclass sets its own."""

    has_local_models: ClassVar[bool] = False
    """Whether workers have own models, `WorkerState.x`. Gradients are taken there, and `local_step` moves them."""

    looks_back: ClassVar[bool] = False
    """Whether `variance_reduced_gradient` also needs the batch's gradients at `ReplicaState.previous`."""

    server_holds_model: ClassVar[bool] = False
    """Whether the server holds the trained model, and replicas copy it."""

    has_common_model: ClassVar[bool] = True
    """Whether the replicas' model is measured; otherwise the mean of the workers' models is."""

    signal_estimates_mean: ClassVar[bool] = True
    """Whether `signal_error` compares the received signal with the mean that workers wanted to send."""

    needs_all: ClassVar[str] = ""
    """Why a round needs the messages of all workers; empty if it does not. A subclass that does not set its own
    counts as needing all."""

    def __post_init__(self) -> None:
        check_words(type(self), vars(self))
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"clip={self.clip}: must be a norm above 0, or null for no clipping")

    @classmethod
    def from_channel(cls, channel: Channel, update: Update, uplink_only: bool = False) -> Algorithm:
        """Use the same channel up and down; with `uplink_only` the downlink is dense."""
        return cls(uplink=channel, downlink=dense() if uplink_only else channel, update=update)

    def stages(self, t: int, lr: Lr = 0.0) -> tuple[Stage, ...]:
        """Return the exchanges of round t, in order: here, this algorithm itself. lr is for servers that step.

        Empty in a round that has only local steps.
        """
        return (self,)

    def message_size(self, d: int) -> int:
        """Return the number of coordinates of a message."""
        return d

    def start_workers(self, x: Tensor, ids: Tensor) -> WorkerState:
        """Return the state before round 1 of the workers with these numbers, for a model x [*T, d]."""
        like = x.unsqueeze(-2).expand(*x.shape[:-1], len(ids), x.shape[-1])
        return WorkerState(ids=ids, memory=self.uplink.start(like), moments=self.start_moments(like))

    def start_moments(self, like: Tensor) -> Moments:
        """Return the workers' moments before round 1, for vectors like [*T, W, d]."""
        return ()

    def start_server(self, x: Tensor) -> ServerState:
        return ServerState(aggregate=self.uplink.start_signal(x), memory=self.downlink.start(x))

    def start_replica(self, x: Tensor) -> ReplicaState:
        previous = x if self.looks_back else None
        signal, moments = self.downlink.start_signal(x), self.update.start(x)
        return ReplicaState(x=x, signal=signal, moments=moments, previous=previous)

    def variance_reduced_gradient(self, gradient: Tensor, earlier: Tensor, state: WorkerState, t: int) -> Tensor:
        """Correct gradients [*T, W, d] by the `earlier` ones at the previous model, in a method that looks back."""
        return gradient

    def takes_full_gradient(self, t: int) -> bool:
        """Whether workers use all their rows in round t, instead of a batch."""
        return False

    def local_step(self, gradient: Tensor, state: WorkerState, replica: ReplicaState, lr: Lr, t: int) -> WorkerState:
        """Step each worker with its own gradient [*T, W, d], before anything is sent."""
        return state

    def sync_workers(self, state: WorkerState, replica: ReplicaState, t: int) -> WorkerState:
        """Update the workers by the replica of round t. Called in rounds with an exchange."""
        return state

    def worker_message(self, gradient: Tensor, state: WorkerState, replica: ReplicaState, lr: Lr, t: int) -> Wanted:
        """Return the vectors to send for gradients [*T, W, d], and the new moments."""
        return self.update.worker_message(gradient, replica.x, replica.moments, t), state.moments

    def worker(self, gradient: Tensor, state: WorkerState, replica: ReplicaState, lr: Lr, t: int, seed: int) -> Sent:
        """Return the workers' payload for gradients [*T, W, d] in round t, and their new state. lr: the step size."""
        w, moments = self.worker_message(gradient, state, replica, lr, t)
        payload, memory = self.uplink.send(w, state.memory, MessageKey(seed, "up", t, tuple(state.ids.tolist())))
        return payload, replace(state, memory=memory, moments=moments)

    def server(self, payloads: Payloads, state: ServerState, t: int, seed: int) -> Answer:
        """Return the server's payload for the payloads of all n workers, and its new state."""
        return self.server_message(self.aggregate(payloads, state, t), state, t, seed)

    def aggregate(self, payloads: Payloads, state: ServerState, t: int) -> Tensor:
        """Aggregate the payloads of all n workers to ĝ_t [*T, d]."""
        return self.uplink.receive(self.mean(payloads, state.aggregate.shape[-1], t), state.aggregate)

    def server_message(
        self, aggregate: Tensor, state: ServerState, t: int, seed: int, norm: Tensor | None = None
    ) -> Answer:
        payload, memory = self.downlink.send(aggregate, state.memory, MessageKey(seed, "down", t))
        return payload, replace(state, aggregate=aggregate, memory=memory)

    def mean(self, payloads: Payloads, d: int, t: int) -> Tensor:
        """Combine the messages of all n workers, in worker order, by default to their mean [*T, d].

        With an iterator of payloads, one dense message is in memory at a time.
        """
        if isinstance(payloads, tuple):
            return self.combine.aggregate_stacked(payloads, self.uplink.codec(t), d)
        return self.combine.aggregate(payloads, self.uplink.codec(t), d)

    def replica(self, payload: Payload, state: ReplicaState, lr: Lr, t: int) -> ReplicaState:
        """Return the replica after round t, with step size lr."""
        return self.apply_signal(self.receive(payload, state, t), state, lr, t, None)

    def receive(self, payload: Payload, state: ReplicaState, t: int) -> Tensor:
        """Decode the server's payload to the signal g̃_t [*T, d]."""
        return self.downlink.receive(self.downlink.decode(payload, state.x.shape[-1], t), state.signal)

    def apply_signal(self, signal: Tensor, state: ReplicaState, lr: Lr, t: int, norm: Tensor | None) -> ReplicaState:
        x, moments = self.update.step(state.x, self.clip_aggregate(signal, norm), state.moments, lr, t)
        return ReplicaState(x=x, signal=signal, moments=moments, previous=state.x if self.looks_back else None)

    def clip_aggregate(self, aggregate: Tensor, norm: Tensor | None = None) -> Tensor:
        """Clip the aggregate [*T, d] to the norm `clip`. norm [*T, 1]: used in place of its own norm."""
        return clip_norm(aggregate, self.clip, norm)

    def without_packing(self) -> Algorithm:
        """Return this algorithm with unpacked messages and equal numbers, except payloads that `combine` reads."""
        dense = self.with_compressors(Unpacked)
        return replace(dense, uplink=self.uplink) if self.combine.needs_payloads else dense

    def with_compressors(self, change: Callable[[Compressor], Compressor]) -> Self:
        """Return this algorithm with `change` applied to the compressors of both directions."""
        up, down = (replace(one, compressor=change(one.compressor)) for one in (self.uplink, self.downlink))
        return replace(self, uplink=up, downlink=down)

    def hyperparameters(self) -> dict[str, Any]:
        """Return the settings that may change in every round, by torch's names for them."""
        return self.update.hyperparameters()

    def with_hyperparameters(self, **values: Any) -> Self:
        """Return this algorithm with other `hyperparameters`. Raises ValueError for one outside its range."""
        return replace(self, update=self.update.with_hyperparameters(**values))

    def with_compressor(self, compressor: Compressor | None) -> Self:
        """Replace the uplink's compressor, wherever it is used; None makes both directions dense.

        Raises ValueError if `compressor` is no Compressor, or does not send floats as the method does. Raises it also
        for a method that moves by signs without a scale, because its step size suits no other compressor.
        """
        if not isinstance(compressor, Compressor | None):
            raise ValueError(f"compressor={compressor!r}: must be a Compressor, such as TopK(k=3), or None")
        ours = self.uplink.compressor
        ours = self.downlink.compressor if isinstance(ours, Identity) else ours
        for one in (self.uplink.compressor, self.downlink.compressor) if compressor is None else (ours,):
            if isinstance(one, Unscaled) and compressor != one:
                raise ValueError(
                    f"compressor={compressor}: this method moves by {one}, and its step size is for that"
                )
        if compressor is None:
            return replace(self, uplink=dense(), downlink=dense())
        if isinstance(ours, Floats) and not isinstance(compressor, Floats):
            raise ValueError(
                f"compressor={compressor}: this method sends everything uncompressed, by {ours}; take another method"
            )
        return self.with_compressors(lambda one: compressor if one == ours else one)

    def with_blocks(self, sizes: Sequence[int]) -> Self:
        """Return this algorithm with compressors block by block, each block with its own scale.

        Floats stay as they are. Raises ValueError for a compressor without a scale, or with blocks already.
        """

        def make_blocks(one: Compressor) -> Compressor:
            if isinstance(one, Unscaled | Blocks | Parts):
                raise ValueError(f"partition=layer: {one} has no scale, or has blocks already")
            return one if isinstance(one, Identity | Cast) else Blocks(one, tuple(sizes))

        return self.with_compressors(make_blocks)

    def step_size(self, smoothness: float, worker_smoothness: float, workers: int, d: int) -> float:
        """Return the step size of theory for full gradients: EF21's, unless a subclass has its own.

        γ = 1/(L + L̃√(β/θ)), θ = 1 − √(1−π), β = (1−π)/θ, so that √(β/θ) = √(1−π)/(1 − √(1−π)). `smoothness` is L of
        f, `worker_smoothness` L̃ = √(mean_i L_i²). Raises ValueError if the compressor has no known π.
        Source: Richtárik, Sokolov and Fatkhullin 2021, Theorem 1, for a dense downlink.
        """
        if self.has_local_models:
            raise ValueError("theory gives no step size for local steps; set task.step_unit=one")
        root = (1 - self.uplink.compressor.pi(d)) ** 0.5
        return 1 / (smoothness + worker_smoothness * root / (1 - root))

    def check(self, d: int) -> None:
        """Raise ValueError if a channel or the update cannot take d coordinates."""
        self.uplink.check(d)
        self.downlink.check(d)
        self.update.check(d)


def numbers_per_coordinate(algorithm: Algorithm, x: Tensor) -> float:
    """Return how many numbers per coordinate a worker keeps between rounds, besides the model x [d] and its gradient.

    A worker's own model counts. Unread vectors are expanded zeros and do not count.
    """
    states = algorithm.start_workers(x, torch.zeros(1, dtype=torch.int64)), algorithm.start_replica(x)
    tensors = (
        leaf
        for state in states
        for _, leaf in leaves(as_dicts(state))
        if isinstance(leaf, Tensor) and leaf.is_floating_point()
    )
    kept = sum(one.numel() for one in tensors if one.stride()[-1:] != (0,))
    return kept / x.numel() - 1


def clip_norm(vectors: Tensor, most: float | None, norm: Tensor | None = None) -> Tensor:
    """u ← u·min(1, c/(‖u‖₂ + 10⁻⁶)) for every vector u of [..., d], as in torch. c is `most`; None: no clipping.

    norm [..., 1]: replaces their own norms, for parts of longer vectors.
    """
    if most is None:
        return vectors
    norm = whole_shard(vectors.shape[-1]).norm(vectors) if norm is None else norm
    return vectors * (most / (norm + 1e-6)).clamp(max=1.0)
