"""The algorithms in a training loop of your own, over the default process group or alone."""

import gc
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from math import inf
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from algorithms.agreement import AgreeingWire, agree, digest, is_finite
from algorithms.meter import Meter
from algorithms.protocol import Algorithm, as_dicts, from_dicts
from algorithms.randomness import keyed_seed
from algorithms.wire import contact


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
    step size is `param_groups[0]["lr"]`, where torch's schedulers find it. A worker's gradient is clipped as in any
    loop, by `torch.nn.utils.clip_grad_norm_` before `step`, which is what a run's `clip_worker` does; the aggregate
    by the algorithm's own `clip`, as `clip_aggregate` does: `dataclasses.replace(algorithm, clip=1.0)`.
    `state_dict` holds this rank's memories, moments and counters; save and load it on every rank.

    Beside every payload cross 32 bytes, which the meter does not count, by which ranks compare round, step size and
    parameters before they step: where one differs, every rank raises Disagreement, and nothing has changed on any.
    Where a gradient is infinite or NaN on some rank, all ranks skip the round: parameters, memories, moments, `t` and
    `meter` stay as they were, and `skipped` counts it. `torch.amp.GradScaler` is used as with torch's optimizers;
    every rank's scaler keeps a scale of its own, which its own gradients alone move.

    Raises ValueError for no parameters, several dtypes or devices, more than one parameter group, or a step size that
    is negative or not finite, and where the algorithm's compressor cannot take so few coordinates; Disagreement where
    ranks do not have the same algorithm, seed and parameter shapes; LostContact where another rank is gone.
    """

    _step_supports_amp_scaling = True  # torch.amp.GradScaler then leaves unscaling and skipping to `step`

    def __init__(self, params: Iterable[Tensor], algorithm: Algorithm, lr: float, seed: int = 0) -> None:
        _check_step_size(float(lr))
        super().__init__(params, {"lr": lr})
        self._params = [param for param in self.param_groups[0]["params"] if param.requires_grad]
        if not self._params:
            raise ValueError("no parameter requires a gradient")
        if len({(param.dtype, param.device) for param in self._params}) > 1:
            raise ValueError("parameters differ in dtype or device: they must fit into one vector")
        together = dist.is_available() and dist.is_initialized()
        self.rank, self.workers = (dist.get_rank(), dist.get_world_size()) if together else (0, 1)
        self.algorithm, self.seed, self.t, self.skipped, self.meter = algorithm, seed, 0, 0, Meter()
        x = self._vector(self._params)
        algorithm.check(x.numel())
        if together:
            shapes = [tuple(param.shape) for param in self._params]
            agree(x.device, **self._identity() | {"rank": "any", "shapes": shapes})
            with contact():
                dist.broadcast(x, src=0)
        self._set_parameters(x)
        self._replica = algorithm.start_replica(x)
        self._worker = algorithm.start_workers(x, torch.tensor([self.rank]))
        self._server = algorithm.start_server(x) if self.rank == 0 else None
        self._wire = AgreeingWire(algorithm, seed) if together else None
        self._has_looked = False  # for what would average gradients besides

    def add_param_group(self, param_group: dict) -> None:
        """Refused after the first group: all parameters are compressed as one vector of fixed length."""
        if self.param_groups:
            raise ValueError("one parameter group only: all parameters are compressed as one vector")
        super().add_param_group(param_group)

    @torch.no_grad()
    def step(  # pyright: ignore[reportIncompatibleMethodOverride]: torch's closures return floats
        self, closure: Callable[[], Tensor] | None = None
    ) -> Tensor | None:
        """One round: send this worker's gradient, receive the server's answer, update; or skip, as all ranks do.

        Returns what `closure` returned, if one was given to compute the gradient. Raises Disagreement where a rank
        differs from the others, ValueError for a step size that is negative or not finite and, in the first step,
        for parameters of a module in DistributedDataParallel; LostContact. Then nothing has changed.
        """
        self._refuse_averaged()
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        t, lr = self.t + 1, float(self.param_groups[0]["lr"])
        gradient = self._gradient()
        # A rank that cannot step takes part in the exchange all the same, or the others would wait for it.
        usable = is_finite(gradient) and not getattr(self, "found_inf", False) and 0 <= lr < inf
        replica = replace(self._replica, x=self._vector(self._params))
        sent, by = (gradient, lr) if usable else (torch.zeros_like(gradient), 0.0)
        up, worker = self.algorithm.worker(sent.unsqueeze(0), self._worker, replica, by, t, self.seed)
        if self._wire:
            down, server = self._wire.step(up, self._server, replica.x, lr, t, usable)
        elif usable:
            assert self._server is not None
            down, server = self.algorithm.server(up, self._server, t, self.seed)
        else:
            down = server = None
        _check_step_size(lr)  # the same on all ranks, which raise alike
        if down is None:
            self.skipped += 1
            return loss
        self._replica = self.algorithm.replica(down, replica, lr, t)
        self._worker, self._server, self.t = worker, server, t
        self._set_parameters(self._replica.x)
        self.meter.count(self.algorithm, len(gradient), t, gradient.dtype)
        return loss

    def state_dict(self) -> dict:
        """This rank's state, in nested dicts of tensors and numbers, with a digest of all but `param_groups`."""
        state = self._state()
        return {"param_groups": super().state_dict()["param_groups"], **state, "digest": _digest(state)}

    def load_state_dict(self, state_dict: dict) -> None:
        """Go on from what `state_dict` gave on the same rank; the parameters are set to the saved ones too.

        Raises ValueError for the state of another rank, number of workers, algorithm, seed or number of coordinates,
        for one of something else, and for a damaged one; then nothing has changed. Ranks that load states of
        different rounds, or not all of which load one, raise Disagreement in the next step.
        """
        self._check(state_dict)
        try:
            _check_step_size(float(state_dict["param_groups"][0]["lr"]))
            super().load_state_dict({"state": {}, "param_groups": state_dict["param_groups"]})
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise ValueError(f"this state is damaged in its param_groups: {error!r}") from error
        here = _to(state_dict, self._params[0].device)
        self._worker = from_dicts(here["worker"], self._worker)
        self._replica = from_dicts(here["replica"], self._replica)
        self._server = from_dicts(here["server"], self._server)
        self.t, self.skipped, self.meter = here["t"], here["skipped"], Meter(**here["meter"])
        self._set_parameters(self._replica.x)

    def _state(self) -> dict:
        return {
            "of": self._identity(),
            "t": self.t,
            "skipped": self.skipped,
            "meter": asdict(self.meter),
            "worker": as_dicts(self._worker),
            "replica": as_dicts(self._replica),
            "server": as_dicts(self._server),
        }

    def _check(self, saved: dict) -> None:
        """Raise ValueError unless `saved` is what `state_dict` gave for an optimizer such as this one."""
        if not isinstance(saved, dict) or not isinstance(saved.get("of"), dict):
            raise ValueError(f"this is no state_dict of a {type(self).__name__}: it does not say what it is of")
        for what, mine in self._identity().items():
            if saved["of"].get(what) != mine:
                found = saved["of"].get(what, "unknown")
                raise ValueError(f"this state is of {what} {found}, not {mine}: every rank loads what it saved")
        own = self._state()
        state = {name: saved.get(name) for name in own}
        expected, found = ({name: _kind(leaf) for name, leaf in _leaves(node)} for node in (own, state))
        for name in expected | found:
            one, other = found.get(name, "missing"), expected.get(name, "nothing")
            if one != other:
                raise ValueError(f"this state is damaged: {name} is {one} where {other} belongs; load another one")
        if saved.get("digest") != _digest(state):
            raise ValueError("this state is damaged: it is not what its digest was made of; load another one")

    def _identity(self) -> dict[str, object]:
        return {
            "rank": self.rank,
            "workers": self.workers,
            # Without addresses in memory; a state from before there was `clip` is of an algorithm without.
            "algorithm": re.sub(r" at 0x[0-9a-f]+|, clip=None", "", repr(self.algorithm)),
            "seed": self.seed,
            "d": sum(param.numel() for param in self._params),
            "dtype": str(self._params[0].dtype),
        }

    def _gradient(self) -> Tensor:
        """This worker's gradient [d], divided by the scale that torch.amp.GradScaler leaves where it is in use."""
        gradient = self._vector(
            [torch.zeros_like(param) if param.grad is None else param.grad for param in self._params]
        )
        scale = getattr(self, "grad_scale", None)
        return gradient if scale is None else gradient / scale.to(gradient.device)

    def _refuse_averaged(self) -> None:
        """Raise ValueError where a living DistributedDataParallel has a parameter of ours; it leaves no mark on them.

        The garbage collector knows all objects. It is asked once, in the first step: the module may be wrapped last.
        """
        if self.workers > 1 and not self._has_looked:
            mine = set(map(id, self._params))
            for found in gc.get_objects():
                if DistributedDataParallel in type(found).__mro__ and mine & set(map(id, found.parameters())):
                    raise ValueError(
                        "the parameters are of a module in DistributedDataParallel, which averages gradients without "
                        "compression, uncounted: take the module itself"
                    )
        self._has_looked = True

    def _vector(self, parts: list[Tensor]) -> Tensor:
        """A new flat vector [d]."""
        return torch.cat([tensor.detach().reshape(-1) for tensor in parts])

    @torch.no_grad()
    def _set_parameters(self, x: Tensor) -> None:
        for param, values in zip(self._params, x.split([param.numel() for param in self._params]), strict=True):
            param.copy_(values.view(param.shape))


def _to(node: Any, device: torch.device) -> Any:
    """Nested dicts with their floating-point tensors on a device; worker numbers stay on the CPU."""
    if isinstance(node, dict):
        return {key: _to(value, device) for key, value in node.items()}
    return node.to(device) if isinstance(node, Tensor) and node.is_floating_point() else node


def _check_step_size(lr: float) -> None:
    if not 0 <= lr < inf:
        raise ValueError(f"lr={lr}: must be finite and not negative")


def _leaves(node: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """What nested dicts hold, by dotted names."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _leaves(value, f"{name}.{key}" if name else str(key))
    else:
        yield name, node


def _kind(leaf: object) -> str:
    return f"{leaf.dtype} {list(leaf.shape)}" if isinstance(leaf, Tensor) else type(leaf).__name__


def _digest(state: dict) -> int:
    """A number that depends on every bit of a state."""
    return keyed_seed(*(
        f"{name}={digest(leaf.flatten().clone()) if isinstance(leaf, Tensor) else leaf}"  # cloned: aligned
        for name, leaf in _leaves(state)
    ))  # fmt: skip
