"""The algorithms in a training loop of your own, over the default process group or alone."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from algorithms.compressors import Payload
from algorithms.meter import Meter
from algorithms.protocol import Algorithm, ServerState, as_dicts, from_dicts
from algorithms.wire import Wire


class CompressedOptimizer(torch.optim.Optimizer):
    """Steps a module's parameters with an algorithm of this package, every process being one worker.

        optimizer = CompressedOptimizer(model.parameters(), cd_adam(ScaledSign(), AMSGrad()), lr=1e-3)
        loss(model, my_batch).backward()
        optimizer.step()
        optimizer.zero_grad()

    Gradients are the worker's own: do not average them, nor wrap the module in DistributedDataParallel. Rank 0 is the
    server; its parameters are broadcast at the start, and from then on all ranks hold the same ones. Where no process
    group was initialised there is one worker, and messages are compressed all the same. Parameters that do not
    require a gradient are left alone; one that does but has none sends zero, for which one bit has no code. A step
    starts from the parameters as they are, so that they may be changed from outside, alike on all ranks (but
    not with quantized_adam, whose server holds the weights). `meter` counts what one worker sent and received. The
    step size is `param_groups[0]["lr"]`, where torch's schedulers find it. `state_dict` holds this rank's memories,
    moments and counters; save and load it on every rank.

    Raises ValueError for no parameters, several dtypes or devices, or more than one parameter group, and where the
    algorithm's compressor cannot take so few coordinates.
    """

    def __init__(self, params: Iterable[Tensor], algorithm: Algorithm, lr: float, seed: int = 0) -> None:
        super().__init__(params, {"lr": lr})
        self._params = [param for param in self.param_groups[0]["params"] if param.requires_grad]
        if not self._params:
            raise ValueError("no parameter requires a gradient")
        if len({(param.dtype, param.device) for param in self._params}) > 1:
            raise ValueError("parameters differ in dtype or device: they must fit into one vector")
        together = dist.is_available() and dist.is_initialized()
        self.rank, self.workers = (dist.get_rank(), dist.get_world_size()) if together else (0, 1)
        self.algorithm, self.seed, self.t, self.meter = algorithm, seed, 0, Meter()
        x = self._vector(self._params)
        algorithm.check(x.numel())
        if self.workers > 1:
            dist.broadcast(x, src=0)
        self._set_parameters(x)
        self._replica = algorithm.start_replica(x)
        self._worker = algorithm.start_workers(x, torch.tensor([self.rank]))
        self._server = algorithm.start_server(x) if self.rank == 0 else None
        self._wire = Wire(algorithm, seed) if together else None

    def add_param_group(self, param_group: dict) -> None:
        """Refused after the first group: all parameters are compressed as one vector of fixed length."""
        if self.param_groups:
            raise ValueError("one parameter group only: all parameters are compressed as one vector")
        super().add_param_group(param_group)

    @torch.no_grad()
    def step(  # pyright: ignore[reportIncompatibleMethodOverride]: torch's closures return floats
        self, closure: Callable[[], Tensor] | None = None
    ) -> Tensor | None:
        """One round: send this worker's gradient, receive the server's answer, update.

        Returns what `closure` returned, if one was given to compute the gradient.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        t, lr = self.t + 1, float(self.param_groups[0]["lr"])
        gradient = self._vector(
            [torch.zeros_like(param) if param.grad is None else param.grad for param in self._params]
        )
        replica = replace(self._replica, x=self._vector(self._params))
        up, worker = self.algorithm.worker(gradient.unsqueeze(0), self._worker, replica, lr, t, self.seed)
        exchange = self._wire.exchange if self._wire else self._serve
        down, self._server = exchange(up, self._server, gradient, t)
        self._replica = self.algorithm.replica(down, replica, lr, t)
        self._worker, self.t = worker, t
        self._set_parameters(self._replica.x)
        self.meter.count(self.algorithm, len(gradient), t, gradient.dtype)
        return loss

    def state_dict(self) -> dict:
        """This rank's state, in nested dicts of tensors and numbers."""
        return {
            "param_groups": super().state_dict()["param_groups"],
            "of": self._identity(),
            "t": self.t,
            "meter": asdict(self.meter),
            "worker": as_dicts(self._worker),
            "replica": as_dicts(self._replica),
            "server": as_dicts(self._server),
        }

    def load_state_dict(self, state_dict: dict) -> None:
        """Go on from what `state_dict` gave on the same rank; the parameters are set to the saved ones too.

        Raises ValueError for the state of another rank, number of workers, algorithm, seed or number of coordinates.
        """
        for what, mine in self._identity().items():
            saved = state_dict["of"][what]
            if saved != mine:
                raise ValueError(f"this state is of {what} {saved}, not {mine}: every rank loads what it saved")
        super().load_state_dict({"state": {}, "param_groups": state_dict["param_groups"]})
        here = _to(state_dict, self._params[0].device)
        self._worker = from_dicts(here["worker"], self._worker)
        self._replica = from_dicts(here["replica"], self._replica)
        self._server = from_dicts(here["server"], self._server)
        self.t, self.meter = here["t"], Meter(**here["meter"])
        self._set_parameters(self._replica.x)

    def _identity(self) -> dict[str, object]:
        return {
            "rank": self.rank,
            "workers": self.workers,
            "algorithm": repr(self.algorithm),
            "seed": self.seed,
            "d": sum(param.numel() for param in self._params),
            "dtype": str(self._params[0].dtype),
        }

    def _vector(self, parts: list[Tensor]) -> Tensor:
        """A new flat vector [d]."""
        return torch.cat([tensor.detach().reshape(-1) for tensor in parts])

    def _serve(self, up: Payload, server: ServerState | None, x: Tensor, t: int) -> tuple[Payload, ServerState]:
        """The server of a cluster of one."""
        assert server is not None
        return self.algorithm.server(up, server, t, self.seed)

    @torch.no_grad()
    def _set_parameters(self, x: Tensor) -> None:
        for param, values in zip(self._params, x.split([param.numel() for param in self._params]), strict=True):
            param.copy_(values.view(param.shape))


def _to(node: Any, device: torch.device) -> Any:
    """Nested dicts with their floating-point tensors on a device; worker numbers stay on the CPU."""
    if isinstance(node, dict):
        return {key: _to(value, device) for key, value in node.items()}
    return node.to(device) if isinstance(node, Tensor) and node.is_floating_point() else node
