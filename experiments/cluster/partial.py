"""The messages of one round if some workers are absent or late."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from algorithms.comm.gather_broadcast import from_bytes, to_bytes
from algorithms.compressors.base import rebuild, tensors
from algorithms.core.algorithm import Sent, WorkerState, as_dicts, from_dicts, map_tensors


@dataclass
class QueuedWorkers(WorkerState):
    """Workers with a queue of messages, because some are late."""

    queue: Any = None  # uint8 [*T, W, K·b], packed messages of the last K exchanges, b bytes each, oldest first


def send_some(
    send: Callable[[Tensor, WorkerState], Sent],
    gradients: Tensor,
    state: WorkerState,
    senders: Collection[int],
    arrivals: Mapping[int, int],
) -> Sent:
    """Let the senders `send` and leave other workers unchanged. Return what arrives, and the state of all workers.

    arrivals: by worker, how many exchanges ago it made the message that arrives. Other workers' do not arrive.
    """
    axis, ids = gradients.dim() - 2, state.ids.tolist()
    rows = torch.tensor([row for row, i in enumerate(ids) if i in senders], dtype=torch.int64)
    some = rows if len(rows) else torch.tensor([0])  # for the form of a message

    def choose(parts: list[Tensor]) -> Tensor:
        return parts[0].index_select(max(parts[0].dim() - 2, 0), some.to(parts[0].device))

    def put(parts: list[Tensor]) -> Tensor:
        return parts[0].index_copy(max(parts[0].dim() - 2, 0), rows.to(parts[0].device), parts[1])

    before = as_dicts(state)
    payload, own = send(choose([gradients]), from_dicts(map_tensors([before], choose), state))
    payload = rebuild(payload, (tensor.narrow(axis, 0, len(rows)) for tensor in tensors(payload)))
    if len(rows):
        state = from_dicts(map_tensors([before, as_dicts(own)], put), state)
    if not isinstance(state, QueuedWorkers):
        return payload, state
    sent, queue = to_bytes(payload, axis + 1), state.queue
    size = sent.shape[-1]
    queue = torch.cat([queue, put([sent.new_zeros(*queue.shape[:-1], size), sent])], -1)
    places = torch.tensor([(row, -1 - arrivals[i]) for row, i in enumerate(ids) if i in arrivals], dtype=torch.int64)
    row, exchange = places.view(-1, 2).unbind(-1)
    arrived = queue.unflatten(-1, (-1, size))[..., row, exchange, :]
    return from_bytes(arrived, payload, axis + 1), replace(state, queue=queue[..., size:])
