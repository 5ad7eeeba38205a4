"""Average the gradients of a process group by a method's two channels, without the method's update."""

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor

from ..comm.consistency import ConsistentShardedServer, connect, digest_of_all, is_finite
from ..comm.gather_broadcast import LostContact
from ..comm.nodes import Nodes
from ..comm.tiled import decode_tiles, has_tiles, send
from ..compressors.base import Compressor, Identity, Payload
from ..compressors.shard import Shard
from ..core.algorithm import Algorithm, Sent, as_dicts, from_dicts, overridden
from ..core.bit_counter import BitCounter
from ..core.grouped import GroupedAlgorithms
from ..core.tiles import Storage
from ..core.update_rules import SGD, Update
from ..utils.seeding import MessageKey
from .optimizer_state import to_device

_GRADIENT_STEPS = (
    "start_workers",
    "start_moments",
    "variance_reduced_gradient",
    "worker_message",
    "worker",
    "server",
    "aggregate",
    "server_message",
    "mean",
    "receive",
    "apply_signal",
)
"""A hook cannot run a method that overrides one of these, because it does not send plain gradients."""


class CompressedMean:
    """Averages the gradients of a group's ranks by a method's two channels. An optimizer steps with the mean g̃_t [d].

    Every node is a worker. Each node, or only the first, is also a server. `t` counts rounds. If a rank's gradient
    is not finite, all ranks receive NaN. Memories and `t` then stay as they were, and `skipped` counts the round.
    `meter` counts the bits that one worker sent and received.

    zeros: a vector [d] with the gradients' dtype and device. scaler: gradients and their mean have its scale,
    messages and memories do not.
    Raises ValueError for a compressor that cannot take d coordinates.
    """

    def __init__(
        self, algorithm: Algorithm, zeros: Tensor, seed: int, nodes: Nodes, scaler: torch.amp.GradScaler | None
    ) -> None:
        algorithm = check_sends_gradients(algorithm, len(zeros))
        zeros = zeros[:1].clone().expand(len(zeros))  # only its form is used, so it takes no memory
        self.algorithm, self.t, self.skipped, self.meter = algorithm, 0, 0, BitCounter()
        self._seed, self._nodes, self._scaler = seed, nodes, scaler
        self._wire = connect(GroupedAlgorithms((algorithm,), (len(zeros),)), seed, nodes)
        self._replica = algorithm.start_replica(zeros)
        self._worker = algorithm.start_workers(zeros, torch.tensor([nodes.rank]))
        self._servers = self._wire.start_server(zeros) if nodes.leads else None
        self._is_broken = False  # a server may have changed its state before it lost contact
        self._messages: dict[Compressor, Payload] = {}
        self._shards: list[Shard] = []  # of servers that work by tiles; a GPU is faster with large kernels
        if isinstance(self._wire, ConsistentShardedServer):
            is_tiled = zeros.device.type == "cpu" and algorithm.clip is None and nodes.size == len(nodes.order)
            self._wire.is_tiled = is_tiled
            self._shards = [shard for [shard] in self._wire.shards if shard] if is_tiled else []
        self._share_signal()

    def round(self, gradient: Tensor | None, params: Iterable[Tensor], mean: Storage) -> Tensor:
        """Write the compressed mean g̃_t [d] into `mean`; NaN if a rank's gradient is not finite.

        This overwrites the gradient [d]. It returns a vector [d] for the next gradient. Ranks compare `params`.
        A rank without a gradient must still take part, with None, because the others wait for it. It raises its own
        error afterwards. Raises Disagreement, also if another rank has no gradient, and LostContact.
        """
        scale, like = self._scaler.get_scale() if self._scaler else None, self._replica.x
        t, readiness, sent = self.t + 1, "refused", torch.zeros_like(like) if gradient is None else gradient
        sent = self._nodes.mean(sent if scale is None else sent.div_(scale))
        if gradient is not None:
            readiness = "ready" if is_finite(sent) else "not finite"
        if readiness != "ready":
            sent.zero_()
        up, worker = self._send(sent.unsqueeze(0), t)
        try:
            down, servers, _ = self._wire.step(
                (up,), self._servers, like, 0.0, t, readiness, digest_of_x=digest_of_all(params)
            )
        except LostContact:
            self._is_broken = bool(self._shards)
            raise
        if down is None:
            self.skipped += 1
            mean.write(0, torch.full_like(like, torch.nan))
            return sent
        self._receive(down, servers and servers[0], t, mean, scale)
        if worker.memory is not None:  # the new memory may be the gradient's vector
            is_swapped = isinstance(worker.memory, Tensor) and worker.memory.data_ptr() == sent.data_ptr()
            sent = self._worker.memory.squeeze(0) if is_swapped else torch.empty_like(sent)
        self._worker, self._servers, self.t = worker, servers, t
        self.meter.count(self.algorithm, len(like), t, like.dtype)
        return sent

    def _send(self, gradient: Tensor, t: int) -> Sent:
        """Return this worker's message for its gradient [1, d], and its new state, which may reuse the gradient."""
        channel, worker = self.algorithm.uplink, self._worker
        codec = channel.codec(t)
        if not self._shards or isinstance(codec, Identity) or not has_tiles(channel, worker.memory, t):
            return self.algorithm.worker(gradient, worker, self._replica, 0.0, t, self._seed)
        if codec not in self._messages:
            self._messages[codec] = codec.encode(torch.zeros_like(gradient), MessageKey.none())
        message, key = self._messages[codec], MessageKey(self._seed, "up", t, (self._nodes.rank,))
        send(channel, gradient, worker.memory, key, message)
        return message, worker if worker.memory is None else replace(worker, memory=gradient)

    def _receive(self, down: Payload, server: Any, t: int, mean: Storage, scale: float | None) -> None:
        """Write the signal of round t into the replica, and with the scale into `mean`."""
        channel, signal = self.algorithm.downlink, self._replica.signal
        if not self._shards:
            payload: Any = down[0]
            signal = self.algorithm.receive(payload, self._replica, t)
            self._replica = replace(self._replica, signal=signal)
            signal = self.algorithm.clip_aggregate(signal)
            mean.write(0, signal if scale is None else scale * signal)
            return
        answers: Any = down
        for shard, [answer] in zip(self._shards, answers, strict=True):
            here = signal[shard.begin : shard.end]
            if server and isinstance(server.memory, Tensor) and server.memory.data_ptr() == here.data_ptr():
                mean.write(shard.begin, here if scale is None else scale * here)  # the server has written it
                continue
            for begin, message in decode_tiles(channel, shard, answer, t):
                last = signal[begin : begin + len(message)]
                new = channel.receive(message, last)
                if channel.needs_last:
                    last.copy_(new)
                mean.write(begin, new if scale is None else scale * new)

    def _share_signal(self) -> None:
        """Let the server's memory be its shard of the signal, if they are equal and written in place."""
        if self._shards and self.algorithm.downlink.is_mirrored and (server := self._servers and self._servers[0]):
            shard = self._shards[self._nodes.rank]
            self._servers = (replace(server, memory=self._replica.signal[shard.begin : shard.end]),)

    def state(self) -> dict[str, Any]:
        """Copy this rank's state, in nested dicts. Raises ValueError after LostContact."""
        if self._is_broken:
            raise ValueError("contact was lost during a round, so this state is incomplete: load an earlier one")
        return deepcopy(
            {
                "t": self.t,
                "skipped": self.skipped,
                "meter": asdict(self.meter),
                "worker": as_dicts(self._worker),
                "server": self._servers and as_dicts(self._servers[0]),
                "signal": self._replica.signal,
            }
        )

    def load(self, state: dict[str, Any]) -> None:
        """Load the result of `state` on the same rank."""
        here = to_device(deepcopy(state), self._replica.signal.device)
        self._worker = from_dicts(here["worker"], self._worker)
        self._servers = self._servers and (from_dicts(here["server"], self._servers[0]),)
        self._replica = replace(self._replica, signal=here["signal"])
        self._share_signal()
        self.t, self.skipped, self.meter = here["t"], here["skipped"], BitCounter(**here["meter"])


def check_sends_gradients(algorithm: Algorithm, d: int) -> Algorithm:
    """Return the method without its own update. Raises ValueError if it sends anything but gradients [d]."""
    differs = overridden(type(algorithm), Algorithm, *_GRADIENT_STEPS)
    if differs or overridden(type(algorithm.update), Update, "worker_message"):
        raise ValueError(
            "this method does not send gradients, or makes its own step, so a hook for gradients cannot run it. With "
            f"the whole model on every rank, use CompressedOptimizer: {algorithm}"
        )
    algorithm = replace(algorithm, update=SGD())  # it has no state
    GroupedAlgorithms((algorithm,), (d,)).check()
    return algorithm
