"""The project's own compressors keep what is asked of all, and every check notices one that does not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
import torch
import yaml
from conformance_support import each, names, violation
from torch import Tensor

from algorithms.compressors import (
    Blocks,
    Compressor,
    Identity,
    LogQuantize,
    Natural,
    Qsgd,
    RandomK,
    ScaledSign,
    TopK,
    UniformQuantize,
)
from algorithms.compressors.base import Vector
from algorithms.compressors.scaled_sign import Signs
from algorithms.compressors.top_k import Sparse
from algorithms.randomness import Key
from experiments.config.classes import Targets
from experiments.config.compose import CONF
from experiments.conformance import Violation, check_compressor
from experiments.conformance import compressors as checks

OWN = {
    file.stem: Targets([]).build(yaml.safe_load(file.read_text()), "compressor")
    for file in sorted((CONF / "compressor").glob("*.yaml"))
}
OTHER_OPTIONS = [
    *(TopK(ratio=0.1), TopK(k=3), RandomK(ratio=0.1), RandomK(k=9), RandomK(k=3, unbiased=True)),
    *(*map(LogQuantize, (2, 5, 8)), *map(UniformQuantize, (2, 4, 16)), *map(Qsgd, (1, 127, 300, 32767))),
    *(Blocks(ScaledSign(), (30, 7)), Blocks(RandomK(k=3), (30, 7)), Blocks(Natural(), (30, 70))),
]


@pytest.mark.parametrize("name", OWN)
def test_the_compressors_of_the_configuration(name: str) -> None:
    check_compressor(OWN[name])


@pytest.mark.parametrize("compressor", OTHER_OPTIONS, ids=str)
def test_the_same_with_other_options(compressor: Compressor) -> None:
    check_compressor(compressor)


class Nameless(Identity):
    """Its repr is its address."""

    __repr__ = object.__repr__


class Unhashable(Identity):
    """As a dataclass that is not frozen."""

    __hash__ = None


class Widening(Identity):
    def decode(self, payload: Vector, d: int) -> Tensor:
        return payload.values.double()


class Flattening(Identity):
    """Takes [T, W, d] and [T, d], and makes something else of [d]."""

    def decode(self, payload: Vector, d: int) -> Tensor:
        return payload.values.view(-1, d) if payload.values.dim() == 1 else payload.values


class Overflowing(ScaledSign):
    """The root of a sum of squares that float32 does not hold."""

    def _scale(self, x: Tensor) -> Tensor:
        return x.square().mean(-1, keepdim=True).sqrt()


class OtherZero(ScaledSign):
    """sgn(0) = 0 on the dense path alone."""

    def __call__(self, x: Tensor, key: Key | None = None) -> Tensor:
        return self._scale(x) * x.sign()


class NeverZero(ScaledSign):
    def _scale(self, x: Tensor) -> Tensor:
        return super()._scale(x) + 1e-8


class OneScale(ScaledSign):
    """The scale of the whole batch."""

    def _scale(self, x: Tensor) -> Tensor:
        return x.abs().mean().expand(*x.shape[:-1], 1)


class Ragged(Compressor):
    """Sends as many coordinates as exceed the mean: another payload for another vector."""

    def encode(self, x: Tensor, key: Key | None = None) -> Sparse:
        keep = x.abs() >= x.abs().mean(-1, keepdim=True)
        k = int(keep.sum(-1).max())
        return TopK(k=k).encode(torch.where(keep, x, 0))

    def decode(self, payload: Sparse, d: int) -> Tensor:
        return TopK(k=1).decode(payload, d)

    def bits(self, d: int) -> int:
        return 64 * d


class LengthAndScale(NamedTuple):
    values: Tensor
    length: int


class WithANumber(Identity):
    def encode(self, x: Tensor, key: Key | None = None) -> LengthAndScale:
        return LengthAndScale(x, x.shape[-1])


class WithoutAxes(ScaledSign):
    """One scale for all, without the leading axes."""

    def encode(self, x: Tensor, key: Key | None = None) -> Signs:
        bits, scale = super().encode(x, key)
        return Signs(bits, scale.flatten()[:1])


@dataclass(frozen=True)
class Remembering(RandomK):
    """The receiver draws from the key that the sender had, which is not sent."""

    keys: dict = field(default_factory=dict, hash=False, compare=False, repr=False)

    def encode(self, x: Tensor, key: Key | None = None) -> Vector:
        self.keys[0] = key
        return Vector(super().encode(x, key).values)

    def decode(self, payload: Vector, d: int) -> Tensor:
        x = torch.zeros(*payload.values.shape[:-1], d, dtype=payload.values.dtype)
        seed = super().encode(x, self.keys[0]).seed
        return super().decode((payload.values, seed), d)


class ForgottenScale(ScaledSign):
    def bits(self, d: int) -> int:
        return d


class NotPacked(ScaledSign):
    """A byte for every sign."""

    def encode(self, x: Tensor, key: Key | None = None) -> Signs:
        return Signs(x >= 0, self._scale(x))

    def decode(self, payload: Signs, d: int) -> Tensor:
        return torch.where(payload.bits, payload.scale, -payload.scale)


class FractionalBits(Identity):
    def bits(self, d: int) -> float:
        return 32.0 * d


class Zeroing(TopK):
    """Drops small coordinates where they lie."""

    def encode(self, x: Tensor, key: Key | None = None) -> Sparse:
        x[~self._keep(x)] = 0
        return super().encode(x, key)


class Consuming(Identity):
    def decode(self, payload: Vector, d: int) -> Tensor:
        values = payload.values.clone()
        payload.values.zero_()
        return values


class Streaming(RandomK):
    """Draws from torch's own stream."""

    def encode(self, x: Tensor, key: Key | None = None) -> tuple:
        return super().encode(x, Key(int(torch.randint(2**31, ())), "up", 1, key.workers))


