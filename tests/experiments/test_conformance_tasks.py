"""The project's own tasks keep what is asked of all, and every check notices one that does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest
import torch
from conformance_support import each, names, violation
from torch import Tensor

from algorithms.compressors import Compressor
from data.dataset import Dataset
from data.embedded import breast_cancer, digit_images, digits
from data.synthetic import synthetic
from experiments.conformance import Violation, check_task
from experiments.conformance import tasks as checks
from experiments.models.small_cnn import small_cnn
from experiments.tasks.images import ImageClassification
from experiments.tasks.logreg import LogisticRegression
from experiments.tasks.task import Task

FEW = synthetic(rows=41, features=6, workers=4, heterogeneity=0.5)

LOGREG = {
    "breast cancer": partial(LogisticRegression, breast_cancer()),
    "digits": partial(LogisticRegression, digits(), partition="dirichlet", regularization=0.5),
    "synthetic": partial(LogisticRegression, FEW, partition="shuffled"),
    "batches": partial(LogisticRegression, breast_cancer(), batch_size=5),
    "step size of theory": partial(LogisticRegression, FEW, step_unit="theory"),
}


@pytest.mark.parametrize("name", LOGREG)
def test_logistic_regression(name: str) -> None:
    check_task(LOGREG[name])


def images(workers: int, seed: int, ids: Sequence[int] | None) -> ImageClassification:
    cpu = torch.device("cpu")
    options = {"rows": 160, "batch_size": 8, "padding": 1, "evaluation_rows": 64, "evaluation_batch": 40}
    return ImageClassification(digit_images(), small_cnn(4), workers, seed, cpu, ids=ids, **options)


def test_images() -> None:
    check_task(images)


class Own(LogisticRegression):
    """A task that is about to break something."""

    calls = 0


class OneTooMany(Own):
    sizes = property(lambda self: (self.d, 1), lambda self, sizes: None)


class Nowhere(Own):
    devices = ()


class Untyped(LogisticRegression):
    def __init__(self, dataset: Dataset, workers: int, seed: int, ids: Sequence[int] | None = None, lam=0.1) -> None:
        super().__init__(dataset, workers, seed, ids, regularization=lam)


class WithoutSeed(LogisticRegression):
    def __init__(self, dataset: Dataset, workers: int, ids: Sequence[int] | None = None, **rest: int) -> None:
        super().__init__(dataset, workers, 0, ids)


class StrangeOptions(Own):
    @staticmethod
    def check_options(*ours: object, momentum: float = 0.0) -> None:
        """Asks for what is no option of the class."""


class Wandering(Own):
    """Starts elsewhere at every call."""

    def start(self) -> Tensor:
        return torch.randn(self.d, dtype=self.dtype)


class WarmStart(Own):
    """Statistics of the last round in place of those before the first."""

    def start_statistics(self) -> Tensor:
        return torch.full((len(self._ids), 1), float(self.calls), dtype=self.dtype)

    def gradients(self, x: Tensor, statistics: Tensor, t: int) -> tuple[Tensor, Tensor]:
        self.calls += 1
        return super().gradients(x, statistics, t)


class ByPosition(Own):
    """Noise that is named by a worker's place in its process."""

    def gradients(self, x: Tensor, statistics: Tensor, t: int) -> tuple[Tensor, Tensor]:
        gradients, statistics = super().gradients(x, statistics, t)
        noise = np.random.default_rng(t).standard_normal((gradients.shape[-2], 1))
        return gradients + 0.01 * torch.from_numpy(noise), statistics


class OtherStart(Own):
    """Ranks that start at another x each."""

    def start(self) -> Tensor:
        return torch.full((self.d,), float(self._ids[0]), dtype=self.dtype)


class Streaming(Own):
    """Batches drawn one after the other: a resumed run draws others."""

    def gradients(self, x: Tensor, statistics: Tensor, t: int) -> tuple[Tensor, Tensor]:
        self.calls += 1
        return super().gradients(x, statistics, self.calls)


class Reusing(Own):
    """Gives the same memory every time."""

    def gradients(self, x: Tensor, statistics: Tensor, t: int) -> tuple[Tensor, Tensor]:
        gradients, statistics = super().gradients(x, statistics, t)
        if not hasattr(self, "buffer") or self.buffer.shape != gradients.shape:
            self.buffer = gradients
        return self.buffer.copy_(gradients), statistics


class Moving(Own):
    def evaluate(self, x: Tensor, statistics: Tensor) -> dict[str, Tensor]:
        return super().evaluate(x.add_(1e-3), statistics)


class Reset(Own):
    def epoch(self, t: int) -> float:
        return t % 10


class LateStart(Own):
    def epoch(self, t: int) -> float:
        return t + 1


class Unrecorded(Own):
    def facts(self) -> dict[str, object]:
        return {"rows": np.int64(self.rows)}


class Listed(Own):
    def facts(self) -> dict[str, object]:
        return {"shape": (self.workers, self.rows)}


class NoUnit(Own):
    def step_unit(self, compressor: Compressor) -> float:
        return 0.0


