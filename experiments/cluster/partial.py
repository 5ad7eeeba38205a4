"""A round's messages of those workers that take part."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from algorithms.comm.gather_broadcast import from_bytes, to_bytes
from algorithms.compressors.base import Payload, rebuild, tensors
from algorithms.core.algorithm import ReplicaState, Sent, Stage, WorkerState, as_dicts, from_dicts, map_tensors
from algorithms.core.participation import Participation


@dataclass
class QueuedWorkers(WorkerState):
    """Workers some of which are late."""

    queue: Any = None  # uint8 [*T, W, K·b]: of the last K exchanges the packed messages of b bytes, the oldest first


def send_some(
    participation: Participation,
    waits: Mapping[int, int],
    stage: Stage,
    gradients: Tensor,
    state: WorkerState,
    replica: ReplicaState,
    lr: float | Tensor,
    t: int,
    seed: int,
) -> Sent:
    """`Stage.worker` for the workers of this process that take part: their payload, of no rows if there are none.

    The others stay as they are. Returns the state of all. Workers with `QueuedWorkers` queue what they send, and the
    payload is that of the messages that arrive: those of worker i after waits[i] exchanges.
    """
    senders, axis = participation.senders(t), gradients.dim() - 2
    rows = [row for row, i in enumerate(state.ids.tolist()) if i in senders]
    some = torch.tensor(rows or [0])  # without senders, the first worker's message has the form of all
    before = as_dicts(state)
    own = from_dicts(map_tensors([before], lambda one: _select(one[0], some)), state)
    payload, own = stage.worker(_select(gradients, some), own, replica, lr, t, seed)
    payload = rebuild(payload, (tensor.narrow(axis, 0, len(rows)) for tensor in tensors(payload)))
    if rows:
        state = from_dicts(map_tensors([before, as_dicts(own)], lambda pair: _put(pair[0], pair[1], some)), state)
    if not isinstance(state, QueuedWorkers):
        return payload, state
    arrivals = participation.arrivals(t)
    places = [(row, waits.get(i, 0)) for row, i in enumerate(state.ids.tolist()) if i in arrivals]
    return _queued(payload, rows, state, places, axis)


def _queued(
    payload: Payload, rows: Sequence[int], state: QueuedWorkers, places: Sequence[tuple[int, int]], axis: int
) -> tuple[Payload, QueuedWorkers]:
    """The messages at `places`, rows with how many exchanges ago, and the queue after the payload of `rows`."""
    sent = to_bytes(payload, axis + 1)
    now = _put(sent.new_zeros(*state.queue.shape[:-1], sent.shape[-1]), sent, torch.tensor(rows, dtype=torch.int64))
    messages = torch.cat([state.queue, now], -1)
    of_exchanges = messages.unflatten(-1, (-1, sent.shape[-1]))  # [*T, W, K + 1, b]
    row, ago = torch.tensor(places, dtype=torch.int64).view(-1, 2).unbind(-1)
    arrived = of_exchanges[..., row, of_exchanges.shape[-2] - 1 - ago, :]
    return from_bytes(arrived, payload, axis + 1), replace(state, queue=messages[..., sent.shape[-1] :])


def _axis(vectors: Tensor) -> int:
    """The axis of workers, of vectors [*T, W, d] or numbers [W]."""
    return max(vectors.dim() - 2, 0)


def _select(vectors: Tensor, rows: Tensor) -> Tensor:
    return vectors.index_select(_axis(vectors), rows.to(vectors.device))


def _put(vectors: Tensor, new: Tensor, rows: Tensor) -> Tensor:
    return vectors.index_copy(_axis(vectors), rows.to(vectors.device), new)
