"""A torch optimizer that runs an algorithm over a process group, or in one process."""

import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import asdict, fields, replace
from itertools import accumulate
from math import prod
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor

from ..comm.consistency import check_consistency, connect, digest_of_all, is_finite, may_step
from ..comm.gather_broadcast import check_not_alone, convert_collective_errors, warn_if_alone
from ..comm.nodes import Nodes
from ..compressors.shard import Shard
from ..core.algorithm import Algorithm
from ..core.bit_counter import BitCounter, GroupedBitCounter
from ..core.grouped import GroupedAlgorithms, seed_of_part
from ..core.grouped import States as PartStates
from ..core.tiles import States, TiledStates, supports_tiles
from ..registry import parameters
from .flat_params import Flat, FlatView
from .optimizer_state import (
    check_names,
    check_state,
    identity,
    parts_from_dicts,
    parts_to_dicts,
    round_state,
    to_device,
    with_digest,
)
from .param_groups import (
    Partition,
    Settings,
    check_group,
    check_step_size,
    read_settings,
    resolve_algorithm,
    with_partition,
    with_settings,
)


class CompressedOptimizer(torch.optim.Optimizer):
    """A torch optimizer that trains with an algorithm of this package. Every process is one worker.

        optimizer = CompressedOptimizer(model.parameters(), "loco", lr=1e-3)
        loss(model, my_batch).backward()
        optimizer.step()
        optimizer.zero_grad()

    Gradients must be the worker's own: do not average them, and do not wrap the module in DistributedDataParallel.
    Rank 0's parameters are broadcast at the start. Without a process group there is one worker.

    algorithm: the name of a file of conf/algorithm, or the result of a method's function, such as
    `cd_adam(ScaledSign(), AMSGrad())`. options: with a name, parameters of the method's function, such as
    `rounds=10_000` for a warm-up. They may also set the algorithm's hyperparameters, such as betas.
    process_group: the ranks that train together; None: all ranks. intra_group: the ranks of this rank's node; their
    gradients are averaged uncompressed, and every node is one worker.
    replicated: a module or parameters; `step` also compares those that this optimizer does not hold.
    partition: "layer" gives every parameter its own scale and part of a message, "whole" every group.

    `meter` counts one worker's communication. `skipped` counts the rounds in which a gradient was not finite;
    such a round changes nothing on any rank.

    A parameter group may set lr, hyperparameters and `compressor`; None sends the group uncompressed. Every group
    has its own scale and memory. All groups travel in one message per direction. States and messages of 16-bit
    parameters are float32. docs/optimizer.md has clipping, schedulers and GradScaler.

    Raises ValueError for parameters, options or a step size that cannot be used. Raises Disagreement if ranks differ
    in algorithm, seed, or shapes or names of parameters, and LostContact if another rank is gone.
    """

    def __init__(
        self,
        params: Iterable[Any],
        algorithm: Algorithm | str,
        lr: float,
        seed: int = 0,
        process_group: dist.ProcessGroup | None = None,
        replicated: torch.nn.Module | Iterable[Tensor] | None = None,
        partition: Partition = "whole",
        intra_group: dist.ProcessGroup | None = None,
        **options: Any,
    ) -> None:
        check_step_size(lr)
        self.seed, self.t, self.skipped = seed, 0, 0
        self._group = process_group
        self._partition: Partition = partition
        is_distributed = dist.is_available() and dist.is_initialized()
        self._nodes = Nodes(process_group, intra_group) if is_distributed else None
        warn_if_alone(self._nodes)
        self.rank, self.workers = (self._nodes.rank, self._nodes.size) if self._nodes else (0, 1)
        self.algorithm, hyperparameters = resolve_algorithm(algorithm, seed, self.workers, options)
        self._replicated = replicated if isinstance(replicated, torch.nn.Module | None) else list(replicated)
        if options.get("workers", self.workers) != self.workers:
            raise ValueError(f"workers={options['workers']}: there are {self.workers} workers")
        own = parameters(algorithm) if isinstance(algorithm, str) else []
        self._common = {*own, *(field.name for field in fields(self.algorithm))}  # the method's, for all groups
        self._has_started = False
        self._group_algorithms: list[Algorithm] = []
        defaults = {"lr": lr, **hyperparameters}
        self._settable = dict(defaults)  # torch adds other entries to `defaults`
        super().__init__(params, defaults)
        self._start()

    def add_param_group(self, param_group: dict) -> None:
        """Add a group before the first step. Call it on every rank.

        Raises ValueError after the first step, and the errors of the constructor; then the group is not added.
        """
        if self.t or self.skipped:
            raise ValueError("add groups before the first step, on every rank")
        group = dict(param_group)
        algorithm = self.algorithm
        if "compressor" in group:
            algorithm = algorithm.with_compressor(group.pop("compressor"))
        check_group(group, self._settable, self._common)
        super().add_param_group(group)
        self._group_algorithms.append(algorithm)
        if self._has_started:
            try:
                self._start()
            except Exception:
                del self.param_groups[-1], self._group_algorithms[-1]
                raise

    def _start(self) -> None:
        """Set up the states before the first round, equal on all ranks. An error changes nothing."""
        groups = [[param for param in group["params"] if param.requires_grad] for group in self.param_groups]
        active = [number for number, params in enumerate(groups) if any(param.numel() for param in params)]
        flat = Flat([param for group in self.param_groups for param in group["params"]])
        shapes = {number: [param.shape for param in groups[number]] for number in active}
        sizes = tuple(sum(map(prod, of_group)) for of_group in shapes.values())
        algorithms = (
            with_partition(self._group_algorithms[number], self._partition, shapes[number]) for number in active
        )
        initial = GroupedAlgorithms(tuple(algorithms), sizes)
        initial.check()
        settings = self._read_groups(active)
        current = with_settings(initial, settings)
        x = flat.read()
        if self._nodes:
            names = [group.get("param_names") for group in self.param_groups]
            same = self._identity(initial, flat) | {"rank": "any", "names": names}
            check_consistency(x.device, self._group, **same, replicated=self._replicated is not None)
            with convert_collective_errors():
                dist.broadcast(x, group=self._group, group_src=0)
        flat.write(x)
        self._active, self._flat, self._initial = active, flat, initial  # _active: the groups that have coordinates
        self._settings, self._current = settings, current  # of the last round
        self._replicas = initial.start_replica(x)
        self._workers = initial.start_workers(x, torch.tensor([self.rank]))
        self._needs_all = any(part.server_holds_model for part in initial.parts)
        self._wire = None
        if self._nodes:
            self._wire = connect(initial, self.seed, self._nodes, len(flat.params), self._needs_all)
        self._servers = (self._wire or initial).start_server(x) if not self._nodes or self._nodes.leads else None
        self._in_place = self._in_place_states()
        # torch's checkpoint functions would make a step to fill an empty state. `state_dict` adds ours.
        self.state.update({param: {} for param in flat.params})
        self.meter = GroupedBitCounter(groups=[BitCounter() for _ in self.param_groups])
        self._has_started = True

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """Whether GradScaler leaves unscaling and skipping to `step`, because all ranks must skip together.

        True only for torch: Lightning would reject clipping, but gradients may be unscaled and clipped before `step`.
        """
        return sys._getframe(1).f_globals.get("__name__", "").startswith("torch.")

    @property
    def algorithms(self) -> tuple[Algorithm, ...]:
        """The algorithm of every group with parameters, with its initial settings."""
        return self._initial.parts

    @property
    def shards(self) -> Sequence[Shard | None]:
        """This rank's shard of every group, if every rank is a server. Empty if only one rank is."""
        return self._wire.own_shards if self._wire else ()

    @torch.no_grad()
    def step(  # pyright: ignore[reportIncompatibleMethodOverride]: torch's closures return floats
        self, closure: Callable[[], Tensor] | None = None
    ) -> Tensor | None:
        """Make one round: send this worker's gradient, receive the server's message, and update the parameters.

        All ranks skip the round if one gradient is not finite. A parameter without a gradient on any rank stays as it
        is; if some rank has one, it counts as zero on the others. Returns the result of `closure`.

        Raises Disagreement if a rank differs from the others, and LostContact. Raises ValueError for a step size
        or hyperparameter outside its range, for parameters whose shape or dtype changed, and for one that was frozen
        at first and no longer is. Then nothing has changed.
        """
        check_not_alone(self._nodes)
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if self._in_place:
            if not self._round_in_place(self._in_place):
                self._skip_round(self._flat.gradient_flags())
            return loss
        t, wrong, count = self.t + 1, None, len(self._flat.params)
        settings, current, x = self._settings, self._current, self._master()
        # A rank that cannot step still takes part in the exchange, or the others would wait for it.
        try:
            settings = self._read_groups(self._active)  # ranks compare them even if they are out of range
            self._flat.check()
            x = self._flat.read(x)
            current = self._current if settings == self._settings else with_settings(self._initial, settings)
            gradient = self._flat.gradient(getattr(self, "grad_scale", None))
        except ValueError as error:
            wrong, gradient = error, self._flat.zeros()
        lrs = [row["lr"] for row in (self._settings if wrong else settings)]
        if self._nodes:
            gradient = self._nodes.mean(gradient)
        usable = not wrong and is_finite(gradient) and not getattr(self, "found_inf", False)
        if not usable:
            gradient = torch.zeros_like(gradient)
        replicas = self._replicas_at(x)
        executed = current if self._wire else current.without_packing()
        up, workers = executed.worker(gradient.unsqueeze(0), self._workers, replicas, lrs, t, self.seed)
        gradient_flags = self._flat.gradient_flags()
        down = servers = None
        if self._wire:
            self._wire.algorithm = executed
            readiness = "refused" if wrong else "ready" if usable else "not finite"
            lr, replicated = settings[0]["lr"], self._digest_replicated()
            down, servers, gradient_flags = self._wire.step(
                up, self._servers, x, lr, t, readiness, settings, replicated, gradient_flags
            )
        elif usable and may_step(gradient_flags, count, self._needs_all):
            assert self._servers is not None
            down, servers = executed.server(up, self._servers, t, self.seed)
        if wrong:
            raise wrong
        if down is None:
            self._skip_round(gradient_flags)
            return loss
        self._replicas = executed.replica(down, replicas, lrs, t)
        unmoved = [place for i, place in enumerate(self._flat.slices()) if not gradient_flags >> i & 1]
        if unmoved:
            moved = self._master().clone()
            for place in unmoved:
                moved[place] = x[place]
            self._replicas = self._replicas_at(moved)
        self._workers, self._servers = workers, servers
        self._flat.write(self._master())
        self._count(t, settings, current)
        return loss

    def _count(self, t: int, settings: Settings, current: GroupedAlgorithms) -> None:
        self.t, self._settings, self._current = t, settings, current
        for number, part, size in zip(self._active, current.parts, current.sizes, strict=True):
            for counter in (self.meter, self.meter.groups[number]):
                counter.count(part, size, t, self._flat.dtype)

    def _in_place_states(self) -> list[TiledStates]:
        """Return the states of every part for rounds in place; empty if a round needs other ranks or whole vectors.

        In place, the parameters are the only copy of x.
        """
        parts, sizes = self._initial.parts, self._initial.sizes
        alone = not (self._nodes or self._flat.is_master) and (len(parts) == 1 or parts[0].clip is None)
        if not (alone and all(supports_tiles(part, self._flat.device) for part in parts)):
            return []
        assert self._servers is not None
        replicas = [replace(replica, x=replica.x.new_empty(0)) for replica in self._replicas]
        states = [States(*one) for one in zip(self._workers, self._servers, replicas, strict=True)]
        in_place = list(map(TiledStates, parts, states, sizes, accumulate(sizes, initial=0)))
        self._workers, self._servers, self._replicas = zip(*(one.states for one in in_place), strict=True)
        return in_place

    def _round_in_place(self, in_place: list[TiledStates]) -> bool:
        """Make a round of the only worker. Returns False if it is skipped."""
        flat, t, settings = self._flat, self.t + 1, self._read_groups(self._active)
        flat.check()
        current = self._current if settings == self._settings else with_settings(self._initial, settings)
        gradients, scale = flat.gradients(), getattr(self, "grad_scale", None)
        present = [gradient.reshape(-1) for gradient in gradients if gradient is not None]
        usable = all(map(is_finite, present)) and not getattr(self, "found_inf", False)
        if not usable or not may_step(flat.gradient_flags(), len(gradients), self._needs_all):
            return False
        like, stay = torch.empty(0, dtype=flat.dtype, device=flat.device), [one is None for one in gradients]
        gradient, x = FlatView(gradients, flat.sizes, like, scale), FlatView(flat.params, flat.sizes, like, stay=stay)
        for number, (part, own, row) in enumerate(zip(current.parts, in_place, settings, strict=True)):
            own.round(part, gradient, x, row["lr"], t, seed_of_part(self.seed, number))
        x.finish()
        self._count(t, settings, current)
        return True

    def _skip_round(self, gradient_flags: int) -> None:
        """Count a skipped round. Warn if there are no gradients; raise ValueError if the method needs them all."""
        if not gradient_flags:
            warnings.warn(
                "no parameter has a gradient on any rank, so nothing moved. If the model has new parameters, as "
                "after fully_shard or a resized embedding, make a new optimizer.",
                stacklevel=5,
            )
        elif not may_step(gradient_flags, len(self._flat.params), self._needs_all):
            raise ValueError(
                f"step {self.t + 1}: some parameters have no gradient on any rank, and the server of this method "
                "moves the whole model; take another method, or make an optimizer for the trained parameters only"
            )
        else:
            self.skipped += 1

    def _digest_replicated(self) -> int:
        """Return a digest of the parameters in `replicated` that this optimizer does not hold."""
        if self._replicated is None:
            return 0
        given = self._replicated
        params = given.parameters() if isinstance(given, torch.nn.Module) else given
        held = {id(param) for param in self._flat.params}
        return digest_of_all(param for param in params if id(param) not in held)

    def join_hook(self, **kwargs: Any) -> NoReturn:
        """Reject torch's Join, which calls this. Raises ValueError."""
        raise ValueError("Join is not supported: give every rank the same number of steps, as with drop_last=True")

    def __getstate__(self) -> NoReturn:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise TypeError("a CompressedOptimizer cannot be copied or pickled: save and load its state_dict()")

    def state_dict(self) -> dict:
        """Return this rank's state in torch's form: `param_groups` and `state`.

        One parameter's entry in `state` has it all, in nested dicts of tensors and numbers with a digest.
        """
        state = deepcopy(self._state()) if self._in_place else self._state()
        # Torch's checkpoint functions drop entries of parameters that require no gradient.
        shown = next((param for param in self._flat.params if param.requires_grad), self._flat.params[0])
        self.state[shown] = with_digest(state)
        try:
            return super().state_dict()
        finally:
            self.state.update({param: {} for param in self._flat.params})

    def load_state_dict(self, state_dict: dict) -> None:
        """Load the result of `state_dict` on the same rank. This also sets the parameters.

        Raises ValueError for a damaged state, and for one of another rank, number of workers, algorithm, seed, or
        other shapes, names or groups of parameters; then nothing has changed.
        """
        with self.register_load_state_dict_pre_hook(lambda _, saved: self._check_saved(saved)):  # the last
            super().load_state_dict(state_dict if isinstance(state_dict, dict) else {})

    def _check_saved(self, state_dict: dict) -> dict:
        """Return a saved state's groups, and this rank's state, which torch must not convert. Raises ValueError."""
        found: Any = round_state(state_dict)
        groups: Any = state_dict.get("param_groups")
        if found and isinstance(groups, list) and len(groups) != len(self.param_groups):
            raise ValueError(f"this state is of {len(groups)} parameter groups, not {len(self.param_groups)}")
        check_names(groups, self.param_groups)
        own, of = self._state(), self._identity(self._initial, self._flat)
        check_state(found, own, of, type(self).__name__, "; algorithms.optim.checkpoint loads on other ranks")
        try:
            for group, row in zip(groups, read_settings(groups, self._settable), strict=True):
                len(group["params"])  # torch reads it next
                check_step_size(row["lr"])
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise ValueError(f"this state is damaged in its param_groups: {error!r}") from error
        return {"state": {"round": found}, "param_groups": groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        found, self.param_groups = state["state"]["round"], state["param_groups"]
        here = to_device(deepcopy(found) if self._in_place else found, self._flat.device)
        self._workers = parts_from_dicts(here["worker"], self._workers)
        self._replicas = parts_from_dicts(here["replica"], self._replicas)
        self._servers = None if self._servers is None else parts_from_dicts(here["server"], self._servers)
        self.t, self.skipped = here["t"], here["skipped"]
        counters = [BitCounter(**part) for part in here["meter"]["groups"]]
        self.meter = GroupedBitCounter(**{**here["meter"], "groups": counters})
        self._flat.write(self._master())
        self._in_place = self._in_place_states()

    def _state(self) -> dict:
        replicas = self._replicas_at(self._flat.read()) if self._in_place else self._replicas
        return {
            "of": self._identity(self._initial, self._flat),
            "t": self.t,
            "skipped": self.skipped,
            "meter": asdict(self.meter),
            "worker": parts_to_dicts(self._workers),
            "replica": parts_to_dicts(replicas),
            "server": None if self._servers is None else parts_to_dicts(self._servers),
        }

    def _identity(self, initial: GroupedAlgorithms, flat: Flat) -> dict[str, object]:
        sizes = list(initial.sizes)
        d = sizes if len(sizes) > 1 else sizes[0]
        return identity(self.rank, self.workers, initial.parts, self.seed, d, flat)

    def _read_groups(self, active: Iterable[int]) -> Settings:
        return read_settings([self.param_groups[number] for number in active], self._settable)

    def _master(self) -> Tensor:
        parts = [replica.x for replica in self._replicas]
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def _replicas_at(self, x: Tensor) -> PartStates:
        """Return the replicas of all parts with the parameters x [d]."""
        parts = zip(self._replicas, x.split(self._initial.sizes), strict=True)
        return tuple(replace(replica, x=part) for replica, part in parts)
