"""The project's own algorithms keep what is asked of all, and every check notices one that does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
import torch
import yaml
from conformance_support import each, names, violation
from hydra.utils import get_object
from torch import Tensor

from algorithms.channels import Channel, Direct, ErrorFeedback, Markov
from algorithms.compressors import Compressor, LogQuantize, MinMaxUint8, Payload, ScaledSign, TopK
from algorithms.protocol import Algorithm, ReplicaState, ServerState, WorkerState
from algorithms.updates import SGD, AMSGrad, Momentum
from experiments.config.compose import CONF
from experiments.conformance import Violation, check_algorithm
from experiments.conformance import algorithms as checks
from experiments.conformance.methods import Method

OWN = {
    file.stem: yaml.safe_load(file.read_text())["algorithm"] for file in sorted((CONF / "algorithm").glob("*.yaml"))
}
NOT_OPTIONS = ("_target_", "name", "display", "weight_decay")  # the last is a reference to another key


def options(name: str) -> dict:
    return {key: value for key, value in OWN[name].items() if key not in NOT_OPTIONS}


@pytest.mark.parametrize("name", OWN)
def test_the_algorithms_of_the_configuration(name: str) -> None:
    check_algorithm(get_object(OWN[name]["_target_"]), **options(name))


@pytest.mark.parametrize(
    ("name", "other"),
    [
        *((name, {"uplink_only": True}) for name in OWN if "uplink_only" in OWN[name]),
        *((name, {"dense_start": True}) for name in OWN if "dense_start" in OWN[name]),
        *(
            (name, {"compressor": ScaledSign("l2"), "uplink_only": only})
            for name in ("naive", "error_feedback", "cd_adam", "ef21", "onebit_adam")
            for only in (False, True)
        ),
        *((name, {"compressor": TopK(k=3), "update": SGD()}) for name in ("naive", "error_feedback")),
        *(("quantized_adam", {"compressor": LogQuantize(), "uplink_only": only}) for only in (False, True)),
        ("qadam", {"compressor": MinMaxUint8()}),
        ("sgd", {"update": SGD()}),
        ("onebit_adam", {"signal": "gradient", "compressor": TopK(k=2)}),
        ("onebit_adam", {"signal": "gradient", "form": "torch", "compressor": ScaledSign("l2")}),
        ("quantized_adam", {"theta_schedule": "one_minus_theta_over_t", "weight_decay": 0.1}),
        ("ef21", {"compressor": TopK(k=3), "update": SGD(weight_decay=0.1)}),
        ("naive", {"compressor": ScaledSign("l2"), "update": AMSGrad(form="torch")}),
    ],
)
def test_the_same_with_other_options(name: str, other: dict) -> None:
    check_algorithm(get_object(OWN[name]["_target_"]), **{**options(name), **other})


def method(kind: type[Algorithm], channel: type[Channel] = Direct) -> Callable[..., Algorithm]:
    """A method whose rounds are those of a class."""

    def function(compressor: Compressor, update: SGD) -> Algorithm:
        return kind(uplink=channel(compressor), downlink=channel(compressor), update=update)

    return function


@dataclass(frozen=True)
class Secretive(Algorithm):
    """Has a place that is not state: one process's own."""

    place: dict = field(default_factory=dict, hash=False, compare=False, repr=False)


class Whispering(Secretive):
    """The server reads what the workers did not send."""

    def worker(self, gradient: Tensor, *rest: object) -> tuple:
        self.place["mean"] = gradient.mean(-2)
        return super().worker(gradient, *rest)

    def mean(self, payloads: Payload, d: int, t: int) -> Tensor:
        return self.place["mean"]


class Favouring(Secretive):
    """The server's own replica takes what was not sent."""

    def server(self, payloads: Payload, state: ServerState, t: int, seed: int) -> tuple:
        self.place["aggregate"] = self.mean(payloads, state.aggregate.shape[-1], t)
        return super().server(payloads, state, t, seed)

    def replica(self, payload: Payload, state: ReplicaState, lr: float | Tensor, t: int) -> ReplicaState:
        after = super().replica(payload, state, lr, t)
        return replace(after, signal=self.place["aggregate"]) if self.place else after


class Noisy(Algorithm):
    """Draws from torch's own stream."""

    def outgoing(self, gradient: Tensor, *rest: object) -> tuple:
        return gradient + 0.01 * torch.randn_like(gradient), ()


class Forgetful(Secretive):
    """Momentum that is in no state, and so in no checkpoint."""

    def worker(self, gradient: Tensor, *rest: object) -> tuple:
        self.place["m"] = 0.9 * self.place.get("m", 0) + 0.1 * gradient
        return super().worker(self.place["m"], *rest)


class Counting(ErrorFeedback):
    """A memory that is no tensor [T, W, d]."""

    def start(self, like: Tensor) -> int:
        return 0

    def send(self, w: Tensor, memory: int, key: object) -> tuple:
        return self.codec(key.round).encode(w, key), memory + 1


class Averaging(Algorithm):
    """Workers keep a mean in double precision."""

    def start_workers(self, x: Tensor, ids: Tensor) -> WorkerState:
        zeros = torch.zeros(*x.shape[:-1], len(ids), x.shape[-1], dtype=torch.float64)
        return replace(super().start_workers(x, ids), moments=Momentum(m=zeros))

    def outgoing(self, gradient: Tensor, state: WorkerState, *rest: object) -> tuple:
        m = 0.5 * state.moments.m + 0.5 * gradient
        return m.to(gradient.dtype), Momentum(m=m)


