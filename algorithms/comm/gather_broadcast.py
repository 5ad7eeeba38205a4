"""Gather and broadcast: the two messages of a round over torch.distributed."""

import math
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ..compressors.base import Payload, rebuild, tensors
from ..core.algorithm import Stage
from ..core.channels import Channel
from ..core.grouped import GroupedAlgorithms, GroupedChannels
from ..utils.seeding import MessageKey


class LostContact(ConnectionError):
    """Another process of the group ended or did not answer in time."""


def rank_and_size(group: dist.ProcessGroup | None) -> tuple[int, int]:
    """Return this process's rank in a group and the group's size. None: the default group.

    Raises ValueError without a process group, and if this rank is not in it.
    """
    if not (dist.is_available() and dist.is_initialized()):
        raise ValueError("there is no process group yet: call torch.distributed.init_process_group before")
    if (rank := dist.get_rank(group)) < 0:
        raise ValueError("this rank is not in process_group=: leave it out of this training")
    return rank, dist.get_world_size(group)


def warn_if_alone(nodes: object) -> None:
    """Warn if a launcher started several ranks, but there is no process group (`nodes` is None)."""
    ranks = os.environ.get("WORLD_SIZE", "1")
    if nodes is None and ranks.isdigit() and int(ranks) > 1:
        warnings.warn(
            f"WORLD_SIZE={ranks}, but there is no process group, so every rank trains alone: call "
            "torch.distributed.init_process_group before you make the optimizer",
            stacklevel=3,
        )


def check_not_alone(nodes: object) -> None:
    """Raise ValueError if there are several ranks, but `nodes` is None: at the start there was no process group."""
    if nodes is None and dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        raise ValueError(
            "this optimizer was made before the process group, so every rank would train alone: make it after "
            "torch.distributed.init_process_group"
        )


@contextmanager
def convert_collective_errors() -> Iterator[None]:
    """Raise LostContact if a collective fails in the block."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:  # or its subclass DistBackendError; the first line has the reason
        reason = str(error).partition("\n")[0].partition(". This is")[0]
        if last := str(error).partition("Last error:")[2].strip():  # NCCL's
            reason = f"{reason}: {last.splitlines()[0]}"
        raise LostContact(re.sub(r"\[\S+\.cc:\d+\] ", "", reason)) from error  # without line numbers of gloo's source


class GatherBroadcast:
    """Gathers all workers' payloads, in worker order, on rank 0, the server, and broadcasts its payload.

    A payload is one tensor of bytes, and `payload_bytes` counts them. Ranks with fewer workers pad their tensors to
    the largest size.

    algorithm: encodes and decodes the messages. Set it to the current stage if a method has several.
    shares: the number of messages of every rank; None: all ranks have as many as this one.
    """

    own_shards = ()  # rank 0 serves the whole vector

    def __init__(
        self,
        algorithm: Stage | GroupedAlgorithms,
        seed: int,
        group: dist.ProcessGroup | None = None,
        shares: Sequence[int] | None = None,
    ) -> None:
        self.algorithm, self.seed, self.group, self.shares = algorithm, seed, group, shares
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self._known: dict[Any, Any] = {}

    def start_server(self, x: Tensor) -> Any:
        """Return the server's state before round 1, for parameters x [*T, d]; None if this rank has no server."""
        algorithm: Any = self.algorithm
        return algorithm.start_server(x) if self.rank == 0 else None

    def exchange(self, up: Payload, server: Any, x: Tensor, t: int) -> tuple[Payload, Any]:
        """Send the payload `up` of this rank's workers. Returns the server's payload of round t and its new state.

        x [*T, d] is any vector of the shape and dtype of a message. `server` is the algorithm's state on rank 0, and
        None on other ranks.
        Raises LostContact.
        """
        axis = x.dim() - 1  # of the workers, after the trials'
        gathered = gather(to_bytes(up, axis + 1), axis, self.group, self.shares)
        if gathered is None:
            [down] = self._templates(x, t)
        else:
            forms = ((*tensor.shape[:axis], *tensor.shape[axis + 1 :]) for tensor in tensors(up))
            like = rebuild(up, (one.new_empty(form) for one, form in zip(tensors(up), forms, strict=True)))
            messages = (from_bytes(one, like, axis) for part in gathered for one in part.unbind(axis))
            down, server = self._serve(messages, server, x, t)
        return self._join([broadcast(down, self.group)], t), server

    def template(self, x: Tensor, t: int) -> Payload:
        """Return a payload with the form of `exchange`'s result in round t."""
        return self._join(self._templates(x, t), t)

    def _serve(self, payloads: Iterable[Payload], server: Any, x: Tensor, t: int) -> tuple[Payload, Any]:
        down, server = self.algorithm.server(payloads, server, t, self.seed)
        check_size(down, x.dim() - 1, self.algorithm.downlink, x, t)
        return down, server

    def _templates(self, x: Tensor, t: int) -> list[Payload]:
        """Return a payload for each server, with the shapes and dtypes of its message in round t, to receive into."""
        codec = self.algorithm.downlink.codec(t)
        key = codec, x.shape[-1]
        if key not in self._known:
            self._known[key] = codec.encode(torch.zeros_like(x), MessageKey.none())
        return [self._known[key]]

    def _join(self, answers: Sequence[Payload], t: int) -> Payload:
        """Join the servers' parts to the whole message."""
        [down] = answers
        return down


