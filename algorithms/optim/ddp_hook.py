"""Compressed gradients in DistributedDataParallel: a communication hook, beside any optimizer of torch's."""

import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import GradBucket  # pyright: ignore[reportPrivateImportUsage]: torch does not name it
from torch.futures import Future

from ..comm.consistency import ConsistentGatherBroadcast, check_consistency, is_finite
from ..core.algorithm import Algorithm, as_dicts, from_dicts
from ..core.bit_counter import BitCounter
from ..core.grouped import SideBySide
from ..core.update_rules import SGD, Update
from ..registry import load_method
from .flat_params import Flat
from .optimizer_state import check_state, state_digest, to_device

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


class CompressedGradients:
    """The mean gradient of all ranks as a method's two channels deliver it: the state of DDP's hook.

    Every process of the default group is a worker, and rank 0 is the server too. A round is one backward pass that
    DDP synchronises: the gradients of all buckets are one vector [d] in the order of the parameters, which crosses
    when the last is ready. What is remembered is float32 where parameters are of 16 bits.

    `t` counts rounds. Where some rank's gradient is not finite all ranks receive NaN, memories and `t` stay as they
    were, and `skipped` counts the round. `meter` counts what one worker sent and received. `state_dict` holds this
    rank's memories; save and load it on every rank.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        algorithm: Algorithm,
        seed: int,
        scaler: torch.amp.GradScaler | None,
    ) -> None:
        _check_sends_gradients(algorithm)
        algorithm = replace(algorithm, update=SGD())  # which remembers nothing
        self._flat = Flat([param for param in params if param.requires_grad])
        self._place = dict(zip(self._flat.params, self._flat.places(), strict=True))
        self._gradient = self._flat.zeros()
        self._ready: list[tuple[list[Tensor], list[Tensor], Tensor, Future]] = []  # DDP's buckets of this round
        self.rank, self.workers = dist.get_rank(), dist.get_world_size()
        self.algorithm, self.seed, self.t, self.skipped, self.meter = algorithm, seed, 0, 0, BitCounter()
        SideBySide((algorithm,), (len(self._gradient),)).check()
        shapes = [tuple(param.shape) for param in self._flat.params]
        check_consistency(self._flat.device, **self._identity() | {"rank": "any", "shapes": shapes})
        self._scaler, self._wire = scaler, ConsistentGatherBroadcast(algorithm, seed)
        self._replica = algorithm.start_replica(torch.zeros_like(self._gradient))
        self._worker = algorithm.start_workers(self._gradient, torch.tensor([self.rank]))
        self._server = algorithm.start_server(self._gradient) if self.rank == 0 else None

    def take(self, bucket: GradBucket) -> Future[Tensor]:
        """What DDP calls for every bucket of gradients, in the same order on all ranks; the last begins the round.

        Raises ValueError where DDP's parameters are not those given, Disagreement where ranks differ in their
        parameters or their round, and LostContact where another rank is gone.
        """
        on_gpu = self._flat.device.type == "cuda"
        future: Future[Tensor] = Future(devices=[self._flat.device] if on_gpu else None)
        params, gradients = bucket.parameters(), bucket.gradients()
        for param, gradient in zip(params, gradients, strict=True):
            if param not in self._place:
                raise ValueError("DDP has a parameter that is not among those given: give ddp_model.parameters()")
            self._gradient[self._place[param]] = gradient.reshape(-1)
        self._ready.append((params, gradients, bucket.buffer(), future))
        if bucket.is_last():
            ready, self._ready = self._ready, []
            if sum(len(params) for params, *_ in ready) < len(self._flat.params):
                raise ValueError("DDP does not have all of the parameters given: give ddp_model.parameters()")
            scale = self._scaler.get_scale() if self._scaler else 1.0
            mean = scale * self._round(self._gradient / scale)
            for params, gradients, buffer, waiting in ready:
                for param, gradient in zip(params, gradients, strict=True):
                    gradient.copy_(mean[self._place[param]].view(param.shape))
                waiting.set_result(buffer)
        return future

    def state_dict(self) -> dict:
        """This rank's state, in nested dicts of tensors and numbers, with a digest."""
        state = self._state()
        return {**state, "digest": state_digest(state)}

    def load_state_dict(self, state_dict: dict) -> None:
        """Go on from what `state_dict` gave on the same rank.

        Raises ValueError for the state of another rank, number of workers, algorithm, seed or number of coordinates,
        for one of something else, and for a damaged one; then nothing has changed.
        """
        check_state(state_dict, self._state(), self._identity(), type(self).__name__)
        here = to_device(state_dict, self._flat.device)
        self._worker = from_dicts(here["worker"], self._worker)
        self._server = from_dicts(here["server"], self._server) if self._server else None
        self._replica = replace(self._replica, signal=here["signal"])
        self.t, self.skipped, self.meter = here["t"], here["skipped"], BitCounter(**here["meter"])

    def _round(self, gradient: Tensor) -> Tensor:
        """g̃_t [d] for this worker's gradient [d]; NaN where a rank's gradient is not finite."""
        t, usable = self.t + 1, is_finite(gradient)
        sent = gradient if usable else torch.zeros_like(gradient)
        up, worker = self.algorithm.worker(sent.unsqueeze(0), self._worker, self._replica, 0.0, t, self.seed)
        readiness = "ready" if usable else "not finite"
        down, server, _ = self._wire.step(up, self._server, self._flat.read(), 0.0, t, readiness)
        if down is None:
            self.skipped += 1
            return torch.full_like(gradient, torch.nan)
        signal = self.algorithm.received(down, self._replica, t)
        self._replica = replace(self._replica, signal=signal)
        self._worker, self._server, self.t = worker, server, t
        self.meter.count(self.algorithm, len(gradient), t, gradient.dtype)
        return self.algorithm.clipped_aggregate(signal)

    def _state(self) -> dict[str, Any]:
        return {
            "of": self._identity(),
            "t": self.t,
            "skipped": self.skipped,
            "meter": asdict(self.meter),
            "worker": as_dicts(self._worker),
            "server": as_dicts(self._server) if self._server else None,
            "signal": self._replica.signal,
        }

    def _identity(self) -> dict[str, object]:
        return {
            "rank": self.rank,
            "workers": self.workers,
            "algorithm": re.sub(" at 0x[0-9a-f]+", "", repr(self.algorithm)),
            "seed": self.seed,
            "d": len(self._gradient),
            "dtype": str(self._flat.dtype),
        }