@dataclass(frozen=True)
class Compensating(ScaledSign):
    """Keeps a memory of its own, which belongs to the channel."""

    memory: dict = field(default_factory=dict, hash=False, compare=False, repr=False)

    def __call__(self, x: Tensor, key: Key | None = None) -> Tensor:
        wanted = x + self.memory.get(x.shape, 0)
        self.memory[x.shape] = wanted - super().__call__(wanted, key)
        return super().__call__(wanted, key)


@dataclass(frozen=True)
class Alike(RandomK):
    """Draws without a look at one part of the key."""

    blind: str = "round"

    def encode(self, x: Tensor, key: Key | None = None) -> tuple:
        workers = None if key.workers is None else (0,) * len(key.workers)
        other = {"seed": 0, "direction": "up", "round": 1, "workers": workers}[self.blind]
        return super().encode(x, key._replace(**{self.blind: other}))


class Boastful(TopK):
    def pi(self, d: int) -> float:
        return min(1.0, 1.5 * super().pi(d))


class BoastfulAtRandom(RandomK):
    def pi(self, d: int) -> float:
        return min(1.0, 1.5 * super().pi(d))


class Impossible(Identity):
    def pi(self, d: int) -> float:
        return 2.0


class Expanding(ScaledSign):
    """1-bit Adam's scale, which does not contract sparse vectors, said to."""

    contractive = True

    def pi(self, d: int) -> float:
        raise ValueError("unknown")


class Stuck(Identity):
    """C(x) = 0 contracts nothing."""

    def encode(self, x: Tensor, key: Key | None = None) -> Vector:
        return Vector(torch.zeros_like(x))

    def pi(self, d: int) -> float:
        raise ValueError("unknown")


class Biased(TopK):
    unbiased = True


class SlightlyBiased(RandomK):
    """Scaled by 10 % too much."""

    contractive = False

    def encode(self, x: Tensor, key: Key | None = None) -> tuple:
        values, seed = super().encode(x, key)
        return type(super().encode(x, key))(1.1 * values, seed)


class Undecided(Identity):
    unbiased = None


