"""Compressed gradients in DistributedDataParallel: a communication hook, beside any optimizer of torch's."""

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import GradBucket  # pyright: ignore[reportPrivateImportUsage]: torch does not name it
from torch.futures import Future

from ..comm.consistency import check_consistency
from ..comm.gather_broadcast import place_in
from ..core.algorithm import Algorithm
from ..core.bit_counter import BitCounter
from .compressed_mean import CompressedMean, check_sends_gradients, chosen_method
from .flat_params import Flat
from .optimizer_state import check_state, state_digest
from .param_groups import Partition, partitioned


class CompressedGradients:
    """The mean gradient of all ranks as a method's two channels deliver it: the state of DDP's hook.

    Every process of the group is a worker, and its rank 0 is the server too. A round is one backward pass that DDP
    synchronises: the gradients of all buckets are one vector [d] in the order of the parameters, which crosses when
    the last is ready. What is remembered is float32 where parameters are of 16 bits.

    `t` counts rounds. Where some rank's gradient is not finite all ranks receive NaN, memories and `t` stay as they
    were, and `skipped` counts the round. `meter` counts what one worker sent and received. `state_dict` holds this
    rank's memories; save and load it on every rank.
    """

    def __init__(
        self,
        params: Iterable[Tensor | tuple[str, Tensor]],
        algorithm: Algorithm,
        seed: int,
        scaler: torch.amp.GradScaler | None,
        process_group: dist.ProcessGroup | None,
        partition: Partition,
    ) -> None:
        tensors = [param if isinstance(param, Tensor) else param[1] for param in params]
        self._flat = Flat([param for param in tensors if param.requires_grad])
        algorithm = partitioned(algorithm, partition, self._flat.sizes)
        self.algorithm = check_sends_gradients(algorithm, sum(self._flat.sizes))
        self.seed, self._scaler, self._group = seed, scaler, process_group
        self._ready: list[tuple[list[Tensor], list[Tensor], Tensor, Future]] = []  # DDP's buckets of this round
        if dist.is_available() and dist.is_initialized():
            _ = self._mean

    @cached_property
    def _mean(self) -> CompressedMean:
        """Begun with the ranks of the group, on the device where the parameters are by now."""
        self.rank, self.workers = place_in(self._group)
        self._flat = Flat(self._flat.params)
        self._place = dict(zip(self._flat.params, self._flat.places(), strict=True))
        self._gradient = self._flat.zeros()
        shapes = [tuple(param.shape) for param in self._flat.params]
        alike = self._identity() | {"rank": "any", "shapes": shapes}
        check_consistency(self._flat.device, self._group, **alike)
        return CompressedMean(self.algorithm, torch.zeros_like(self._gradient), self.seed, self._group)

    @property
    def t(self) -> int:
        return self._mean.t

    @property
    def skipped(self) -> int:
        return self._mean.skipped

    @property
    def meter(self) -> BitCounter:
        return self._mean.meter

    def take(self, bucket: GradBucket) -> Future[Tensor]:
        """What DDP calls for every bucket of gradients, in the same order on all ranks; the last begins the round.

        Raises ValueError where DDP's parameters are not those given, Disagreement where ranks differ in their
        parameters or their round, and LostContact where another rank is gone.
        """
        compressed_mean = self._mean
        on_gpu = self._flat.device.type == "cuda"
        future: Future[Tensor] = Future(devices=[self._flat.device] if on_gpu else None)
        params, gradients = bucket.parameters(), bucket.gradients()
        if not self._ready:
            self._gradient = torch.empty_like(self._gradient)  # a memory may be the vector of the round before
        for param, gradient in zip(params, gradients, strict=True):
            if param not in self._place:
                raise ValueError("DDP has a parameter that is not among those given: give ddp_model.parameters()")
            self._gradient[self._place[param]] = gradient.reshape(-1)
        self._ready.append((params, gradients, bucket.buffer(), future))
        if bucket.is_last():
            ready, self._ready = self._ready, []
            if sum(len(params) for params, *_ in ready) < len(self._flat.params):
                raise ValueError("DDP does not have all of the parameters given: give ddp_model.parameters()")
            scale = self._scaler.get_scale() if self._scaler else None
            gradient = self._gradient if scale is None else self._gradient / scale
            mean = compressed_mean.round(gradient, self._flat.read())
            mean = mean if scale is None else scale * mean
            for params, gradients, buffer, waiting in ready:
                for param, gradient in zip(params, gradients, strict=True):
                    gradient.copy_(mean[self._place[param]].view(param.shape))
                waiting.set_result(buffer)
        return future

    def state_dict(self) -> dict:
        """This rank's state, in nested dicts of tensors and numbers, with a digest.

        Raises ValueError before there is a process group.
        """
        state = self._state()
        return {**state, "digest": state_digest(state)}

    def load_state_dict(self, state_dict: dict) -> None:
        """Go on from what `state_dict` gave on the same rank.

        Raises ValueError for the state of another rank, number of workers, algorithm, seed or number of coordinates,
        for one of something else, for a damaged one, and before there is a process group; then nothing has changed.
        """
        check_state(state_dict, self._state(), self._identity(), type(self).__name__)
        self._mean.load(state_dict)

    def __getstate__(self) -> NoReturn:
        raise TypeError(
            "compressed gradients cannot be copied or pickled: save their state_dict(), and copy ddp_model.module "
            "instead of ddp_model"
        )

    def _state(self) -> dict[str, Any]:
        state = self._mean.state()
        return {"of": self._identity(), **state}

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
    params: Iterable[Tensor | tuple[str, Tensor]],
    algorithm: Algorithm | str,
    seed: int = 0,
    scaler: torch.amp.GradScaler | None = None,
    process_group: dist.ProcessGroup | None = None,
    partition: Partition = "whole",
    **options: Any,
) -> tuple[CompressedGradients, Hook]:
    """What `DistributedDataParallel.register_comm_hook` takes, so that DDP averages gradients by an algorithm.

        ddp_model.register_comm_hook(*compressed(ddp_model.parameters(), "loco"))

    algorithm: a name of conf/algorithm, with `options` of its function, or what such a function made. The step stays
    that of the optimizer in the loop, and the algorithm's own update is not used: beside torch's Adam with
    `amsgrad=True` and the same β₁, β₂ and ε, `cd_adam` is CD-Adam with `update.form=torch`. scaler: the loop's
    GradScaler where it has one; gradients are remembered without its scale, which changes. process_group: that of
    DDP, where it has one of its own. partition: "layer" gives every parameter a scale of its own. Before there is a
    process group, the ranks begin at the first bucket.
    Methods that send anything but gradients, or have a step of their own, are for CompressedOptimizer.

    Raises ValueError for these, for an unknown name or option, for no parameters, for dtypes or devices that do not
    fit into one vector, and for a compressor that cannot take so few coordinates; Disagreement where ranks do not
    have the same algorithm, seed and parameter shapes; LostContact.
    """
    algorithm = chosen_method(algorithm, options)
    return CompressedGradients(params, algorithm, seed, scaler, process_group, partition), CompressedGradients.take
