"""The mean gradient of a process group by a method's two channels, without the method's update."""

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor

from ..comm.consistency import connect, digest_of_all, is_finite
from ..comm.nodes import Nodes
from ..core.algorithm import Algorithm, as_dicts, from_dicts
from ..core.bit_counter import BitCounter
from ..core.grouped import SideBySide
from ..core.update_rules import SGD, Update
from ..registry import load_method
from .optimizer_state import to_device

_GRADIENT_STEPS = (
    "start_workers",
    "start_moments",
    "worker_message",
    "worker",
    "server",
    "aggregate",
    "server_message",
    "mean",
    "received",
    "apply_signal",
)
"""A method that overrides one of these does not send plain gradients, so a hook cannot run it."""


class CompressedMean:
    """Averages the gradients of a group's ranks by a method's two channels: g̃_t [d], with which an optimizer steps.

    Every node is a worker. Each node, or only the first, is also a server. `t` counts rounds. If a rank's gradient
    is not finite, all ranks receive NaN. Memories and `t` then stay as they were, and `skipped` counts the round.
    `meter` counts the bits that one worker sent and received.

    zeros: a vector [d] with the gradients' dtype and device. scaler: messages and memories are without its scale,
    gradients and their mean with it.
    Raises ValueError for a compressor that cannot take d coordinates.
    """

    def __init__(
        self, algorithm: Algorithm, zeros: Tensor, seed: int, nodes: Nodes, scaler: torch.amp.GradScaler | None
    ) -> None:
        algorithm = check_sends_gradients(algorithm, len(zeros))
        self.algorithm, self.t, self.skipped, self.meter = algorithm, 0, 0, BitCounter()
        self._seed, self._nodes, self._scaler = seed, nodes, scaler
        self._wire = connect(SideBySide((algorithm,), (len(zeros),)), seed, nodes)
        self._replica = algorithm.start_replica(zeros)
        self._worker = algorithm.start_workers(zeros, torch.tensor([nodes.rank]))
        self._servers = self._wire.start_server(zeros) if nodes.leads else None

    def round(self, gradient: Tensor | None, params: Iterable[Tensor]) -> Tensor:
        """g̃_t [d] for this worker's gradient [d]; NaN if a rank's gradient is not finite.

        Ranks compare `params`. A rank without a gradient must still take part, with None, because the others wait for
        it; it raises its own error afterwards. Raises Disagreement, also if another rank has no gradient, and
        LostContact.
        """
        scale, like = self._scaler.get_scale() if self._scaler else None, self._replica.x
        t, readiness, sent = self.t + 1, "refused", torch.zeros_like(like) if gradient is None else gradient
        sent = self._nodes.mean(sent if scale is None else sent / scale)
        if gradient is not None:
            readiness = "ready" if is_finite(sent) else "not finite"
        if readiness != "ready":
            sent = torch.zeros_like(like)
        up, worker = self.algorithm.worker(sent.unsqueeze(0), self._worker, self._replica, 0.0, t, self._seed)
        down, servers, _ = self._wire.step(
            (up,), self._servers, like, 0.0, t, readiness, digest_of_x=digest_of_all(params)
        )
        if down is None:
            self.skipped += 1
            return torch.full_like(like, torch.nan)
        payload: Any = down[0]
        signal = self.algorithm.received(payload, self._replica, t)
        self._replica = replace(self._replica, signal=signal)
        self._worker, self._servers, self.t = worker, servers, t
        self.meter.count(self.algorithm, len(like), t, like.dtype)
        mean = self.algorithm.clipped_aggregate(signal)
        return mean if scale is None else scale * mean

    def state(self) -> dict[str, Any]:
        """This rank's state, in nested dicts."""
        return {
            "t": self.t,
            "skipped": self.skipped,
            "meter": asdict(self.meter),
            "worker": as_dicts(self._worker),
            "server": self._servers and as_dicts(self._servers[0]),
            "signal": self._replica.signal,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Load what `state` returned on the same rank."""
        here = to_device(state, self._replica.signal.device)
        self._worker = from_dicts(here["worker"], self._worker)
        self._servers = self._servers and (from_dicts(here["server"], self._servers[0]),)
        self._replica = replace(self._replica, signal=here["signal"])
        self.t, self.skipped, self.meter = here["t"], here["skipped"], BitCounter(**here["meter"])


def resolve_method(algorithm: Algorithm | str, options: dict[str, Any]) -> Algorithm:
    """The method itself, or the one of this name with its options. Raises ValueError."""
    if isinstance(algorithm, str):
        return load_method(algorithm, **options)
    if options:
        raise ValueError(f"{', '.join(options)}: options are only for an algorithm given by name")
    return algorithm


def check_sends_gradients(algorithm: Algorithm, d: int) -> Algorithm:
    """The method without its own update. Raises ValueError if it sends anything but gradients [d]."""
    own, update = type(algorithm), type(algorithm.update)
    differs = any(getattr(own, step) is not getattr(Algorithm, step) for step in _GRADIENT_STEPS)
    if differs or update.worker_message is not Update.worker_message:
        raise ValueError(
            f"{algorithm}: this method does not send gradients, or makes its own step, so a hook for gradients "
            "cannot run it. With the whole model on every rank, use CompressedOptimizer"
        )
    algorithm = replace(algorithm, update=SGD())  # it has no state
    SideBySide((algorithm,), (d,)).check()
    return algorithm
