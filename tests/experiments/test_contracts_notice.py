"""Every contract test fails for something that breaks it. A row: its name, what is broken, what it says."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import Tensor

from algorithms.compressors import Compressor, Identity, LinfDither, RandomK, ScaledSign, TopK
from algorithms.compressors.shard import Shard, whole_shard
from algorithms.core.algorithm import Algorithm
from algorithms.core.channels import Channel, Direct
from algorithms.core.update_rules import SGD
from algorithms.utils.seeding import MessageKey
from data.dataset import Dataset
from data.synthetic import synthetic
from experiments.contracts import test_algorithm, test_compressor, test_dataset, test_task
from experiments.tasks.logreg import LogisticRegression
from plots.runs.columns import Column


def broken(base: type, *options: Any, **attributes: Any) -> Any:
    """An object of a class that differs from another by these attributes."""
    return type(base.__name__, (base,), attributes)(*options)


def drop_in_place(self: TopK, x: Tensor, key: MessageKey | None = None) -> tuple:
    x[~self._keep(x, whole_shard(x.shape[-1]))] = 0
    return TopK.encode(self, x)


def encodes(base: type, encode: Callable[[Tensor], Any], **attributes: Any) -> Any:
    """A compressor with another `encode`, of x alone."""
    return broken(base, encode=lambda self, x, key=None: encode(x), **attributes)


def blind(**parts: Callable[[], Any]) -> RandomK:
    """Draws without a look at one part of the key, which it makes up."""

    def sample(self: RandomK, x: Tensor, shard: Shard, key: MessageKey) -> tuple:
        return RandomK._sample(self, x, shard, key._replace(**{name: make() for name, make in parts.items()}))

    return broken(RandomK, 0.1, _sample=sample)


COMPRESSORS = [
    ("has_a_name", broken(Identity, __repr__=object.__repr__), "of a copy, saw <"),
    (
        "keeps_shape_and_dtype",
        broken(ScaledSign, _scale=lambda self, x, shard: x.square().mean(-1, keepdim=True).sqrt()),
        "saw inf\nfor huge vectors, d = 1",
    ),
    (
        "crosses_the_wire",
        broken(ScaledSign, __call__=lambda self, x, key: self._scale(x, whole_shard(x.shape[-1])) * x.sign()),
        "decode(encode(x))",
    ),
    (
        "is_cut_into_shards",
        broken(ScaledSign, _scale=lambda self, x, shard: x.abs().mean(-1, keepdim=True)),
        "encode_shard() and cut() of the whole: ",
    ),
    (
        "agrees_on_what_is_not_finite",
        broken(
            ScaledSign,
            __call__=lambda self, x, key: ScaledSign()(x.nan_to_num(posinf=torch.inf, neginf=-torch.inf), key),
        ),
        "NaN in decode(encode(x)) and C(x)",
    ),
    (
        "takes_vectors_apart",
        broken(ScaledSign, _scale=lambda self, x, shard: x.abs().mean().expand(*x.shape[:-1], 1)),
        "C(x) alone and in [T, d]: ",
    ),
    (
        "sends_tensors",
        encodes(TopK, lambda x: TopK(k=int((x.abs() >= x.abs().mean(-1, keepdim=True)).sum(-1).max())).encode(x)),
        "as for other vectors, saw",
    ),
    ("counts_its_bits", broken(ScaledSign, bits=lambda self, d: d), "33 to 40 bits for a payload of uint8 [1]"),
    ("is_a_function", broken(TopK, encode=drop_in_place), "its arguments, later and before: 0: "),
    ("draws_apart", blind(seed=int), "different draws for 16 seeds"),
    ("contracts", broken(TopK, 0.1, pi=lambda self, d: min(1, 1.5 / d)), "at most 1 − π = 0.8125 (± 1e-09) times"),
    ("contracts", broken(LinfDither, 64, 1, contractive=True, pi=Compressor.pi), "times ‖x‖², saw 2.54"),
    ("is_unbiased", broken(TopK, unbiased=True), "in the mean of coordinate"),
    ("is_unbiased", broken(LinfDither, 64, 1, omega=lambda self, d: 2), "at most ω = 2 (± "),
]


def method(channel: type[Channel] = Direct, **attributes: Any) -> Callable[..., Algorithm]:
    """A function whose algorithm differs from the plain one by these attributes."""

    def function(compressor: Compressor, update: SGD) -> Algorithm:
        return type("Broken", (Algorithm,), attributes)(channel(compressor), channel(compressor), update)

    return function


def steps(rule: type[SGD]) -> Callable[..., Algorithm]:
    """A plain method with an update of its own."""
    return lambda compressor, update: Algorithm.from_channel(Direct(compressor), rule())


def sends(change: Callable[[Tensor], Tensor]) -> Callable[..., Algorithm]:
    return method(worker_message=lambda self, gradient, *rest: (change(gradient), ()))


def whisper(self: Algorithm, gradient: Tensor, *rest: Any) -> tuple:
    """Workers tell the server of their process what they do not send."""
    vars(self)["mean of all"] = gradient.mean(-2)
    return Algorithm.worker(self, gradient, *rest)


def overhear(self: Algorithm, payloads: Any, d: int, t: int) -> Tensor:
    return vars(self)["mean of all"]


def hidden_momentum(self: Algorithm, gradient: Tensor, *rest: Any) -> tuple:
    vars(self)["m"] = 0.9 * vars(self).get("m", 0) + 0.1 * gradient
    return vars(self)["m"], ()


def widen(self: Algorithm, payload: Any, state: Any, lr: Any, t: int) -> Any:
    after = Algorithm.replica(self, payload, state, lr, t)
    return replace(after, signal=after.signal.double())


def decay(self: Algorithm, payload: Any, state: Any, lr: Any, t: int) -> Any:
    after = Algorithm.replica(self, payload, state, lr, t)
    return replace(after, x=after.x - 0.01 * lr * state.x)


class Moments(NamedTuple):
    steps: int


class Normalised(SGD):
    """Divides by a norm, and says that it is coordinatewise."""

    is_coordinatewise = True

    def direction(self, u: Tensor, moments: Any, t: int) -> Any:
        return u / u.norm(dim=-1, keepdim=True), moments


class Counting(SGD):
    """Keeps a number."""

    def start(self, x: Tensor) -> Any:
        return Moments(0)

    def direction(self, u: Tensor, moments: Any, t: int) -> Any:
        return u, Moments(moments.steps + 1)


class Deaf(SGD):
    """Has a step size of its own."""

    def step(self, x: Tensor, u: Tensor, moments: Any, lr: Any, t: int) -> Any:
        return super().step(x, u, moments, 0.05, t)


class Understating(Direct):
    """Counts a dense start as compressed."""

    def __init__(self, compressor: Compressor) -> None:
        super().__init__(compressor, dense_rounds=3)

    def bits(self, d: int, t: int) -> int:
        return self.compressor.bits(d)


def untyped(compressor, update, eta=0.1):
    return Algorithm.from_channel(Direct(compressor), update)


ALGORITHMS = [
    ("has_typed_options", untyped, "expected annotations, saw none at compressor, update, eta"),
    ("is_distributed_as_simulated", method(worker=whisper, mean=overhear), "x on two ranks and simulated: "),
    ("resumes", method(worker_message=hidden_momentum), "x of round 7, resumed and uninterrupted: "),
    ("keeps_shapes_and_dtypes", method(replica=widen), "signal: expected [2, 12], torch.float32"),
    ("keeps_shapes_and_dtypes", steps(Counting), "replica.moments.steps: state must be a tensor, for checkpoints; s"),
    ("goes_in_tiles", steps(Normalised), "x of round 1, by tiles of 4 coordinates and whole: "),
    ("leaves_gradients_and_state", sends(lambda g: g.mul_(0.5)), "its arguments, later and before: 0: "),
    ("takes_trials_apart", sends(lambda g: g / (1 + g.norm())), "x of trial 1 alone and in a batch: "),
    ("uses_lr_and_update", steps(Deaf), "expected another by another lr, saw the same"),
    ("uses_lr_and_update", steps(SGD), "expected another by an update with weight_decay=0.5, saw the same"),
    ("stays_at_rest", method(replica=decay), "x after 12 rounds and before: "),
    ("counts_its_bits", method(Understating), "float64 [12], saw 76\nfor round 1, up"),
    ("descends", sends(torch.neg), "a tenth of f(x₁) − min f, saw by step size {'1': "),
]

FEW = synthetic(rows=41, features=6, workers=4, heterogeneity=0.5)


def task(kind: type = LogisticRegression, options: Any = (), **attributes: Any) -> Callable[..., Any]:
    """Builds logistic regression that differs by these attributes."""
    return partial(type("Broken", (kind,), attributes), FEW, **dict(options))


def gradients(change: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Any]:
    """Its gradients are made of the right ones and of x."""

    def changed(self: Any, x: Tensor, statistics: Tensor, t: int) -> tuple[Tensor, Tensor]:
        right, statistics = LogisticRegression.gradients(self, x, statistics, t)
        return change(right, x), statistics

    return task(gradients=changed)


def measures(change: Callable[[dict], dict]) -> Callable[..., Any]:
    """Its measurements are made of the right ones."""
    return task(evaluate=lambda self, x, statistics: change(LogisticRegression.evaluate(self, x, statistics)))


def reuse(self: Any, x: Tensor, statistics: Tensor, t: int) -> tuple[Tensor, Tensor]:
    """The same memory every time."""
    found, statistics = LogisticRegression.gradients(self, x, statistics, t)
    buffer = vars(self).setdefault(found.shape, found)
    return buffer.copy_(found), statistics


class Untyped(LogisticRegression):
    def __init__(self, dataset, workers: int, seed: int, ids=None):
        super().__init__(dataset, workers, seed, ids)


TASKS = [
    ("says_what_it_is", task(devices=()), "devices=set(): expected some of cpu and cuda"),
    ("has_typed_options", partial(Untyped, FEW), "annotations, saw none at dataset, ids"),
    ("starts_somewhere", task(start=lambda self: torch.randn(self.d).to(self.dtype)), "start() later and at first: "),
    ("gives_gradients", gradients(lambda g, x: g.mean(-2)), "expected [3, 4, 6], torch.float64, saw [3, 6], "),
    (
        "gives_gradients_at_models_of_workers_own",
        task(gradients_at=lambda self, x, statistics, t: self.gradients(x.mean(1), statistics, t)),
        "worker 0: ",
    ),
    ("gives_measurements", measures(lambda m: {"train_loss": m["train_loss"]}), "expected both, saw train_loss"),
    (
        "gives_measurements",
        measures(lambda m: {"r": m["grad_norm"] / m["grad_norm"].diff().any()}),
        "r: expected fin",
    ),
    ("gives_measurements", measures(lambda m: m | {"r2": -m["train_loss"]}), "r2: expected a Column(name, better="),
    ("gives_measurements", measures(lambda m: m | {"seed": m["train_loss"]}), "seed: the task's `evaluate` returns"),
    ("gives_measurements", task(columns=(Column("r2"),), metric="r2"), "metric=r2: expected one with a better"),
    ("has_the_gradient_of_its_loss", measures(lambda m: m | {"grad_norm": m["grad_norm"] ** 2}), "grad_norm: "),
    ("descends", gradients(lambda g, x: -g), "expected less than 0.693147 by lr"),
    ("gives_ranks_what_it_gives_all", gradients(lambda g, x: g + torch.arange(g.shape[-2])[:, None]), "[2, 3] of 4"),
    ("takes_trials_apart", gradients(lambda g, x: g / (1 + x.norm())), "gradients among others: "),
    ("depends_on_seed_and_round_alone", gradients(lambda g, x: g + torch.rand(())), "rounds in another order: "),
    ("leaves_what_it_is_given", task(gradients=reuse), "its result, later and at first: 0: "),
    ("keeps_a_record", task(facts=lambda self: {"rows": (self.rows,)}), "facts that come back from JSON, saw"),
]

DENSE = np.random.default_rng(0).standard_normal((12, 3))
POSITIVE = np.arange(12) % 2 == 0
CALLS = count()


def rows(**changes: Any) -> Callable[[], Dataset]:
    """Loads a small set with something changed."""
    return lambda: replace(Dataset.from_dense("few", DENSE, POSITIVE), **changes)


DATASETS = [
    ("is_a_dataset", lambda: (DENSE, POSITIVE), "a Dataset, Images or Text, saw tuple"),
    ("has_rows", rows(features=sparse.csr_array(DENSE.astype(np.float32))), "features of float64, saw float32"),
    ("has_labels", rows(labels=np.ones(12, np.int8)), "expected all of {1, -1}"),
    ("is_the_same_every_time", lambda: synthetic(50, 4, 3, seed=next(CALLS)), "… again, saw"),
]

TABLES = {
    test_compressor.TestCompressor: COMPRESSORS,
    test_algorithm.TestAlgorithm: [(name, test_algorithm.cases(made)[-1], said) for name, made, said in ALGORITHMS],
    test_task.TestTask: TASKS,
    test_dataset.TestDataset: DATASETS,
}
ROWS = [
    pytest.param(getattr(contracts(), f"test_{name}"), subject, message, id=f"{contracts.__name__}-{name}-{number}")
    for contracts, table in TABLES.items()
    for number, (name, subject, message) in enumerate(table)
]


@pytest.mark.parametrize(("test", "subject", "message"), ROWS)
def test_what_is_broken_is_noticed(test, subject, message):
    with pytest.raises(BaseException) as caught:  # noqa: PT011
        test(subject)
    assert message in "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])


@pytest.mark.parametrize("contracts", TABLES, ids=lambda contracts: contracts.__name__)
def test_every_contract_has_something_that_it_notices(contracts: type) -> None:
    assert {f"test_{name}" for name, *_ in TABLES[contracts]} == {name for name in vars(contracts) if name[0] == "t"}
