"""Compressed gradients in DistributedDataParallel: a communication hook, with any torch optimizer."""

import weakref
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import GradBucket  # pyright: ignore[reportPrivateImportUsage]: torch does not name it
from torch.futures import Future

from ..comm.consistency import check_consistency
from ..comm.nodes import Nodes
from ..core.algorithm import Algorithm
from ..core.bit_counter import BitCounter
from .compressed_mean import CompressedMean, check_sends_gradients
from .flat_params import Flat, FlatView
from .optimizer_state import check_state, identity, with_digest
from .param_groups import Partition, resolve_method, with_partition


class CompressedGradients:
    """The state of DDP's hook: it averages the gradients of all ranks by a method's two channels.

    Every process of the group, or every node, is a worker. A round is one backward pass that DDP synchronises. The
    gradients of all buckets are one vector [d] in the order of the parameters, sent when the last bucket is ready.
    Memories of 16-bit parameters are float32.

    `t` counts rounds. If a rank's gradient is not finite, all ranks receive NaN. Memories and `t` then stay as they
    were, and `skipped` counts the round. `meter` counts one worker's communication. `state_dict` holds this
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
        intra_group: dist.ProcessGroup | None,
    ) -> None:
        given = list(params)
        if any(isinstance(param, dict) for param in given):
            raise ValueError("the hook takes parameters, not parameter groups: give it ddp_model.parameters()")
        self._names = [param[0] for param in given if not isinstance(param, Tensor)]
        self._given = [param if isinstance(param, Tensor) else param[1] for param in given]
        self._flat = Flat(self._given)
        algorithm = with_partition(algorithm, partition, [param.shape for param in self._flat.params])
        self.algorithm = check_sends_gradients(algorithm, sum(self._flat.sizes))
        self.seed, self._scaler, self._groups = seed, scaler, (process_group, intra_group)
        self._ready: list[tuple[Tensor, Future]] = []  # DDP's buckets of this round
        self._found: dict[Tensor, Tensor] = {}  # and their gradients
        if dist.is_available() and dist.is_initialized():
            _ = self._mean

    @cached_property
    def _mean(self) -> CompressedMean:
        """Created on first use, when there is a process group and parameters are on their device."""
        nodes = Nodes(*self._groups)
        self.rank, self.workers = nodes.rank, nodes.size
        self._flat = Flat(self._given)
        self._place = dict(zip(self._flat.params, self._flat.slices(), strict=True))
        self._gradient = self._flat.zeros()
        alike = self._identity() | {"rank": "any", "names": self._names}
        check_consistency(self._flat.device, self._groups[0], **alike)
        # DDP calls no hook for parameters converted after its construction. Ranks would silently drift apart.
        alive = weakref.ref(self)  # the parameter outlives the hook

        def check(param: Tensor) -> None:
            if own := alive():
                own._flat.check()

        self._flat.params[0].register_post_accumulate_grad_hook(check)
        return CompressedMean(self.algorithm, self._flat.zeros(), self.seed, nodes, self._scaler)

    @property
    def t(self) -> int:
        return self._mean.t

    @property
    def skipped(self) -> int:
        return self._mean.skipped

    @property
    def meter(self) -> BitCounter:
        return self._mean.meter

    def take_bucket(self, bucket: GradBucket) -> Future[Tensor]:
        """Take a bucket of gradients from DDP, in the same order on all ranks. The last one starts the round.

        Raises ValueError if DDP has other parameters than the hook, Disagreement if ranks differ in parameters or
        round, and LostContact if another rank is gone.
        """
        compressed_mean = self._mean
        on_gpu = self._flat.device.type == "cuda"
        future: Future[Tensor] = Future(devices=[self._flat.device] if on_gpu else None)
        for param, gradient in zip(bucket.parameters(), bucket.gradients(), strict=True):
            if param not in self._place:
                raise ValueError("DDP has a parameter that the hook was not given: give it ddp_model.parameters()")
            # DDP's buckets hold dense parameters in memory order, and `gradients` reads them as if contiguous.
            if not param.is_contiguous() and torch.empty_like(param, device="meta").stride() == param.stride():
                gradient = gradient.as_strided(param.shape, param.stride())
            self._gradient[self._place[param]] = gradient.reshape(-1)
            self._found[param] = gradient
        self._ready.append((bucket.buffer(), future))
        if bucket.is_last():
            (found, self._found), (ready, self._ready) = (self._found, {}), (self._ready, [])
            if len(found) < len(self._flat.params):
                raise ValueError("DDP lacks some parameters of the hook: give it ddp_model.parameters()")
            mean = FlatView([found[param] for param in self._flat.params], self._flat.sizes, self._gradient)
            self._gradient = compressed_mean.round(self._gradient, self._flat.params, mean)
            mean.finish()
            for buffer, waiting in ready:
                waiting.set_result(buffer)
        return future

    def state_dict(self) -> dict:
        """Return this rank's state, in nested dicts of tensors and numbers, with a digest.

        Raises ValueError before there is a process group, and after LostContact.
        """
        return with_digest(self._state())

    def load_state_dict(self, state_dict: dict) -> None:
        """Load the result of `state_dict` on the same rank.

        Raises ValueError for a damaged state, for one of another rank, number of workers, algorithm, seed, shapes of
        parameters or class, and before there is a process group. Then nothing has changed.
        """
        check_state(state_dict, self._state(), self._identity(), type(self).__name__)
        self._mean.load(state_dict)

    def __getstate__(self) -> NoReturn:
        raise TypeError(
            "compressed gradients cannot be copied or pickled: save their state_dict(), and copy ddp_model.module "
            "instead of ddp_model"
        )

    def _state(self) -> dict[str, Any]:
        mean = self._mean  # before `_identity`, which needs it
        return {"of": self._identity(), **mean.state()}

    def _identity(self) -> dict[str, object]:
        d = len(self._gradient)
        return identity(self.rank, self.workers, [self.algorithm], self.seed, d, self._flat)


Hook = Callable[[CompressedGradients, GradBucket], Future[Tensor]]


def compressed(
    params: Iterable[Tensor | tuple[str, Tensor]],
    algorithm: Algorithm | str,
    seed: int = 0,
    scaler: torch.amp.GradScaler | None = None,
    process_group: dist.ProcessGroup | None = None,
    partition: Partition = "whole",
    intra_group: dist.ProcessGroup | None = None,
    **options: Any,
) -> tuple[CompressedGradients, Hook]:
    """Return state and hook for `DistributedDataParallel.register_comm_hook`: an algorithm averages the gradients.

        ddp_model.register_comm_hook(*compressed(ddp_model.parameters(), "loco"))

    The optimizer in the loop makes the step, and the algorithm's own update is not used. With torch's Adam,
    `amsgrad=True` and the same β₁, β₂ and ε, `cd_adam` is CD-Adam with `update.form=torch`. If there is no process
    group yet, the ranks are compared at the first bucket.

    algorithm: a name of conf/algorithm, with `options` of its function, or the result of such a function. It must
    send gradients and make no step of its own; CompressedOptimizer takes the others.
    scaler: the loop's GradScaler, if any; its scale changes, so memories are kept without it. process_group: DDP's,
    if it has one of its own. partition: "layer" gives every parameter its own scale. intra_group: the ranks of this
    rank's node. They average their gradients uncompressed, and every node is one worker.

    Raises ValueError for other algorithms, an unknown name or option, no parameters, dtypes or devices that do not
    fit into one vector, and a compressor that cannot take so few coordinates. Raises Disagreement if ranks differ in
    algorithm, seed, or shapes or names of parameters, and LostContact.
    """
    algorithm = resolve_method(algorithm, options)
    return CompressedGradients(
        params, algorithm, seed, scaler, process_group, partition, intra_group
    ), CompressedGradients.take_bucket
