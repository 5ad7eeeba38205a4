"""A round's messages of those workers that take part."""

import torch
from torch import Tensor

from algorithms.compressors.base import rebuild, tensors
from algorithms.core.algorithm import ReplicaState, Sent, Stage, WorkerState, as_dicts, from_dicts, map_tensors
from algorithms.core.participation import Participation


def send_some(
    participation: Participation,
    stage: Stage,
    gradients: Tensor,
    state: WorkerState,
    replica: ReplicaState,
    lr: float | Tensor,
    t: int,
    seed: int,
) -> Sent:
    """`Stage.worker` for the workers of this process that take part: their payload, of no rows if there are none.

    The others stay as they are. Returns the state of all.
    """
    senders, axis = participation.senders(t), gradients.dim() - 2
    rows = [row for row, i in enumerate(state.ids.tolist()) if i in senders]
    some = torch.tensor(rows or [0])  # without senders, the first worker's message has the form of all
    before = as_dicts(state)
    own = from_dicts(map_tensors([before], lambda one: _select(one[0], some)), state)
    payload, own = stage.worker(_select(gradients, some), own, replica, lr, t, seed)
    payload = rebuild(payload, (tensor.narrow(axis, 0, len(rows)) for tensor in tensors(payload)))
    if not rows:
        return payload, state
    return payload, from_dicts(map_tensors([before, as_dicts(own)], lambda pair: _put(pair[0], pair[1], some)), state)


def _axis(vectors: Tensor) -> int:
    """The axis of workers, of vectors [*T, W, d] or numbers [W]."""
    return max(vectors.dim() - 2, 0)


def _select(vectors: Tensor, rows: Tensor) -> Tensor:
    return vectors.index_select(_axis(vectors), rows.to(vectors.device))


def _put(vectors: Tensor, new: Tensor, rows: Tensor) -> Tensor:
    return vectors.index_copy(_axis(vectors), rows.to(vectors.device), new)
