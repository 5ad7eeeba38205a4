"""The algorithms in a training loop of your own, over the default process group or alone.

The one file of this package that knows of process groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from algorithms.compressors.base import Payload, rebuild, tensors
from algorithms.meter import Meter
from algorithms.protocol import Algorithm, ReplicaState, ServerState, WorkerState
from algorithms.randomness import Key
from algorithms.updates import Moments


class CompressedOptimizer(torch.optim.Optimizer):
    """Steps a module's parameters with an algorithm of this package, every process being one worker.

        optimizer = CompressedOptimizer(model.parameters(), cd_adam(ScaledSign(), AMSGrad()), lr=1e-3)
        loss(model, my_batch).backward()
        optimizer.step()
        optimizer.zero_grad()

    Gradients are the worker's own: do not average them, nor wrap the module in DistributedDataParallel. Rank 0 is the
    server; its parameters are broadcast at the start, and from then on all ranks hold the same ones. Where no process
    group was initialised there is one worker, and messages are compressed all the same. `meter` counts what one
    worker sent and received. The step size is `param_groups[0]["lr"]`, where torch's schedulers find it.
    `state_dict` holds this rank's memories, moments and counters; save and load it on every rank.

    Raises ValueError for parameters of several dtypes or devices, for more than one parameter group, and where the
    algorithm's compressor cannot take so few coordinates.
    """

    def __init__(self, params: Iterable[Tensor], algorithm: Algorithm, lr: float, seed: int = 0) -> None:
        super().__init__(params, {"lr": lr})
        if len(self.param_groups) > 1:
            raise ValueError("one parameter group only: all parameters are compressed as one vector")
        self._params: list[Tensor] = self.param_groups[0]["params"]
        if len({(param.dtype, param.device) for param in self._params}) > 1:
            raise ValueError("parameters differ in dtype or device: they must fit into one vector")
        together = dist.is_available() and dist.is_initialized()
        self.rank, self.workers = (dist.get_rank(), dist.get_world_size()) if together else (0, 1)
        self.algorithm, self.seed, self.t, self.meter = algorithm, seed, 0, Meter()
        x = parameters_to_vector(self._params).detach()
        algorithm.check(x.numel())
        if self.workers > 1:
            dist.broadcast(x, src=0)
        vector_to_parameters(x, self._params)
        self._replica = algorithm.start_replica(x.clone())
        self._worker = algorithm.start_workers(x, torch.tensor([self.rank]))
        self._server = algorithm.start_server(x.clone()) if self.rank == 0 else None

    @torch.no_grad()
    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor | None:
        """One round: send this worker's gradient, receive the server's answer, update. A missing gradient is zero.

        Returns what `closure` returned, if one was given to compute the gradient.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        t, lr = self.t + 1, self.param_groups[0]["lr"]
        grads = [torch.zeros_like(param) if param.grad is None else param.grad for param in self._params]
        gradient = parameters_to_vector(grads).unsqueeze(0)
        up, self._worker = self.algorithm.worker(gradient, self._worker, self._replica, lr, t, self.seed)
        self._replica = self.algorithm.replica(self._exchange(up, t), self._replica, lr, t)
        vector_to_parameters(self._replica.x.clone(), self._params)
        self.t = t
        self.meter.count(self.algorithm, gradient.shape[-1], t, gradient.dtype)
        return loss

    def state_dict(self) -> dict:
        """This rank's state, in nested dicts of tensors and numbers."""
        return {
            "param_groups": super().state_dict()["param_groups"],
            "t": self.t,
            "meter": asdict(self.meter),
            "worker": asdict(self._worker),
            "replica": asdict(self._replica),
            "server": None if self._server is None else asdict(self._server),
        }

    def load_state_dict(self, state_dict: dict) -> None:
        """Go on from what `state_dict` of the same rank gave; the parameters are set to the saved ones too."""
        super().load_state_dict({"state": {}, "param_groups": state_dict["param_groups"]})
        self._params = self.param_groups[0]["params"]
        worker, replica = dict(state_dict["worker"]), dict(state_dict["replica"])
        self._worker = WorkerState(**{**worker, "moments": Moments(**worker["moments"])})
        self._replica = ReplicaState(**{**replica, "moments": Moments(**replica["moments"])})
        self._server = None if state_dict["server"] is None else ServerState(**state_dict["server"])
        self.t, self.meter = state_dict["t"], Meter(**state_dict["meter"])
        vector_to_parameters(self._replica.x.clone(), self._params)

    def _exchange(self, up: Payload, t: int) -> Payload:
        """Gather all workers' payloads on rank 0, run the server there, and broadcast its payload."""
        gathered = [self._gather(tensor) for tensor in tensors(up)]
        if self.rank == 0:
            down, self._server = self.algorithm.server(rebuild(up, gathered), self._server, t, self.seed)
        else:
            like = torch.zeros_like(self._replica.x)
            down = self.algorithm.downlink.codec(t).encode(like, Key.none())
        if self.workers == 1:
            return down
        received = [tensor.contiguous() for tensor in tensors(down)]
        for tensor in received:
            if tensor.numel():
                dist.broadcast(tensor, src=0)
        return rebuild(down, received)

    def _gather(self, tensor: Tensor) -> Tensor:
        """All workers' tensors [1, ...] in worker order, [n, ...], on rank 0; on other ranks nothing of use."""
        if self.workers == 1:
            return tensor
        if not tensor.numel():
            return tensor.expand(self.workers, *tensor.shape[1:])
        tensor = tensor.contiguous()
        parts = [torch.empty_like(tensor) for _ in range(self.workers)] if self.rank == 0 else None
        dist.gather(tensor, parts, dst=0)
        return torch.cat(parts) if parts else tensor
