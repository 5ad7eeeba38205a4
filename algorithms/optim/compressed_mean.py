"""The mean gradient of a process group, as a method's two channels deliver it: one round of workers and a server."""

from dataclasses import asdict, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ..comm.consistency import ConsistentGatherBroadcast, Readiness, is_finite
from ..core.algorithm import Algorithm, as_dicts, from_dicts
from ..core.bit_counter import BitCounter
from ..core.grouped import SideBySide
from ..core.update_rules import SGD, Update
from ..registry import load_method
from .optimizer_state import to_device

_OF_GRADIENTS = (
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
"""What a method may not do in its own way if a hook is to stand for it."""


class CompressedMean:
    """g̃_t [d], what a method makes of the gradients of all ranks of a group. The optimizer steps with it.

    Every rank is a worker, and rank 0 of the group is the server too. `t` counts rounds. Where some rank's gradient
    is not finite all ranks receive NaN, memories and `t` stay as they were, and `skipped` counts the round. `meter`
    counts what one worker sent and received.

    zeros: a vector [d] of the gradients' dtype and device; group: None is the default group.
    Raises ValueError for a compressor that cannot take d coordinates.
    """

    def __init__(
        self, algorithm: Algorithm, zeros: Tensor, seed: int, group: dist.ProcessGroup | None = None
    ) -> None:
        algorithm = check_sends_gradients(algorithm, len(zeros))
        self.algorithm, self.t, self.skipped, self.meter = algorithm, 0, 0, BitCounter()
        self._seed, self._wire = seed, ConsistentGatherBroadcast(algorithm, seed, group)
        self._replica = algorithm.start_replica(zeros)
        self._worker = algorithm.start_workers(zeros, torch.tensor([self._wire.rank]))
        self._server = algorithm.start_server(zeros) if self._wire.rank == 0 else None

    def round(self, gradient: Tensor | None, x: Tensor) -> Tensor:
        """g̃_t [d] for this worker's gradient [d]; NaN where a rank's gradient is not finite.

        x [d] are the parameters, which ranks compare. A rank without a gradient takes part, and raises its own error
        afterwards, or the others would wait for it. Raises Disagreement, also where another rank has no gradient, and
        LostContact.
        """
        t, readiness = self.t + 1, _readiness(gradient)
        sent = gradient if gradient is not None and readiness == "ready" else torch.zeros_like(x)
        up, worker = self.algorithm.worker(sent.unsqueeze(0), self._worker, self._replica, 0.0, t, self._seed)
        down, server, _ = self._wire.step(up, self._server, x, 0.0, t, readiness)
        if down is None:
            self.skipped += 1
            return torch.full_like(x, torch.nan)
        signal = self.algorithm.received(down, self._replica, t)
        self._replica = replace(self._replica, signal=signal)
        self._worker, self._server, self.t = worker, server, t
        self.meter.count(self.algorithm, len(x), t, x.dtype)
        return self.algorithm.clipped_aggregate(signal)

    def state(self) -> dict[str, Any]:
        """What this rank remembers, in nested dicts."""
        return {
            "t": self.t,
            "skipped": self.skipped,
            "meter": asdict(self.meter),
            "worker": as_dicts(self._worker),
            "server": as_dicts(self._server) if self._server else None,
            "signal": self._replica.signal,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave on the same rank."""
        here = to_device(state, self._replica.signal.device)
        self._worker = from_dicts(here["worker"], self._worker)
        self._server = from_dicts(here["server"], self._server) if self._server else None
        self._replica = replace(self._replica, signal=here["signal"])
        self.t, self.skipped, self.meter = here["t"], here["skipped"], BitCounter(**here["meter"])


def _readiness(gradient: Tensor | None) -> Readiness:
    if gradient is None:
        return "refused"
    return "ready" if is_finite(gradient) else "not finite"


def chosen_method(algorithm: Algorithm | str, options: dict[str, Any]) -> Algorithm:
    """The method of a name with its options, or the one given. Raises ValueError, also for options without a name."""
    if isinstance(algorithm, str):
        return load_method(algorithm, **options)
    if options:
        raise ValueError(f"{', '.join(options)}: options are only for an algorithm given by name")
    return algorithm


def check_sends_gradients(algorithm: Algorithm, d: int) -> Algorithm:
    """The method without an update of its own. Raises ValueError where it sends anything but gradients [d]."""
    own, update = type(algorithm), type(algorithm.update)
    differs = any(getattr(own, step) is not getattr(Algorithm, step) for step in _OF_GRADIENTS)
    if differs or update.worker_message is not Update.worker_message:
        raise ValueError(
            f"{algorithm}: this method does not send gradients, or makes its own step, which a hook for gradients "
            "cannot take over. With the whole model on every rank, use CompressedOptimizer"
        )
    algorithm = replace(algorithm, update=SGD())  # which remembers nothing
    SideBySide((algorithm,), (d,)).check()
    return algorithm