def changed(change: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Task]:
    """A task whose gradients a function makes of the right ones and of x."""

    class Changed(Own):
        def gradients(self, x: Tensor, statistics: Tensor, t: int) -> tuple[Tensor, Tensor]:
            gradients, statistics = super().gradients(x, statistics, t)
            return change(gradients, x), statistics

    return partial(Changed, FEW)


def measured(change: Callable[[dict], dict]) -> Callable[..., Task]:
    """A task whose measurements a function makes of the right ones."""

    class Measured(Own):
        def evaluate(self, x: Tensor, statistics: Tensor) -> dict[str, Tensor]:
            return change(super().evaluate(x, statistics))

    return partial(Measured, FEW)


def only_loss(all_: dict) -> dict:
    return {"train_loss": all_["train_loss"]}


BROKEN = [
    ("says_what_it_is", partial(OneTooMany, FEW), "sizes of 6 coordinates, saw (6, 1)"),
    ("says_what_it_is", partial(Nowhere, FEW), "the class's devices to be of cpu and cuda, saw ()"),
    ("has_typed_options", partial(Untyped, FEW), "annotations, saw none at lam"),
    ("has_typed_options", partial(WithoutSeed, FEW), "workers, seed and ids, saw no seed"),
    ("has_typed_options", partial(StrangeOptions, FEW), "saw momentum, ours besides"),
    ("starts_somewhere", partial(Wandering, FEW), "start() as at the first call, saw"),
    ("starts_somewhere", partial(WarmStart, FEW), "start_statistics() as at the first call, saw 3.0 instead of 0.0"),
    ("gives_gradients", changed(lambda g, x: g.mean(-2)), "gradients ((3, 4, 6), torch.float64), saw ((3, 6),"),
    ("gives_gradients", changed(lambda g, x: g.float()), "saw ((3, 4, 6), torch.float32)"),
    ("gives_gradients", changed(lambda g, x: g / 0), "gradients to be finite, saw"),
    ("gives_measurements", measured(only_loss), "train_loss and grad_norm, saw only train_loss"),
    ("gives_measurements", measured(lambda m: m | {"train_loss": m["train_loss"].mean()}), "shape [3], saw []"),
    ("gives_measurements", measured(lambda m: m | {"margin": m["train_loss"] / 0}), "margin to be finite, saw [inf"),
    (
        "measures_its_gradient",
        measured(lambda m: m | {"grad_norm": m["grad_norm"] ** 2}),
        "grad_norm within",
    ),
    ("averages_to_its_gradient", changed(lambda g, x: g + 0.1 * x.unsqueeze(-2)), "mean_i ∇f_i(x) = ∇f(x) within"),
    ("descends", changed(lambda g, x: -g), "expected train_loss below 0.693147, saw by step size {1.0: "),
    ("gives_ranks_what_it_gives_all", partial(ByPosition, FEW), "for the workers [2, 3] of 4"),
    ("gives_ranks_what_it_gives_all", partial(OtherStart, FEW), "start(), saw 2.0 instead of 0.0"),
    ("takes_trials_apart", changed(lambda g, x: g / (1 + x.norm())), "gradients among others, saw"),
    ("takes_trials_apart", measured(lambda m: m | {"rank": m["train_loss"].argsort()}), "rank alone within"),
    ("depends_on_seed_and_round_alone", partial(Streaming, FEW, batch_size=2), "gradients as of rounds in order"),
    ("depends_on_seed_and_round_alone", changed(lambda g, x: g + torch.rand(())), "gradients as of rounds in order"),
    ("leaves_what_it_is_given", partial(Reusing, FEW), "gradients of the round before as before"),
    ("leaves_what_it_is_given", partial(Moving, FEW), "expected x as before"),
    ("leaves_what_it_is_given", changed(lambda g, x: g + x.mul_(0.5).mean()), "expected x as before"),
    ("counts_epochs", partial(Reset, FEW), "growing epochs of rounds 0, 1, 2, 10 and 1000, saw [0, 1, 2, 0, 0]"),
    ("counts_epochs", partial(LateStart, FEW), "epoch(0) = 0, saw 1"),
    ("keeps_a_record", partial(Unrecorded, FEW), "Object of type int64 is not JSON serializable"),
    ("keeps_a_record", partial(Listed, FEW), "facts that come back from JSON, saw {'shape': (4, 10)}"),
    ("keeps_a_record", partial(NoUnit, FEW), "a positive step_unit, saw 0.0"),
]


@pytest.mark.parametrize(("name", "build", "message"), each(BROKEN))
def test_a_broken_promise_is_noticed(name: str, build: Callable[..., Task], message: str) -> None:
    assert message in violation(getattr(checks, name), build)


def test_every_check_has_something_that_it_notices() -> None:
    assert {name for name, _, _ in BROKEN} == names(checks.CHECKS)


def test_what_is_about_to_be_broken_is_whole() -> None:
    check_task(partial(Own, FEW))
    check_task(changed(lambda gradients, x: gradients))
    check_task(measured(dict))


def test_all_that_is_broken_is_said_at_once() -> None:
    with pytest.raises(Violation) as caught:
        check_task(partial(Reset, Dataset.from_dense("other", FEW.features.toarray()[:20], FEW.labels[:20] > 0)))
    assert str(caught.value).count("FAIL") == 1
