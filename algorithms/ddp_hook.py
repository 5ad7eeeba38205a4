"""Compressed gradients in DistributedDataParallel: a communication hook, beside any optimizer of torch's."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import reduce

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import GradBucket  # pyright: ignore[reportPrivateImportUsage]: torch does not name it
from torch.futures import Future

from algorithms.agreement import AgreeingWire, agree, is_finite
from algorithms.meter import Meter
from algorithms.protocol import Algorithm
from algorithms.updates import SGD, Update

_STEP_SIZE = 0.0  # gradients do not depend on one


class CompressedGradients:
    """The mean gradient of all ranks as a method's two channels deliver it: the state of DDP's hook.

    Every process of the default group is a worker, and rank 0 is the server too. A round is one backward pass that
    DDP synchronises. The gradients of all buckets are one vector [d] in the order of the parameters, whatever buckets
    DDP forms, compressed as a whole (by tensor where the compressor is a `Blocks`), and cross when the last bucket is
    ready. What is remembered is float32, or wider where a parameter is.

    `t` counts rounds. In a round in which some rank's gradient is not finite all ranks receive NaN, as they would
    from an uncompressed sum; memories and `t` stay as they were, and `skipped` counts it. `meter` counts what one
    worker sent and received.
    """

    def __init__(
        self, params: Iterable[Tensor], algorithm: Algorithm, seed: int, scaler: torch.amp.GradScaler | None
    ) -> None:
        _check_sends_gradients(algorithm)
        self._params = [param for param in params if param.requires_grad]
        if not self._params:
            raise ValueError("no parameter requires a gradient")
        if len({param.device for param in self._params}) > 1:
            raise ValueError("parameters differ in their device: their gradients must fit into one vector")
        algorithm = replace(algorithm, update=SGD())  # remembers nothing
        self.algorithm, self.seed, self.t, self.skipped, self.meter = algorithm, seed, 0, 0, Meter()
        self.rank, self.workers = dist.get_rank(), dist.get_world_size()
        dtype = reduce(torch.promote_types, (param.dtype for param in self._params), torch.float32)
        ends = torch.tensor([param.numel() for param in self._params]).cumsum(0).tolist()
        self._place = {param: slice(end - param.numel(), end) for param, end in zip(self._params, ends, strict=True)}
        self._gradient = torch.zeros(ends[-1], dtype=dtype, device=self._params[0].device)
        self._ready: list[tuple[list[Tensor], list[Tensor], Tensor, Future]] = []
        algorithm.check(ends[-1])
        shapes = [tuple(param.shape) for param in self._params]
        agree(self._gradient.device, algorithm=algorithm, seed=seed, shapes=shapes)
        self._scaler, self._wire = scaler, AgreeingWire(algorithm, seed)
        self._replica = algorithm.start_replica(self._gradient)
        self._worker = algorithm.start_workers(self._gradient, torch.tensor([self.rank]))
        self._server = algorithm.start_server(self._gradient) if self.rank == 0 else None

    def take(self, bucket: GradBucket) -> Future[Tensor]:
        """What DDP calls for every bucket of gradients, in the same order on all ranks; the last begins the round.

        Raises ValueError where DDP's parameters are not those given, Disagreement where ranks differ in their
        parameters or their round, and LostContact where another rank is gone.
        """
        device = self._gradient.device
        future: Future[Tensor] = Future(devices=[device] if device.type == "cuda" else None)
        params, gradients = bucket.parameters(), bucket.gradients()
        for param, gradient in zip(params, gradients, strict=True):
            if param not in self._place:
                found = f"a parameter {list(param.shape)} that is not among those given"
                raise ValueError(f"DDP has {found}: give ddp_model.parameters()")
            self._gradient[self._place[param]] = gradient.reshape(-1)
        self._ready.append((params, gradients, bucket.buffer(), future))
        if bucket.is_last():
            ready, self._ready = self._ready, []
            if sum(len(params) for params, *_ in ready) < len(self._params):
                raise ValueError("DDP does not have all of the parameters given: give ddp_model.parameters()")
            scale = self._scaler.get_scale() if self._scaler else 1.0
            mean = scale * self._round(self._gradient / scale)
            for params, gradients, buffer, waiting in ready:
                for param, gradient in zip(params, gradients, strict=True):
                    gradient.copy_(mean[self._place[param]].view(param.shape))
                waiting.set_result(buffer)
        return future

    def _round(self, gradient: Tensor) -> Tensor:
        """g̃_t [d] for this rank's gradient [d]; NaN where a rank's is not finite."""
        t, usable, d = self.t + 1, is_finite(gradient), len(gradient)
        x = torch.cat([param.detach().reshape(-1).to(gradient.dtype) for param in self._params])
        sent = gradient if usable else torch.zeros_like(gradient)
        up, worker = self.algorithm.worker(sent.unsqueeze(0), self._worker, self._replica, _STEP_SIZE, t, self.seed)
        down, server = self._wire.step(up, self._server, x, _STEP_SIZE, t, usable)
        if down is None:
            self.skipped += 1
            return torch.full_like(gradient, torch.nan)
        channel = self.algorithm.downlink
        signal = channel.receive(channel.decode(down, d, t), self._replica.signal)
        self._worker, self._server, self._replica, self.t = worker, server, replace(self._replica, signal=signal), t
        self.meter.count(self.algorithm, d, t, gradient.dtype)
        return self.algorithm.clipped_aggregate(signal)


Hook = Callable[[CompressedGradients, GradBucket], Future[Tensor]]


def compressed(
    params: Iterable[Tensor], algorithm: Algorithm, seed: int = 0, scaler: torch.amp.GradScaler | None = None
) -> tuple[CompressedGradients, Hook]:
    """What `DistributedDataParallel.register_comm_hook` takes, so that DDP averages gradients by an algorithm.

        ddp_model.register_comm_hook(*compressed(ddp_model.parameters(), cd_adam(ScaledSign(), AMSGrad())))

    The step stays that of the optimizer in the loop, and the algorithm's own update is not used: with torch's Adam of
    the same β₁, β₂ and ε and `amsgrad=True`, CD-Adam is `cd_adam` with `update.form=torch`. `scaler` is the loop's
    GradScaler where it has one: memories are of gradients without its scale, which changes.
    Methods that send anything but gradients, or have a step of their own, are for CompressedOptimizer.

    Raises ValueError for these, for no parameters, for several devices, and for a compressor that cannot take so few
    coordinates; Disagreement where ranks do not have the same algorithm, seed and parameter shapes; LostContact.
    """
    return CompressedGradients(params, algorithm, seed, scaler), CompressedGradients.take


def _check_sends_gradients(algorithm: Algorithm) -> None:
    own, update = type(algorithm), type(algorithm.update)
    steps = ("start_workers", "outgoing", "worker", "server", "mean", "replica")
    if update.outgoing is not Update.outgoing or any(
        getattr(own, step) is not getattr(Algorithm, step) for step in steps
    ):
        raise ValueError(
            f"{algorithm}: this method sends something else than gradients, or has a step of its own, which a hook "
            "for gradients cannot take over: use CompressedOptimizer"
        )
