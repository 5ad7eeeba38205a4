"""The algorithms in a training loop of your own, over the default process group or alone."""

import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ..comm.consistency import ConsistentGatherBroadcast, check_consistency, is_finite
from ..comm.gather_broadcast import contact
from ..core.algorithm import Algorithm
from ..core.bit_counter import BitCounter, GroupedBitCounter
from ..core.grouped import SideBySide
from .flat_params import Flat
from .optimizer_state import check_state, of_parts, state_digest, to_device, to_parts
from .param_groups import Settings, check_group, check_step_size, chosen, read_settings, with_settings


class CompressedOptimizer(torch.optim.Optimizer):
    """Steps a module's parameters with an algorithm of this package. Every process is one worker.

        optimizer = CompressedOptimizer(model.parameters(), "cd_adam", lr=1e-3)
        loss(model, my_batch).backward()
        optimizer.step()
        optimizer.zero_grad()

    Gradients must be the worker's own: do not average them, and do not wrap the module in DistributedDataParallel.
    Rank 0 is the server, and its parameters are broadcast at the start. Without a process group there is one worker.
    `meter` counts what one worker sent and received, and `skipped` the rounds in which a gradient was not finite;
    such a round changes nothing on any rank.

    algorithm: what a method's function returns, such as `cd_adam(ScaledSign(), AMSGrad())`, or the name of a file of
    conf/algorithm. options: with a name, parameters of the method's function, such as `rounds=10_000` for a warm-up;
    and defaults of the algorithm's `hyperparameters` among weight_decay, betas and momentum.

    A parameter group may set lr, hyperparameters and `compressor`; None sends the group uncompressed. Every group
    has its own scale and memory; all groups cross in one message a direction. Parameters of 16 bits have float32
    copies, in which states and messages are computed. docs/optimizer.md has clipping, schedulers and GradScaler.

    Raises ValueError for parameters, options or a step size that cannot be used; Disagreement where ranks differ in
    algorithm, seed or parameter shapes; LostContact where another rank is gone.
    """

    _step_supports_amp_scaling = True  # torch.amp.GradScaler then leaves unscaling and skipping to `step`

    def __init__(
        self, params: Iterable[Any], algorithm: Algorithm | str, lr: float, seed: int = 0, **options: Any
    ) -> None:
        check_step_size(float(lr))
        self.algorithm, hyperparameters = chosen(algorithm, options)
        self.seed, self.t, self.skipped = seed, 0, 0
        self._is_distributed = dist.is_available() and dist.is_initialized()
        self.rank, self.workers = (dist.get_rank(), dist.get_world_size()) if self._is_distributed else (0, 1)
        if options.get("workers", self.workers) != self.workers:
            raise ValueError(f"workers={options['workers']}: there are {self.workers} ranks, each a worker")
        self._has_started = False
        self._of_groups: list[Algorithm] = []  # of every group
        defaults = {"lr": lr, **hyperparameters}
        self._settable = dict(defaults)  # torch adds to `defaults` what is none of ours
        super().__init__(params, defaults)
        self._start()

    def add_param_group(self, param_group: dict) -> None:
        """Add a group before the first step, on every rank alike.

        Raises ValueError after the first step, and what the constructor raises; then the group is not added.
        """
        if self.t or self.skipped:
            raise ValueError("add groups before the first step, on every rank")
        group = dict(param_group)
        algorithm = self.algorithm
        if "compressor" in group:
            algorithm = algorithm.with_compressor(group.pop("compressor"))
        check_group(group, self._settable)
        super().add_param_group(group)
        self._of_groups.append(algorithm)
        if self._has_started:
            try:
                self._start()
            except Exception:
                del self.param_groups[-1], self._of_groups[-1]
                raise

    def _start(self) -> None:
        """Set up the states before the first round, alike on all ranks, or nothing where it raises."""
        groups = [[param for param in group["params"] if param.requires_grad] for group in self.param_groups]
        active = [number for number, params in enumerate(groups) if params]
        flat = Flat([param for params in groups for param in params])
        sizes = tuple(sum(param.numel() for param in groups[number]) for number in active)
        initial = SideBySide(tuple(self._of_groups[number] for number in active), sizes)
        initial.check()
        settings = self._read(active)
        current = with_settings(initial, settings)
        x = flat.read()
        if self._is_distributed:
            shapes = [tuple(param.shape) for param in flat.params]
            check_consistency(x.device, **self._identity(initial, flat) | {"rank": "any", "shapes": shapes})
            with contact():
                dist.broadcast(x, src=0)
        flat.write(x)
        self._active, self._flat, self._initial = active, flat, initial  # _active: the groups that have parameters
        self._settings, self._current = settings, current  # of the last round
        self._replicas = initial.start_replica(x)
        self._workers = initial.start_workers(x, torch.tensor([self.rank]))
        self._servers = initial.start_server(x) if self.rank == 0 else None
        self._wire = ConsistentGatherBroadcast(initial, self.seed) if self._is_distributed else None
        self.meter = GroupedBitCounter(groups=[BitCounter() for _ in self.param_groups])
        self._has_started = True

    @property
    def algorithms(self) -> tuple[Algorithm, ...]:
        """The algorithm of every group with parameters, as it began."""
        return self._initial.parts

    @torch.no_grad()
    def step(  # pyright: ignore[reportIncompatibleMethodOverride]: torch's closures return floats
        self, closure: Callable[[], Tensor] | None = None
    ) -> Tensor | None:
        """One round: send this worker's gradient, receive the server's message, update; or skip, as all ranks do.

        Returns what `closure` returned. Raises Disagreement where a rank differs from the others, ValueError for a
        step size or hyperparameter outside its range, and LostContact. Then nothing has changed.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        t, wrong = self.t + 1, None
        settings, current, gradient = self._settings, self._current, self._flat.zeros()
        x = self._flat.read(self._master())
        # A rank that cannot step takes part in the exchange all the same, or the others would wait for it.
        try:
            settings = self._read(self._active)  # which ranks compare even where they are out of range
            current = self._current if settings == self._settings else with_settings(self._initial, settings)
            gradient = self._gradient()
        except ValueError as error:
            wrong = error
        lrs = [row["lr"] for row in (self._settings if wrong else settings)]
        usable = not wrong and is_finite(gradient) and not getattr(self, "found_inf", False)
        if not usable:
            gradient = torch.zeros_like(gradient)
        at = zip(self._replicas, x.split(self._initial.sizes), strict=True)
        replicas = tuple(replace(replica, x=part) for replica, part in at)
        up, workers = current.worker(gradient.unsqueeze(0), self._workers, replicas, lrs, t, self.seed)
        if self._wire:
            self._wire.algorithm = current
            down, servers = self._wire.step(up, self._servers, x, settings[0]["lr"], t, usable, settings)
        elif usable:
            assert self._servers is not None
            down, servers = current.server(up, self._servers, t, self.seed)
        else:
            down = servers = None
        if wrong:  # where settings differ, ranks have raised before; others skip what this one alone cannot step with
            raise wrong
        if down is None:
            self.skipped += 1
            return loss
        self._replicas = current.replica(down, replicas, lrs, t)
        self._workers, self._servers, self.t = workers, servers, t
        self._settings, self._current = settings, current
        self._flat.write(self._master())
        for number, part, size in zip(self._active, current.parts, current.sizes, strict=True):
            self.meter.count_group(number, part, size, t, self._flat.dtype)
        return loss

    def state_dict(self) -> dict:
        """This rank's state, in nested dicts of tensors and numbers, with a digest of all but `param_groups`."""
        state = self._state()
        return {"param_groups": super().state_dict()["param_groups"], **state, "digest": state_digest(state)}

    def load_state_dict(self, state_dict: dict) -> None:
        """Go on from what `state_dict` gave on the same rank; the parameters are set to the saved ones too.

        Raises ValueError for a damaged state, and for one of another rank, number of workers, algorithm, seed, number
        of coordinates or parameter groups; then nothing has changed.
        """
        groups = state_dict.get("param_groups") if isinstance(state_dict, dict) else None
        if isinstance(groups, list) and len(groups) != len(self.param_groups):
            raise ValueError(f"this state is of {len(groups)} parameter groups, not {len(self.param_groups)}")
        check_state(state_dict, self._state(), self._identity(self._initial, self._flat), type(self).__name__)
        try:
            for row in read_settings(state_dict["param_groups"], self._settable):
                check_step_size(row["lr"])
            super().load_state_dict({"state": {}, "param_groups": state_dict["param_groups"]})
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise ValueError(f"this state is damaged in its param_groups: {error!r}") from error
        here = to_device(state_dict, self._flat.device)
        self._workers = to_parts(here["worker"], self._workers)
        self._replicas = to_parts(here["replica"], self._replicas)
        self._servers = None if self._servers is None else to_parts(here["server"], self._servers)
        self.t, self.skipped = here["t"], here["skipped"]
        groups = [BitCounter(**part) for part in here["meter"]["groups"]]
        self.meter = GroupedBitCounter(**{**here["meter"], "groups": groups})
        self._flat.write(self._master())

    def _state(self) -> dict:
        return {
            "of": self._identity(self._initial, self._flat),
            "t": self.t,
            "skipped": self.skipped,
            "meter": asdict(self.meter),
            "worker": of_parts(self._workers),
            "replica": of_parts(self._replicas),
            "server": None if self._servers is None else of_parts(self._servers),
        }

    def _identity(self, initial: SideBySide, flat: Flat) -> dict[str, object]:
        """What a saved state must have in common with this optimizer, and ranks with each other but for `rank`."""
        sizes = list(initial.sizes)
        return {
            "rank": self.rank,
            "workers": self.workers,
            "algorithm": re.sub(" at 0x[0-9a-f]+", "", "\n".join(map(repr, initial.parts))),
            "seed": self.seed,
            "d": sizes if len(sizes) > 1 else sizes[0],
            "dtype": str(flat.dtype),
        }

    def _read(self, active: Iterable[int]) -> Settings:
        return read_settings([self.param_groups[number] for number in active], self._settable)

    def _master(self) -> Tensor:
        parts = [replica.x for replica in self._replicas]
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def _gradient(self) -> Tensor:
        """This worker's gradient [d], divided by the scale that torch.amp.GradScaler leaves where it is in use."""
        gradient, scale = self._flat.gradient(), getattr(self, "grad_scale", None)
        return gradient if scale is None else gradient / scale.to(gradient.device)