def gather(
    part: Tensor, axis: int, group: dist.ProcessGroup | None = None, shares: Sequence[int] | None = None
) -> list[Tensor] | None:
    """Gather all ranks' parts, in the order of ranks, on rank 0. Returns None on the others.

    shares: the size of every rank's part along `axis`; None: all are equal. Raises LostContact.
    """
    shares = shares or [part.shape[axis]] * dist.get_world_size(group)
    if missing := max(shares) - part.shape[axis]:  # a collective takes parts of one size
        more = part.new_zeros(*part.shape[:axis], missing, *part.shape[axis + 1 :])
        part = torch.cat([part, more], axis)
    first = dist.get_rank(group) == 0
    parts = [torch.empty_like(part) for _ in shares] if first else None
    if part.numel():  # an empty message, as in a stage without matrices, is not sent by any rank
        with convert_collective_errors():
            dist.gather(part, parts, group=group, group_dst=0)
    return [one.narrow(axis, 0, share) for one, share in zip(parts, shares, strict=True)] if parts else None


def broadcast(payload: Payload, group: dist.ProcessGroup | None) -> Payload:
    """Broadcast the payload of a group's rank 0. Other ranks pass one of its form. Raises LostContact."""
    if dist.get_rank(group) == 0:
        message = to_bytes(payload, 0)
    else:
        message = next(tensors(payload)).new_empty(nbytes(payload, 0), dtype=torch.uint8)
    if message.numel():
        with convert_collective_errors():
            dist.broadcast(message, group=group, group_src=0)
    return from_bytes(message, payload, 0)


def check_size(payload: Payload, lead: int, channel: Channel | GroupedChannels, x: Tensor, t: int) -> None:
    """Raise ValueError unless a message of round t has the size that receivers expect, for vectors like x [*T, d].

    The payload's tensors share `lead` leading axes.
    """
    size, expected = nbytes(payload, lead), channel.payload_bytes(x.shape[-1], t, x.dtype)
    if size != expected:
        raise ValueError(
            f"{channel.codec(t)}: `encode` made a message of {size} bytes, but receivers expect {expected}, as for "
            "zeros; pad its tensors, because their shapes must not depend on the vector"
        )


def to_bytes(payload: Payload, lead: int) -> Tensor:
    """Copy a payload to uint8 [*leading, bytes]. Its tensors share `lead` leading axes."""
    parts = [tensor.contiguous().unsqueeze(-1) for tensor in tensors(payload)]  # `view` needs a last axis of stride 1
    return torch.cat([part.view(torch.uint8).flatten(lead) for part in parts], -1)


def from_bytes(message: Tensor, like: Payload, lead: int) -> Payload:
    """The inverse of `to_bytes`, for a `like` with the same trailing shapes and dtypes.

    Its tensors are views of the message if aligned: the address must be a multiple of the dtype's size.
    """
    parts, begin = [], 0
    for tensor in tensors(like):
        shape = tensor.shape[lead:]
        end = begin + math.prod(shape) * tensor.element_size()
        part = message[..., begin:end].contiguous()
        part = part.clone() if part.storage_offset() % tensor.element_size() else part
        parts.append(part.flatten().view(tensor.dtype).view((*message.shape[:-1], *shape)))
        begin = end
    return rebuild(like, parts)


def nbytes(payload: Payload, lead: int) -> int:
    """Return the bytes of one message. All tensors of the payload share `lead` leading axes."""
    return sum(math.prod(tensor.shape[lead:]) * tensor.element_size() for tensor in tensors(payload))