class Scaling(Algorithm):
    def outgoing(self, gradient: Tensor, *rest: object) -> tuple:
        return gradient.mul_(0.5), ()


class InPlace(Markov):
    """The memory that was handed in is the new one."""

    def send(self, w: Tensor, memory: Tensor, key: object) -> tuple:
        payload = self.codec(key.round).encode(w - memory, key)
        return payload, memory.add_(self.decode(payload, w.shape[-1], key.round))


class Normalising(Algorithm):
    """By the norm of all trials together."""

    def outgoing(self, gradient: Tensor, *rest: object) -> tuple:
        return gradient / (1 + gradient.norm()), ()


class OnlyTrials(Algorithm):
    """Takes the step size for a tensor."""

    def outgoing(
        self, gradient: Tensor, state: WorkerState, replica: ReplicaState, lr: Tensor, t: int
    ) -> tuple[Tensor, tuple]:
        return gradient * (1 + lr.unsqueeze(-2)), ()


class Shrinking(Algorithm):
    """Weight decay that nobody asked for."""

    def replica(self, payload: Payload, state: ReplicaState, lr: float | Tensor, t: int) -> ReplicaState:
        after = super().replica(payload, state, lr, t)
        return replace(after, x=after.x - 0.01 * lr * state.x)


class Exploding(Algorithm):
    """0/0 where there is no gradient."""

    def outgoing(self, gradient: Tensor, *rest: object) -> tuple:
        return gradient / gradient.abs().amax(-1, keepdim=True), ()


class Understating(Direct):
    """Counts a dense start as compressed."""

    def bits(self, d: int, t: int) -> int:
        return self.compressor.bits(d)


class Rough(Direct):
    """Counts bytes of the compressed message alone."""

    def payload_bytes(self, d: int, t: int, dtype: torch.dtype) -> int:
        return self.compressor.bits(d) // 8


def understating(compressor: Compressor, update: SGD) -> Algorithm:
    return Algorithm.both_ways(Understating(compressor, dense_rounds=3), update)


class Ascending(Algorithm):
    def replica(self, payload: Payload, state: ReplicaState, lr: float | Tensor, t: int) -> ReplicaState:
        return super().replica(payload, state, -lr, t)


def untyped(compressor: Compressor, update: SGD, eta=0.1) -> Algorithm:
    return Algorithm.both_ways(Direct(compressor), update)


def without_compressor(update: SGD) -> Algorithm:
    return Algorithm.both_ways(Direct(TopK(k=1)), update)


BROKEN = [
    ("has_typed_options", untyped, "expected annotations, saw none at eta"),
    ("has_typed_options", without_compressor, "a parameter compressor, saw ['update']"),
    ("runs_on_the_wire_as_simulated", method(Whispering), "the simulation's x, saw"),
    ("keeps_replicas_equal", method(Favouring), "signal of the second rank to be the first's, saw"),
    ("is_deterministic", method(Noisy), "x of the first run, saw"),
    ("resumes", method(Forgetful), "the uninterrupted run's x of round 9, saw"),
    ("resumes", method(Algorithm, Counting), "raised AttributeError: 'int' object has no attribute 'select'"),
    ("keeps_shapes_and_dtypes", method(Averaging), "workers.moments.m [2, 4, 12], torch.float32, saw"),
    ("leaves_gradients_and_state", method(Scaling), "gradients as before round 4, saw"),
    ("leaves_gradients_and_state", method(Algorithm, InPlace), "memory as before round 4, saw"),
    ("takes_trials_apart", method(Normalising), "trial 0 as alone within"),
    ("takes_a_number_and_no_trials", method(OnlyTrials), "'float' object has no attribute 'unsqueeze'"),
    ("stays_at_rest", method(Shrinking), "x₁ after 16 rounds, saw"),
    ("stays_at_rest", method(Exploding), "finite numbers, saw [nan]"),
    (
        "counts_its_bits",
        understating,
        "384 bits for a payload of float64 [12], saw 44, for round 1, up, for Scaled",
    ),
    ("counts_its_bits", method(Algorithm, Rough), "payload_bytes of 192, saw 96, for Identity()"),
    ("descends", method(Ascending), "a tenth of f(x₁) − min f, saw these shares of it by step size: {'1': "),
]


@pytest.mark.parametrize(("name", "function", "message"), each(BROKEN))
def test_a_broken_promise_is_noticed(name: str, function: Callable, message: str) -> None:
    assert message in violation(getattr(checks, name), Method(function))


def test_every_check_has_something_that_it_notices() -> None:
    assert {name for name, _, _ in BROKEN} == names(checks.CHECKS)


def test_a_method_that_takes_nothing_fails_everywhere() -> None:
    def refusing(compressor: Compressor) -> Algorithm:
        raise ValueError("not this one")

    with pytest.raises(Violation) as caught:
        check_algorithm(refusing)
    said = str(caught.value)
    assert said.count("FAIL") == len(checks.CHECKS) - 1, "all but that its options have types"
    assert "a method that takes one of Identity(), ScaledSign(norm='l1'), " in said
    assert "saw not this one" in said


def test_a_method_is_tried_with_what_its_annotations_let_in() -> None:
    tried = {name: list(Method(get_object(OWN[name]["_target_"])).cases()) for name in ("sgd", "cd_adam", "qadam")}
    assert len(tried["sgd"]) == 1
    assert tried["sgd"][0].startswith("Identity(), SGD(")
    assert len(tried["cd_adam"]) == 6
    assert all("AMSGrad(" in case for case in tried["cd_adam"])
    assert "TopK(ratio=None, k=2)" in tried["qadam"], "it has no choice of update"
