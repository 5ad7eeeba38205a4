"""A round's two messages over torch.distributed."""

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from algorithms.compressors.base import Compressor, Payload, rebuild, tensors
from algorithms.groups import SideBySide
from algorithms.protocol import Algorithm
from algorithms.randomness import Key


class LostContact(ConnectionError):
    """Another process of the group ended, or did not answer in time."""


@contextmanager
def contact() -> Iterator[None]:
    """Raises LostContact where a collective fails."""
    try:
        yield
    except RuntimeError as error:  # torch's own DistBackendError among them; its first line names the reason
        reason = str(error).partition("\n")[0].partition(". This is")[0]
        raise LostContact(re.sub(r"\[\S+\.cc:\d+\] ", "", reason)) from error  # without places in gloo's source


class Wire:
    """Carries the payloads of all ranks' workers to the server on rank 0, and its payload back.

    Every rank of the process group has as many workers, ranks in worker order. A payload crosses as one tensor of
    bytes a direction, its tensors side by side: nothing is pickled, and what the collectives are handed is what
    `payload_bytes` counts.
    """

    def __init__(self, algorithm: Algorithm | SideBySide, seed: int, group: dist.ProcessGroup | None = None) -> None:
        self.algorithm, self.seed, self._group = algorithm, seed, group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self._templates: dict[Compressor, Payload] = {}

    def exchange(self, up: Payload, server: Any, x: Tensor, t: int) -> tuple[Payload, Any]:
        """The server's payload of round t, for the payload `up` of this rank's workers, and the server's new state.

        x [*T, d] is any vector of the run's shape and dtype; `server` is the state on rank 0 as the algorithm has it,
        None elsewhere.
        Raises LostContact.
        """
        lead = x.dim()  # up has the trial axes and the worker axis
        gathered = gather(to_bytes(up, lead), lead - 1, self._group)
        if gathered is not None:
            assert server is not None
            down, server = self._serve(from_bytes(gathered, up, lead), server, x, t)
        else:
            down = self._template(x, t)
        message = to_bytes(down, lead - 1)
        with contact():
            dist.broadcast(message, src=0, group=self._group)
        return from_bytes(message, down, lead - 1), server

    def _serve(self, payloads: Payload, server: Any, x: Tensor, t: int) -> tuple[Payload, Any]:
        """What comes down for the payloads of all ranks' workers, and the server's new state."""
        return self.algorithm.server(payloads, server, t, self.seed)

    def _template(self, x: Tensor, t: int) -> Payload:
        """A payload of the shapes and dtypes that come down in round t, to receive into."""
        codec = self.algorithm.downlink.codec(t)
        if codec not in self._templates:
            self._templates[codec] = codec.encode(torch.zeros_like(x), Key.none())
        return self._templates[codec]


def gather(part: Tensor, axis: int, group: dist.ProcessGroup | None = None) -> Tensor | None:
    """All ranks' parts in one tensor along `axis`, in the order of ranks, on rank 0; None on the others.

    Raises LostContact.
    """
    first = dist.get_rank(group) == 0
    parts = [torch.empty_like(part) for _ in range(dist.get_world_size(group))] if first else None
    with contact():
        dist.gather(part, parts, dst=0, group=group)
    return torch.cat(parts, axis) if parts else None


def to_bytes(payload: Payload, lead: int) -> Tensor:
    """A payload whose tensors share `lead` leading axes as uint8 [*leading, bytes], always of memory of its own."""
    parts = [tensor.unsqueeze(-1) if tensor.dim() == lead else tensor.flatten(lead) for tensor in tensors(payload)]
    return torch.cat([part.contiguous().view(torch.uint8) for part in parts], -1)


def from_bytes(message: Tensor, like: Payload, lead: int) -> Payload:
    """The payload that `to_bytes` was given, for a `like` of the same trailing shapes and dtypes."""
    parts, begin = [], 0
    for tensor in tensors(like):
        shape = tensor.shape[lead:]
        end = begin + math.prod(shape) * tensor.element_size()
        # Cloned, because a dtype of several bytes cannot be read from an address that is not a multiple of them.
        part = message[..., begin:end].clone(memory_format=torch.contiguous_format).flatten().view(tensor.dtype)
        parts.append(part.view((*message.shape[:-1], *shape)))
        begin = end
    return rebuild(like, parts)