BROKEN = [
    ("has_a_name", Nameless(), "the same repr for a copy"),
    ("has_a_name", Unhashable(), "unhashable type"),
    ("keeps_shape_and_dtype", Widening(), "C(x) of torch.float32, saw torch.float64, for random vectors, d = 1"),
    ("keeps_shape_and_dtype", Flattening(), "C(x) of shape [1], saw [1, 1]"),
    ("keeps_shape_and_dtype", Overflowing(), "finite numbers, saw [inf], for huge vectors, d = 1, torch.float32"),
    ("decodes_c_of_x", OtherZero(), "decode(encode(x)) to be C(x), saw"),
    ("keeps_zero", NeverZero(), "expected zeros, saw [9.99"),
    ("takes_vectors_apart", OneScale(), "alone as in [T, d], saw"),
    ("sends_tensors", Ragged(), "the shapes and dtypes of other vectors"),
    ("sends_tensors", WithANumber(), "a named tuple of tensors, saw int"),
    ("sends_tensors", WithoutAxes(), "scale of leading axes [2, 3], saw [1]"),
    ("crosses_the_wire", Remembering(k=1), "for random vectors"),
    (
        "counts_its_bits",
        ForgottenScale(),
        "33 to 40 bits for a payload of uint8 [1] and float32 [1], saw 1, for d",
    ),
    ("counts_its_bits", NotPacked(), "40 bits for a payload of bool [1] and float32 [1], saw 33, for d = 1"),
    ("counts_its_bits", FractionalBits(), "32 bits for a payload of float32 [1], saw 32.0"),
    ("leaves_its_input", Zeroing(k=1), "x as it was before encode(x)"),
    ("leaves_its_input", Consuming(), "before C(x)"),
    ("depends_on_its_key_alone", Streaming(k=1), "C(x) as at the first call"),
    ("depends_on_its_key_alone", Compensating(), "C(x) as at the first call"),
    ("draws_apart", Alike(k=1, blind="seed"), "different draws for 16 seeds, saw the same 16 times"),
    ("draws_apart", Alike(k=1, blind="round"), "different draws for 16 rounds"),
    ("draws_apart", Alike(k=1, blind="workers"), "different draws for 16 workers"),
    ("draws_apart", Alike(k=1, blind="direction"), "different draws up and down"),
    ("contracts", Boastful(k=1), "at most 1 − π = 0.25 (± 1e-09), saw 0.5, for constant vectors, d = 2"),
    ("contracts", BoastfulAtRandom(k=9), "at most 1 − π = 0.635"),
    ("contracts", Impossible(), "0 < pi(1) ≤ 1, saw 2.0"),
    ("contracts", Expanding("l2"), "at most 1 − π = 0.999999 (± 1e-09), saw 1.29"),
    ("contracts", Stuck(), "saw 1, for random vectors, d = 1"),
    ("is_unbiased", Biased(k=3), "in the mean, saw 0"),
    ("is_unbiased", SlightlyBiased(k=18, unbiased=True), "in the mean"),
    ("is_unbiased", Undecided(), "unbiased to be True or False, saw None"),
]


@pytest.mark.parametrize(("name", "compressor", "message"), each(BROKEN))
def test_a_broken_promise_is_noticed(name: str, compressor: Compressor, message: str) -> None:
    assert message in violation(getattr(checks, name), compressor)


def test_all_that_is_broken_is_said_at_once() -> None:
    with pytest.raises(Violation) as caught:
        check_compressor(Overflowing())
    said = str(caught.value).strip().splitlines()
    assert said[0] == "FAIL  C(x) has the shape and dtype of x [T, W, d], [T, d] or [d], and is finite"
    assert "finite numbers, saw [inf], for huge vectors" in said[1]
    assert [line.strip() for line in said if "‖C(x) − x‖² ≤" in line], "nor does it contract"


def test_every_check_has_something_that_it_notices() -> None:
    assert {name for name, _, _ in BROKEN} == names(checks.CHECKS)


def test_sizes_are_those_that_a_compressor_takes() -> None:
    assert checks.sizes(Identity()) == [1, 2, 8, 37, 300]
    assert checks.sizes(TopK(k=20)) == [37, 300]
    assert checks.sizes(Blocks(Identity(), (30, 70))) == [100]
    assert "a d below 4096 that check(d) accepts, saw none" in violation(checks.keeps_zero, TopK(k=5000))


def test_an_error_is_located_in_the_code_that_raised_it() -> None:
    class Failing(Identity):
        def encode(self, x: Tensor, key: Key | None = None) -> Vector:
            raise RuntimeError("no such thing\nand more")

    found = violation(checks.decodes_c_of_x, Failing())
    assert found.startswith("raised RuntimeError: no such thing (test_conformance_compressors.py, line ")
    assert found.endswith("for random vectors, d = 1, torch.float32")