Hook = Callable[[CompressedGradients, GradBucket], Future[Tensor]]


def compressed(
    params: Iterable[Tensor],
    algorithm: Algorithm | str,
    seed: int = 0,
    scaler: torch.amp.GradScaler | None = None,
    **options: Any,
) -> tuple[CompressedGradients, Hook]:
    """What `DistributedDataParallel.register_comm_hook` takes, so that DDP averages gradients by an algorithm.

        ddp_model.register_comm_hook(*compressed(ddp_model.parameters(), "cd_adam"))

    algorithm: a name of conf/algorithm, with `options` of its function, or what such a function made. The step stays
    that of the optimizer in the loop, and the algorithm's own update is not used: beside torch's Adam with
    `amsgrad=True` and the same β₁, β₂ and ε, `cd_adam` is CD-Adam with `update.form=torch`. scaler: the loop's
    GradScaler where it has one; gradients are remembered without its scale, which changes.
    Methods that send anything but gradients, or have a step of their own, are for CompressedOptimizer.

    Raises ValueError for these, for an unknown name or option, for no parameters, for dtypes or devices that do not
    fit into one vector, and for a compressor that cannot take so few coordinates; Disagreement where ranks do not
    have the same algorithm, seed and parameter shapes; LostContact.
    """
    if isinstance(algorithm, str):
        algorithm = load_method(algorithm, **options)
    elif options:
        raise ValueError(f"{', '.join(options)}: options are only for an algorithm given by name")
    return CompressedGradients(params, algorithm, seed, scaler), CompressedGradients.take


def _check_sends_gradients(algorithm: Algorithm) -> None:
    own, update = type(algorithm), type(algorithm.update)
    differs = any(getattr(own, step) is not getattr(Algorithm, step) for step in _OF_GRADIENTS)
    if differs or update.worker_message is not Update.worker_message:
        raise ValueError(
            f"{algorithm}: this method does not send gradients, or makes its own step, which a hook "
            "for gradients cannot take over: use CompressedOptimizer"
        )
