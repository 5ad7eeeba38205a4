"""Methods with local steps, around any torch optimizer."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from numbers import Number
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ..comm.consistency import ConsistentGatherBroadcast, check_consistency, digest, is_finite
from ..comm.gather_broadcast import check_not_alone, convert_collective_errors, warn_if_alone
from ..comm.nodes import Nodes
from ..core.algorithm import Algorithm, as_dicts, from_dicts, overridden
from ..core.bit_counter import BitCounter
from ..core.update_rules import SGD
from ..methods.bases.local_steps import LocalSteps as Method
from ..registry import load_method, parameters
from .flat_params import Flat
from .optimizer import CompressedOptimizer
from .optimizer_state import check_names, check_state, identity, state_digest, to_device, with_digest
from .param_groups import resolve_method

_STATE_KEY = "local_steps"
"""Key of a LocalSteps object's own state in a state dict."""

_NOT_USED = ("stages", "local_step", "takes_full_gradient", "variance_reduced_gradient")
"""LocalSteps works as if a method had these functions of its base class."""


class LocalSteps(torch.optim.Optimizer):
    """Steps with a torch optimizer on every rank, and exchanges models every H = `period` steps.

        inner = torch.optim.AdamW(model.parameters(), lr=1e-3)
        optimizer = LocalSteps(inner, "sparseloco", period=15)
        loss(model, my_batch).backward()
        optimizer.step()
        optimizer.zero_grad()

        every step   x_i by the inner optimizer, with this rank's gradient
        step H, 2H…  sends Δ_i = x − x_i by the method's uplink;  x by its outer step;  x_i ← x

    Do not average gradients, and do not wrap the module in DistributedDataParallel. Rank 0 is the server, and its
    parameters are broadcast at the start. Without a process group there is one worker. The inner optimizer's state
    stays on its rank. Both optimizers have the same `param_groups`, so a scheduler may take either.

    method: the name of a file of conf/algorithm, or the result of a method's function; its own inner update is not
    used. options: with a name, parameters of the method's function, such as `period`. process_group: the ranks that
    train together; None: all ranks. intra_group: the ranks of this rank's node. They average their gradients in every
    step, and each node is one worker.

    `t` counts steps, `skipped` those that torch.amp.GradScaler skipped on this rank, and `meter` one worker's
    communication. Messages and memories of 16-bit parameters are float32.

    Raises ValueError for a method without local steps, and for options or parameters that cannot be used. Raises
    Disagreement if ranks differ in method, seed, parameters or kind of inner optimizer, and LostContact if another
    rank is gone.
    """

    # Otherwise a rank with an overflowing gradient would not count its step.
    _step_supports_amp_scaling = CompressedOptimizer._step_supports_amp_scaling
    join_hook = CompressedOptimizer.join_hook

    def __init__(
        self,
        inner: torch.optim.Optimizer,
        method: Algorithm | str,
        seed: int = 0,
        process_group: dist.ProcessGroup | None = None,
        intra_group: dist.ProcessGroup | None = None,
        **options: Any,
    ) -> None:
        if not isinstance(inner, torch.optim.Optimizer):
            raise TypeError(f"inner={inner}: must be a torch optimizer, such as AdamW(model.parameters())")
        self.inner, self.seed, self.t, self.skipped, self.meter = inner, seed, 0, 0, BitCounter()
        is_distributed, group = dist.is_available() and dist.is_initialized(), process_group
        nodes = Nodes(group, intra_group) if is_distributed else None
        warn_if_alone(nodes)
        self._node = nodes if nodes and nodes.count > 1 else None  # its ranks are one worker
        self.rank, self.workers = (nodes.rank, nodes.size) if nodes else (0, 1)
        self._has_started = False
        super().__init__(inner.param_groups, inner.defaults)
        for kind in ("state_dict_pre", "state_dict_post", "load_state_dict_pre", "load_state_dict_post"):
            setattr(self, f"_optimizer_{kind}_hooks", getattr(inner, f"_optimizer_{kind}_hooks"))
        self._flat = Flat([param for group in self.param_groups for param in group["params"]])
        x = self._flat.read()
        self.algorithm = _resolve_method(method, self.workers, len(x), options)
        self.algorithm.check(len(x))
        self._wire = None
        if nodes:
            check_consistency(x.device, group, **self._identity(len(x)) | {"rank": "any"})
            with convert_collective_errors():
                dist.broadcast(x, group=group, group_src=0)
            self._wire = ConsistentGatherBroadcast(self.algorithm, seed, nodes, period=self.algorithm.period)
        self._flat.write(x)
        self._fill_state()
        self._replica = self.algorithm.start_replica(x)
        self._worker = replace(self.algorithm.start_workers(x, torch.tensor([self.rank])), x=None)
        serves = self.rank == 0 and (not nodes or nodes.leads)
        self._server = self.algorithm.start_server(x) if serves else None
        self._at_x = True  # no step since the start or the last exchange
        self._has_started = True

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The inner optimizer's groups. It creates new ones when it loads a state."""
        return self.inner.param_groups

    @param_groups.setter
    def param_groups(  # pyright: ignore[reportIncompatibleVariableOverride]
        self, groups: list[dict[str, Any]]
    ) -> None:
        """Torch's constructor sets its own."""

    @property
    def state(self) -> Any:
        """The inner optimizer's state."""
        return self.inner.state

    @state.setter
    def state(self, state: Any) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Torch's constructor sets its own."""

    def add_param_group(self, param_group: dict) -> None:
        """Raise ValueError: add groups to the inner optimizer before."""
        if self._has_started:
            raise ValueError("add parameter groups to the inner optimizer, before you wrap it in LocalSteps")

    def step(  # pyright: ignore[reportIncompatibleMethodOverride]: torch's closures return floats
        self, closure: Callable[[], Any] | None = None
    ) -> Any:
        """Make one step of the inner optimizer, and an exchange after step H, 2H, …

        The first step after the start or an exchange uses parameters that your code changed, if equally on all ranks.
        Returns the result of `closure`. Raises Disagreement if a rank differs from the others, ValueError if
        parameters changed their form, FloatingPointError if this rank's model is not finite (the others raise
        Disagreement), and LostContact. The inner step is then done, and nothing else has changed.
        """
        check_not_alone(self._wire)
        self._read_x()
        self._at_x = False
        loss = self._step_inner(closure)
        self.t += 1
        if self.algorithm.stages(self.t):
            self._exchange(self.t)
        return loss

    def state_dict(self) -> dict:
        """Return the inner optimizer's state in torch's form. One parameter's entry also has this object's own state.

        As in torch, tensors of the inner state are not copied: the next step changes them.
        """
        self._read_x()
        self._fill_state()
        found = self.inner.state_dict()
        own = self._state(_states_in_order(found))
        first = min(found["state"])
        shown = {**found["state"][first], _STATE_KEY: with_digest(own)}
        return {**found, "state": {**found["state"], first: shown}}

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict) -> None:
        """Load the result of `state_dict` on the same rank. This also sets the parameters.

        Raises ValueError for a damaged state, and for one of another rank, number of workers, method, seed, kind of
        inner optimizer, shapes of parameters or parameter groups; then nothing has changed.
        """
        state_dict = state_dict.copy()  # hooks may change it
        hooks = self._optimizer_load_state_dict_pre_hooks  # the inner optimizer has the same
        for hook in hooks.values():  # before the check
            changed = hook(self.inner, state_dict)
            state_dict = state_dict if changed is None else changed
        try:
            states = {number: dict(one) for number, one in state_dict["state"].items()}
            [own] = [one.pop(_STATE_KEY) for one in states.values() if _STATE_KEY in one]
            here = self._state(_states_in_order({**state_dict, "state": states}))
            own = {**own, "inner": here["inner"]}
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(
                f"this is no state_dict of a {type(self).__name__}: {_STATE_KEY} or param_groups is missing"
            ) from error
        check_names(state_dict["param_groups"], self.param_groups)
        check_state(own, here, here["of"], type(self).__name__)
        called = dict(hooks)
        hooks.clear()
        try:
            self.inner.load_state_dict({**state_dict, "state": states})
        finally:
            hooks.update(called)
        own = to_device(own, self._flat.device)
        self._worker = from_dicts(own["worker"], self._worker)
        self._replica = from_dicts(own["replica"], self._replica)
        self._server = from_dicts(own["server"], self._server)
        self.t, self.skipped, self.meter = own["t"], own["skipped"], BitCounter(**own["meter"])
        self._flat.write(own["x"])
        self._at_x = torch.equal(own["x"], self._replica.x)

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("LocalSteps cannot be copied or pickled: save its state_dict()")

    def _fill_state(self) -> None:
        """Give every parameter a state. Without one, torch's checkpoint functions would make a step."""
        for param in self._flat.params:
            self.state[param]

    def _read_x(self) -> None:
        """Use parameters that changed since the start or the last exchange, such as loaded weights."""
        if self._at_x and self.algorithm.has_common_model:
            with suppress(ValueError):  # the next exchange raises it on all ranks
                self._flat.check()
                self._replica = replace(self._replica, x=self._flat.read(self._replica.x))

    def _step_inner(self, closure: Callable[[], Any] | None) -> Any:
        """Make the inner step with unscaled gradients, or none if GradScaler found an infinity."""
        skips, scale = bool(getattr(self, "found_inf", False)), getattr(self, "grad_scale", None)
        if node := self._node:
            if closure is not None:  # then there is no GradScaler
                return self.inner.step(lambda: (closure(), self._average_in_node(node))[0])
            skips, scale = self._average_in_node(node, skips, scale), None
        if skips:
            self.skipped += 1
            return None
        if scale is not None:
            for group in self.param_groups:
                for param in group["params"]:
                    if param.grad is not None:
                        param.grad.div_(scale.to(param.grad.device))
        return self.inner.step(closure)  # pyright: ignore[reportArgumentType]

    @torch.no_grad()
    def _average_in_node(self, node: Nodes, skips: bool = False, scale: Tensor | None = None) -> bool:
        """Average the node's gradients / scale. A missing gradient stays missing if all ranks of the node lack it.

        Returns whether a rank of the node skips the step. Then gradients are as they were.
        """
        flat, gradient, flags = self._flat, self._flat.zeros(), 0
        try:
            flat.check()
        except ValueError:  # the next exchange raises it on all ranks
            skips = True
        else:
            gradient, flags = flat.gradient(scale), flat.gradient_flags()
        numbers = [flags >> i & 1 for i in range(len(flat.params))]
        mean = node.mean(torch.cat([gradient, gradient.new_tensor([*numbers, skips])]))
        *pieces, tail = mean.split([*flat.sizes, len(numbers) + 1])
        *present, skipped = tail.bool().tolist()
        if not skipped:
            for param, piece, has_gradient in zip(flat.params, pieces, present, strict=True):
                param.grad = piece.view(param.shape).to(param.dtype) if has_gradient else None
        return skipped

    @torch.no_grad()
    def _exchange(self, t: int) -> None:
        """Exchange models after the workers' steps of round t."""
        replica, wrong = self._replica, None
        x = replica.x  # sent if this rank's model is unusable, because the others wait for it
        try:
            x = self._local_model()
        except (ValueError, FloatingPointError) as error:
            wrong = error
        if self._node and self._node.gather(torch.tensor([[digest(x)]], device=x.device)).unique().numel() > 1:
            wrong = wrong or ValueError(
                f"step {t}: the ranks of this node differ in x; change parameters on all alike"
            )
        lr = float(self.param_groups[0].get("lr", 0.0))
        sender = replace(self._worker, x=x.unsqueeze(0))
        up, worker = self.algorithm.worker(sender.x, sender, replica, lr, t, self.seed)
        down, server = None, self._server
        if self._wire:
            readiness = "refused" if wrong else "ready"
            down, server, _ = self._wire.step(up, server, replica.x, lr, t, readiness, self._settings())
        elif server and not wrong:
            down, server = self.algorithm.server(up, server, t, self.seed)
        if wrong:
            raise wrong
        assert down is not None  # no rank refused
        self._replica = self.algorithm.replica(down, replica, lr, t)
        worker = self.algorithm.sync_workers(worker, self._replica, t)
        self._flat.write(worker.x[0])
        self._worker, self._server, self._at_x = replace(worker, x=None), server, True
        self.meter.count(self.algorithm, len(x), t, self._flat.dtype)

    def _local_model(self) -> Tensor:
        """Return x_i [d]. Raises ValueError if parameters changed their form, and FloatingPointError."""
        self._flat.check()
        trained = [id(param) for group in self.param_groups for param in group["params"] if param.requires_grad]
        if trained != [*map(id, self._flat.params)]:
            raise ValueError(f"step {self.t}: parameters were frozen or added; make a new LocalSteps on every rank")
        x = self._flat.read(self._replica.x)
        if not is_finite(x):
            raise FloatingPointError(f"step {self.t}: the model of rank {self.rank} is not finite; take a smaller lr")
        return x

    def _settings(self) -> list[dict[str, Any]]:
        """Return the parameter groups' settings, which must be equal on all ranks."""
        return [
            {name: _plain(value) for name, value in group.items() if name != "params"} for group in self.param_groups
        ]

    def _state(self, inner: list[Any]) -> dict[str, Any]:
        """Return this object's own state, for these states of the inner optimizer."""
        return {
            "of": self._identity(len(self._replica.x)),
            "t": self.t,
            "skipped": self.skipped,
            "meter": asdict(self.meter),
            "x": self._flat.read(self._replica.x),
            "worker": as_dicts(self._worker),
            "replica": as_dicts(self._replica),
            "server": as_dicts(self._server),
            "inner": state_digest(dict(enumerate(inner))),
        }

    def _identity(self, d: int) -> dict[str, object]:
        own = identity(self.rank, self.workers, [self.algorithm], self.seed, d, self._flat)
        return {**own, "inner": type(self.inner).__name__}


