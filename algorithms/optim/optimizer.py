"""The algorithms in a training loop of your own, over the default process group or alone."""

import gc
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import accumulate
from math import inf
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from ..comm.consistency import AgreeingWire, agree
from ..comm.departures import Departures, Made, message
from ..comm.gather_broadcast import contact
from ..comm.overlapping import OverlappingWire
from ..compressors.blocks import buckets
from ..core.algorithm import Algorithm
from ..core.bit_counter import GroupedMeter
from ..core.grouped import SideBySide, States
from .early import Beginning, Early
from .flat_params import Flat
from .optimizer_state import LATER, check_state, of_parts, state_digest, to_device, to_parts
from .param_groups import Settings, check_group, check_step_size, chosen, read_settings, with_settings


class CompressedOptimizer(torch.optim.Optimizer):
    """Steps a module's parameters with an algorithm of this package, every process being one worker.

        optimizer = CompressedOptimizer(model.parameters(), "cd_adam", lr=1e-3)
        loss(model, my_batch).backward()
        optimizer.step()
        optimizer.zero_grad()

    Gradients are the worker's own: do not average them, nor wrap the module in DistributedDataParallel. Rank 0 is the
    server; its parameters are broadcast at the start, and from then on all ranks hold the same ones. Where no process
    group was initialised there is one worker, and messages are compressed all the same. Parameters that do not
    require a gradient are left alone; one that does but has none sends zero, for which one bit has no code. A step
    starts from the parameters as they are, so that they may be changed from outside, alike on all ranks (but
    not with quantized_adam, whose server holds the weights). A worker's gradient is clipped as in any loop, by
    `torch.nn.utils.clip_grad_norm_` before `step`, which is what a run's `clip_worker` does; the aggregate by the
    algorithm's own `clip`, as `clip_aggregate` does: `dataclasses.replace(algorithm, clip=1.0)`. Gradients of several
    `backward` calls add up until `step`, which alone sends. `state_dict` holds this rank's memories, moments and
    counters; save and load it on every rank, or see `algorithms.optim.checkpoint`.

    algorithm: one that a method's function made, such as `cd_adam(ScaledSign(), AMSGrad())`, or the name of a file of
    conf/algorithm, with its settings (`algorithms.registry`). options: with a name, parameters of the method's
    function, such as `rounds=10_000`, which those with a warm-up need; and for all groups, whichever the algorithm's
    `hyperparameters` has of weight_decay, betas and momentum.

    A parameter group may have its own lr, hyperparameters and `compressor`; None sends it uncompressed, as is usual
    for biases, norms and embeddings. Every group is a vector of its own, with scales and memories of its own; all
    groups cross in one message a direction. lr and hyperparameters are read from `param_groups` in every step, where
    torch's schedulers write them. `meter` counts what one worker sent and received, `meter.groups` by group.

    bucket_mb: messages leave while backward still runs. From the last tensor of a group to its first, tensors are put
    together until they have so many MB; such a part is a vector of its own, as a group is, and its message leaves as
    soon as its gradients are there and those of the parts behind it, groups in their order. So what backward leaves
    in `.grad` is what is sent: a step whose gradients, parameters or settings changed after their message left
    (another `backward`, `clip_grad_norm_`, a GradScaler) raises ValueError on this rank and is skipped on the others.
    In `with optimizer.no_sync():` a backward pass sends nothing, for all but the last of several. Messages cross in a
    process group of their own. Methods that are told a layout cannot have it. None: one message of all, in `step`.

    Parameters of 16 bits are copies of float32 ones, rounded: gradients are widened before they are sent, all states
    and messages are of float32, and a parameter that was not changed from outside goes on from what it is a copy of.

    Beside every payload cross 32 bytes, which the meter does not count, by which ranks compare round, step size,
    parameters and settings before they step: where one differs, every rank raises Disagreement, and nothing has
    changed on any. Where a gradient is infinite or NaN on some rank, all ranks skip the round: parameters, memories,
    moments, `t` and `meter` stay as they were, and `skipped` counts it. `torch.amp.GradScaler` is used as with
    torch's optimizers; every rank's scaler keeps a scale of its own, which its own gradients alone move.

    Raises ValueError for no parameters, several dtypes or devices (but 16 and 32 bits), a step size that is negative
    or not finite, an unknown name or option, and where the algorithm's compressor cannot take so few coordinates;
    Disagreement where ranks do not have the same algorithm, seed and parameter shapes; LostContact where another rank
    is gone.
    """

    _step_supports_amp_scaling = True  # torch.amp.GradScaler then leaves unscaling and skipping to `step`

    def __init__(
        self,
        params: Iterable[Any],
        algorithm: Algorithm | str,
        lr: float,
        seed: int = 0,
        bucket_mb: float | None = None,
        **options: Any,
    ) -> None:
        check_step_size(float(lr))
        if bucket_mb is not None and not bucket_mb > 0:
            raise ValueError(f"bucket_mb={bucket_mb}: must be positive, or None for one message of all gradients")
        self.algorithm, hyperparameters = chosen(algorithm, options)
        self.seed, self.t, self.skipped = seed, 0, 0
        self._together = dist.is_available() and dist.is_initialized()
        self.rank, self.workers = (dist.get_rank(), dist.get_world_size()) if self._together else (0, 1)
        if options.get("workers", self.workers) != self.workers:
            raise ValueError(f"workers={options['workers']}: there are {self.workers} ranks, each a worker")
        self._has_looked = False  # for what would average gradients besides
        self._has_started = False
        self._bucket_mb, self._early = bucket_mb, None
        self._of_groups: list[Algorithm] = []  # of every group
        defaults = {"lr": lr, **hyperparameters}
        self._settable = dict(defaults)  # torch adds to `defaults` what is none of ours
        super().__init__(params, defaults)
        self._start()

    def add_param_group(self, param_group: dict) -> None:
        """One more group before the first step, by every rank alike: what it may set stands above.

        Raises ValueError after the first step, and what the constructor raises; then the group is not added.
        """
        if self.t or self.skipped or (self._has_started and self._departures.made):
            raise ValueError("a group is added before the first step: memories of all ranks begin together")
        group = dict(param_group)
        algorithm = self.algorithm
        if "compressor" in group:
            algorithm = algorithm.compressed_by(group.pop("compressor"))
        check_group(group, self._settable)
        super().add_param_group(group)
        self._of_groups.append(algorithm)
        if self._has_started:
            before = dict(vars(self))
            try:
                self._start()
            except Exception:
                vars(self).update(before)
                del self.param_groups[-1], self._of_groups[-1]
                raise

    def _start(self) -> None:
        """The states before the first round, alike on all ranks."""
        groups = [[param for param in group["params"] if param.requires_grad] for group in self.param_groups]
        flat = Flat([param for params in groups for param in params])
        parts = [
            (number, part)
            for number, params in enumerate(groups)
            for part in self._in_parts(params, flat.dtype.itemsize)
        ]
        active, sizes = [number for number, _ in parts], tuple(sum(part.sizes) for _, part in parts)
        abreast = SideBySide(tuple(self._of_groups[number] for number in active), sizes)
        abreast.check()
        self._active, self._flat, self._begun = active, flat, abreast  # _active: the group of every part
        self._settings = self._read()
        self._abreast = with_settings(abreast, self._settings)  # of the last round
        x = flat.read()
        if self._together:
            shapes = [tuple(param.shape) for param in flat.params]
            leaves_early = self._bucket_mb is not None
            agree(x.device, **self._identity() | {"rank": "any", "shapes": shapes, "bucket_mb": leaves_early})
            with contact():
                dist.broadcast(x, src=0)
        flat.write(x)
        self._replicas = abreast.start_replica(x)
        self._workers = abreast.start_workers(x, torch.tensor([self.rank]))
        self._servers = abreast.start_server(x) if self.rank == 0 else None
        self._wire = wire = None
        if self._together:
            # Of a group of its own: what leaves early may leave before or after what else the loop sends, by rank.
            wire = OverlappingWire(abreast, self.seed, _own_group()) if self._bucket_mb else None
            self._wire = wire or AgreeingWire(abreast, self.seed)
        self._departures = Departures(sizes, wire)
        if self._early:
            self._early.remove()
        self._early = None
        if wire:
            flats, departures = [part for _, part in parts], self._departures
            self._early = Early(flat, flats, departures, lambda: self.t + 1, self._begin, self._message)
        self.meter = GroupedMeter.of(len(self.param_groups))
        self._has_started = True

    @property
    def algorithms(self) -> tuple[Algorithm, ...]:
        """Of every part of the parameters, as it began: a group, or a bucket of one."""
        return self._begun.parts

    @torch.no_grad()
    def step(  # pyright: ignore[reportIncompatibleMethodOverride]: torch's closures return floats
        self, closure: Callable[[], Tensor] | None = None
    ) -> Tensor | None:
        """One round: send this worker's gradient, receive the server's answer, update; or skip, as all ranks do.

        Returns what `closure` returned, if one was given to compute the gradient. Raises Disagreement where a rank
        differs from the others, ValueError for a step size that is negative or not finite, for a hyperparameter
        outside its range, for what changed after its message left and, in the first step, for parameters of a module
        in DistributedDataParallel; LostContact. Then nothing has changed.
        """
        self._refuse_averaged()
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        t, wrong = self.t + 1, None
        settings, abreast, gradients = self._settings, self._abreast, self._flat.zeros().split(self._begun.sizes)
        # A rank that cannot step takes part in the exchange all the same, or the others would wait for it.
        x = self._flat.read(self._master())
        replicas = self._replicas_at(x)
        try:
            settings = self._read()  # which ranks compare even where they are out of range
            abreast = self._with(settings)
            gradients = self._gradient().split(self._begun.sizes)
            if self._early:
                self._early.check_unchanged(settings, replicas, gradients)
        except ValueError as error:
            wrong = error
        lrs = [row["lr"] for row in settings]
        beginning = Beginning(t, self._settings if wrong else settings, abreast, replicas)
        made = self._departures.close(t, lambda number: self._message(number, gradients[number], beginning))
        if self._early:
            self._early.end()
        up, workers, _, finite = zip(*made, strict=True)
        usable = not wrong and all(finite) and not getattr(self, "found_inf", False)
        if self._wire:
            self._wire.algorithm = abreast
            down, servers = self._wire.step(up, self._servers, x, settings[0]["lr"], t, usable, settings)
        elif usable:
            assert self._servers is not None
            down, servers = abreast.server(up, self._servers, t, self.seed)
        else:
            down = servers = None
        if wrong:  # where settings differ, ranks have raised before; others skip what this one alone cannot step with
            raise wrong
        if down is None:
            self.skipped += 1
            return loss
        self._replicas = abreast.replica(down, replicas, lrs, t)
        self._workers, self._servers, self.t = workers, servers, t
        self._settings, self._abreast = settings, abreast
        self._flat.write(self._master())
        for number, part, size in zip(self._active, abreast.parts, abreast.sizes, strict=True):
            self.meter.count_group(number, part, size, t, self._flat.dtype)
        return loss

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes in here send nothing: their gradients add up until the first outside."""
        with self._early.paused() if self._early else nullcontext():
            yield

    def state_dict(self) -> dict:
        """This rank's state, in nested dicts of tensors and numbers, with a digest of all but `param_groups`."""
        state = self._state()
        return {"param_groups": super().state_dict()["param_groups"], **state, "digest": state_digest(state)}

    def load_state_dict(self, state_dict: dict) -> None:
        """Go on from what `state_dict` gave on the same rank; the parameters are set to the saved ones too.

        Raises ValueError for the state of another rank, number of workers, algorithm, seed, number of coordinates or
        parameter groups, for one of something else, for a damaged one, and between a backward pass that has sent
        messages and its step; then nothing has changed. Ranks that load
        states of different rounds, or not all of which load one, raise Disagreement in the next step.
        """
        if self._departures.made:
            raise ValueError("messages of a round have left: load a state before its backward pass or after its step")
        groups = state_dict.get("param_groups") if isinstance(state_dict, dict) else None
        if isinstance(groups, list) and len(groups) != len(self.param_groups):
            raise ValueError(f"this state is of {len(groups)} parameter groups, not {len(self.param_groups)}")
        check_state(state_dict, self._state(), self._identity(), type(self).__name__)
        try:
            saved = state_dict["param_groups"]
            for number in range(len(self.param_groups)):
                check_step_size(float(saved[number]["lr"]))
            # A state from before groups had hyperparameters leaves them as they are.
            own = ({name: group[name] for name in self._settable} for group in self.param_groups)
            groups = [{**mine, **group} for mine, group in zip(own, saved, strict=True)]
            super().load_state_dict({"state": {}, "param_groups": groups})
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise ValueError(f"this state is damaged in its param_groups: {error!r}") from error
        here = to_device(state_dict, self._flat.device)
        self._workers = to_parts(here["worker"], self._workers)
        self._replicas = to_parts(here["replica"], self._replicas)
        self._servers = None if self._servers is None else to_parts(here["server"], self._servers)
        self.t, self.skipped = here["t"], here["skipped"]
        self.meter = GroupedMeter.from_dict(here["meter"])
        self._flat.write(self._master())

    def _state(self) -> dict:
        return {
            "of": self._identity(),
            "t": self.t,
            "skipped": self.skipped,
            "meter": self.meter.as_dict(),
            "worker": of_parts(self._workers),
            "replica": of_parts(self._replicas),
            "server": None if self._servers is None else of_parts(self._servers),
        }

    def _identity(self) -> dict[str, object]:
        parts, sizes = self.algorithms, list(self._begun.sizes)
        return {
            "rank": self.rank,
            "workers": self.workers,
            "algorithm": re.sub(rf" at 0x[0-9a-f]+|, clip=None|{LATER}", "", "\n".join(map(repr, parts))),
            "seed": self.seed,
            "d": sizes if len(sizes) > 1 else sizes[0],
            "dtype": str(self._flat.dtype),
        }

    def _read(self) -> Settings:
        """What `param_groups` say of every group that has parameters."""
        return read_settings([self.param_groups[number] for number in self._active], self._settable)

    def _with(self, settings: Settings) -> SideBySide:
        """The parts with these settings. Raises ValueError."""
        return self._abreast if settings == self._settings else with_settings(self._begun, settings)

    def _master(self) -> Tensor:
        """The parameters after the last round [d], as the replicas hold them."""
        parts = [replica.x for replica in self._replicas]
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def _replicas_at(self, x: Tensor) -> States:
        """The replicas, at the parameters x [d]."""
        parts = zip(self._replicas, x.split(self._begun.sizes), strict=True)
        return tuple(replace(replica, x=part) for replica, part in parts)

    def _gradient(self) -> Tensor:
        """This worker's gradient [d], divided by the scale that torch.amp.GradScaler leaves where it is in use."""
        gradient, scale = self._flat.gradient(), getattr(self, "grad_scale", None)
        return gradient if scale is None else gradient / scale.to(gradient.device)

    def _begin(self) -> Beginning:
        """What the next round starts from. Raises ValueError."""
        settings, x = self._read(), self._flat.read(self._master())
        return Beginning(self.t + 1, settings, self._with(settings), self._replicas_at(x))

    def _in_parts(self, params: Sequence[Tensor], itemsize: int) -> list[Flat]:
        """The parameters of a group that are compressed together: all of them, or a bucket after the other."""
        sizes = buckets([param.numel() for param in params], self._bucket_mb or inf, itemsize)
        if len(sizes) < 2:
            return [Flat(params)] if params else []
        ends = list(accumulate(param.numel() for param in params))
        found: list[list[Tensor]] = [[] for _ in sizes]
        for param, end in zip(params, ends, strict=True):
            found[bisect_left(list(accumulate(sizes)), end)].append(param)
        return [Flat(part) for part in found]

    def _message(self, number: int, gradient: Tensor, beginning: Beginning) -> Made:
        """What a part sends in the next round for its gradient [size]."""
        t, settings, abreast, replicas = beginning
        own, lr = self._workers[number], settings[number]["lr"]
        return message(abreast, number, gradient, own, replicas[number], lr, t, self.seed)

    def _refuse_averaged(self) -> None:
        """Raise ValueError where a living DistributedDataParallel has a parameter of ours; it leaves no mark on them.

        The garbage collector knows all objects. It is asked once, in the first step: the module may be wrapped last.
        """
        if self.workers > 1 and not self._has_looked:
            mine = set(map(id, self._flat.params))
            for found in gc.get_objects():
                if DistributedDataParallel in type(found).__mro__ and mine & set(map(id, found.parameters())):
                    raise ValueError(
                        "the parameters are of a module in DistributedDataParallel, which averages gradients without "
                        "compression, uncounted: take the module itself"
                    )
        self._has_looked = True


def _own_group() -> dist.ProcessGroup:
    """Of all ranks, each of which asks for one."""
    group = dist.new_group()
    assert isinstance(group, dist.ProcessGroup)
    return group