def _states_in_order(state_dict: dict[str, Any]) -> list[Any]:
    """Return the parameters' states in order, without empty ones. Keys of parameters may be numbers or names."""
    params = (param for group in state_dict["param_groups"] for param in group["params"])
    return [state for param in params if (state := state_dict["state"].get(param))]


def _plain(value: Any) -> Any:
    """Return a setting in a form that is equal on all ranks: an object with an address becomes its class name."""
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, tuple | list):
        return tuple(map(_plain, value))
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    return value if isinstance(value, Number | str | None) else type(value).__name__


def _resolve_method(method: Algorithm | str, workers: int, d: int, options: dict[str, Any]) -> Method:
    """Return the method, loaded if it is a name, without its own inner update. Raises ValueError."""
    if not isinstance(method, str):
        return replace(_check_local_steps(resolve_method(method, options), type(method).__name__), inner=SGD())
    if "d" in parameters(method):
        options = {"d": d, **options}
    if "workers" in parameters(method):
        options = {"workers": workers, **options}
        if options["workers"] != workers:
            raise ValueError(f"workers={options['workers']}: there are {workers} workers")
    loaded = _check_local_steps(load_method(method, **options), method)
    for option in options:
        others = {name: value for name, value in options.items() if name != option}
        if option != "workers" and _check_local_steps(load_method(method, **others), method).inner != loaded.inner:
            raise ValueError(f"{option}: sets {method}'s own inner update, but your optimizer makes those steps")
    return replace(loaded, inner=SGD())


def _check_local_steps(method: Algorithm, name: str) -> Method:
    own = overridden(type(method), Method, *_NOT_USED)
    if isinstance(method, Method) and not own:
        return method
    if method.has_local_models:
        parts = f"overrides {own} (as fragments do)" if isinstance(method, Method) else "has local models of its own"
        raise ValueError(f"{name}: {parts}, which LocalSteps does not use; run it in the harness (experiments.run)")
    raise ValueError(f"{name}: has no local steps; use CompressedOptimizer")
