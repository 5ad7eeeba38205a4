"""The contract of compressors (algorithms/compressors/base.py). The fixture `compressor` is under test."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from threading import Barrier, BrokenBarrierError

import pytest
import torch
from torch import Tensor

from algorithms.comm.gather_broadcast import from_bytes, to_bytes
from algorithms.compressors import Compressor, Payload, Shardable, tensors
from algorithms.compressors.shard import Shard
from algorithms.utils.seeding import MessageKey
from experiments.contracts.assertions import assert_bits, assert_form, assert_pure, assert_same, note_input

SIZES = (1, 8, 37, 70_001)  # the last is beyond 16-bit indices
DRAWS = 4000
DTYPES = (torch.float32, torch.float64)
WORKERS = MessageKey(seed=1, direction="up", round=2, workers=(0, 1, 2))
SERVER = MessageKey(seed=1, direction="down", round=2)


class TestCompressor:
    def test_has_a_name(self, compressor: Compressor) -> None:
        """It is hashable, and its repr has its options, like a frozen dataclass's."""
        hash(compressor)
        again = repr(copy.deepcopy(compressor))
        assert again == repr(compressor), f"expected {compressor!r} of a copy, saw {again}"

    def test_keeps_shape_and_dtype(self, compressor: Compressor) -> None:
        """C(x) has the shape and dtype of x [T, W, d], [T, d] or [d], and is finite; C(0) = 0 if `keeps_zero`."""

        def check(x: Tensor) -> None:
            for part, key in ((x, WORKERS), (x[:, 0], SERVER), (x[0, 0], SERVER)):
                y = compressor(part, key)
                assert_form(y, part.shape, part.dtype, "C(x)")
                rests = y[~part.any(-1)]
                assert not (compressor.keeps_zero and rests.any()), f"expected C(0) = 0, saw {rests.tolist()}"

        check_inputs(compressor, check)

    def test_crosses_the_wire(self, compressor: Compressor) -> None:
        """decode(encode(x)) is C(x), bit for bit, also for the workers of two ranks that send bytes."""

        def check(x: Tensor) -> None:
            count, d = x.shape[1:]
            ours, theirs = (0, 1, 2)[:count], (3, 4, 5)[:count]
            here, there = WORKERS._replace(workers=ours), WORKERS._replace(workers=theirs)
            sent = compressor.encode(x, here)
            assert_same(compressor.decode(sent, d), compressor(x, here), "decode(encode(x)) and C(x)")
            both = torch.cat([to_bytes(sent, 2), to_bytes(compressor.encode(x, there), 2)], 1)
            together = compressor(torch.cat([x, x], 1), WORKERS._replace(workers=ours + theirs))
            assert_same(compressor.decode(from_bytes(both, sent, 2), d), together, "what arrives and C(x)")

        check_inputs(compressor, check, sizes(compressor))

    def test_is_cut_into_shards(self, compressor: Compressor) -> None:
        """If `Shardable`, encode_shard() on each of two shards is cut() of the whole payload, bit for bit."""
        if not isinstance(compressor, Shardable):
            pytest.skip("it is not Shardable")
        for d in sizes(compressor):
            places = compressor.cut_points(d)
            for name, x in vectors(d).items() if places else ():
                ends, key = (0, places[len(places) // 2], d), WORKERS._replace(workers=(0, 1, 2)[: x.shape[1]])
                whole = compressor.encode(x, key)
                for number, payload in enumerate(encode_shards(compressor, x, ends, key)):
                    cut = compressor.cut(whole, Shard(ends, number))
                    with note_input(f"{name} vectors, d = {d}, coordinates {ends[number]} to {ends[number + 1]}"):
                        assert_same(payload, cut, "encode_shard() and cut() of the whole")

    def test_agrees_on_what_is_not_finite(self, compressor: Compressor) -> None:
        """decode(encode(x)) is C(x) for vectors with ∞, −∞ or NaN, and payloads keep their form."""
        d = middle_size(compressor)
        usual = vectors(d)["random"][:1]
        form = [(part.shape, part.dtype) for part in tensors(compressor.encode(usual, WORKERS))]
        for bad in (torch.inf, -torch.inf, torch.nan):
            for where in ([0], [d - 1], range(d)):
                with note_input(f"{bad} in {len(where)} of {d} coordinates"):
                    x = usual.index_fill(-1, torch.tensor(where), bad)
                    sent, expected = compressor.encode(x, WORKERS), compressor(x, WORKERS)
                    seen = compressor.decode(sent, d)
                    assert_same(seen.isnan(), expected.isnan(), "NaN in decode(encode(x)) and C(x)")
                    seen, expected = (y.masked_fill(expected.isnan(), 0) for y in (seen, expected))
                    assert_same(seen, expected, "decode(encode(x)) and C(x)")
                    assert [(part.shape, part.dtype) for part in tensors(sent)] == form, "a message of another size"

    def test_takes_vectors_apart(self, compressor: Compressor) -> None:
        """C(x) is the same in a batch and alone."""

        def check(x: Tensor) -> None:
            workers, server = compressor(x, WORKERS), compressor(x[:, 0], SERVER)
            for trial in range(len(x)):
                assert_same(compressor(x[trial, 0], SERVER), server[trial], "C(x) alone and in [T, d]")
                worker = trial % x.shape[1]
                alone = compressor(x[trial, worker, None], WORKERS._replace(workers=(worker,)))
                assert_same(alone[0], workers[trial, worker], "C(x) alone and in [T, W, d]")

        check_inputs(compressor, check)

    def test_sends_tensors(self, compressor: Compressor) -> None:
        """A payload is a named tuple of tensors with the leading axes of x, alike for every x of d coordinates."""

        def check(x: Tensor) -> None:
            forms = []
            for trial in range(len(x)):
                payload = compressor.encode(x[trial, None], WORKERS)
                assert isinstance(payload, tuple), f"expected a tuple of tensors, saw {type(payload).__name__}"
                forms.append([(list(part.shape), part.dtype) for part in tensors(payload)])
                lead = [1, x.shape[1]]
                kept = all(shape[:2] == lead for shape, _ in forms[-1])
                assert kept, f"expected leading axes {lead}, saw {forms[-1]}"
                assert forms[-1] == forms[0], f"expected {forms[0]} as for other vectors, saw {forms[-1]}"

        check_inputs(compressor, check, [middle_size(compressor)])

    def test_counts_its_bits(self, compressor: Compressor) -> None:
        """bits(d) is the size of the payload, with 32 bits for a float, without padding of the last byte."""
        for d in sizes(compressor):
            for dtype in DTYPES:
                with note_input(f"d = {d}, {dtype}"):
                    payload = compressor.encode(torch.zeros(d, dtype=dtype), MessageKey.none())
                    assert_bits(compressor.bits(d), payload, dtype)

    def test_is_a_function(self, compressor: Compressor) -> None:
        """C(x) is the same at every call with the same key, and neither x nor a payload is changed in place."""

        def check(x: Tensor) -> None:
            own, others = (x, WORKERS), (3 * x + 1, WORKERS._replace(round=9))
            assert_pure(compressor, own, others)
            assert_pure(compressor.encode, own, others)
            first, second = ((compressor.encode(*arguments), x.shape[-1]) for arguments in (own, others))
            assert_pure(compressor.decode, first, second)

        check_inputs(compressor, check)

    def test_draws_apart(self, compressor: Compressor) -> None:
        """A random C(x) is drawn anew for every seed, direction, round and worker."""
        if not is_random(compressor):
            pytest.skip("it is not random")
        up = [MessageKey(0, "up", t, (0,)) for t in range(1, 17)]
        seeds = [MessageKey(k, "up", 1, (0,)) for k in range(16)]
        workers = [MessageKey(0, "up", 1, (k,)) for k in range(16)]
        for name, keys in {"rounds": up, "seeds": seeds, "workers": workers}.items():
            assert len(draws(compressor, keys)) > 1, f"expected different draws for 16 {name}, saw one alone"
        alike = draws(compressor, up) == draws(compressor, [key._replace(direction="down") for key in up])
        assert not alike, "expected different draws up and down, saw the same in 16 rounds"

    def test_contracts(self, compressor: Compressor) -> None:
        """If `contractive`, E‖C(x) − x‖² ≤ (1 − π)‖x‖² with π = pi(d), or with π = 10⁻⁶ if that is not known."""
        assert isinstance(compressor.contractive, bool), f"contractive is {compressor.contractive}: True or False"
        if not compressor.contractive:
            pytest.skip("it does not say so")
        random = is_random(compressor)
        for d in [middle_size(compressor)] if random else sizes(compressor):
            pi = 1e-6
            with suppress(ValueError):
                pi = compressor.pi(d)
            assert 0 < pi <= 1, f"expected 0 < pi({d}) ≤ 1, saw {pi}"
            for drawing in draw_compressed(compressor, d, DRAWS if random else 1):
                assert_error("1 − π", 1 - pi, *drawing)

    def test_is_unbiased(self, compressor: Compressor) -> None:
        """If `unbiased`, E C(x) = x and E‖C(x) − x‖² ≤ omega(d)‖x‖², up to five standard errors over 4000 draws."""
        assert isinstance(compressor.unbiased, bool), f"unbiased is {compressor.unbiased}: True or False"
        if not compressor.unbiased:
            pytest.skip("it does not say so")
        omega = float("inf")
        with suppress(ValueError):
            omega = compressor.omega(middle_size(compressor))
        for name, x, drawn in draw_compressed(compressor, middle_size(compressor), DRAWS):
            assert_error("ω", omega, name, x, drawn)
            room = uncertainty(drawn - x) + 1e-9 * x.abs()
            for j in ((drawn.mean(0) - x).abs() > room).nonzero().flatten().tolist():
                seen = f"saw {drawn[:, j].mean():.4g}, for {name} vectors, d = {len(x)}"
                raise AssertionError(f"expected {x[j]:.4g} (± {room[j]:.2g}) in the mean of coordinate {j}, {seen}")


@dataclass(frozen=True, eq=False)
class ThreadShard(Shard):
    """A thread's shard, which exchanges tensors with the other shards' threads."""

    barrier: Barrier
    sent: dict[int, Tensor] = field(default_factory=dict)

    def all_gather(self, mine: Tensor, counts: Sequence[int]) -> list[Tensor]:
        self.sent[self.number] = mine
        self.barrier.wait(20)  # seconds, because others may have failed
        everything = [self.sent[number] for number in range(len(self.cuts) - 1)]
        self.barrier.wait(20)
        return everything


def encode_shards(compressor: Shardable, x: Tensor, cuts: tuple[int, ...], key: MessageKey) -> list[Payload]:
    """Encode every shard of x [..., d], each in a thread that has only this shard."""
    first = ThreadShard(cuts, 0, Barrier(len(cuts) - 1))
    shards = [replace(first, number=number) for number in range(len(cuts) - 1)]
    with ThreadPoolExecutor(len(shards)) as threads:
        own = (x[..., shard.begin : shard.end].clone() for shard in shards)
        return list(threads.map(partial(_encode_or_abort, compressor, key), own, shards))


def _encode_or_abort(compressor: Shardable, key: MessageKey, x: Tensor, shard: ThreadShard) -> Payload:
    try:
        return compressor.encode_shard(x, shard, key)
    except BrokenBarrierError as error:
        raise AssertionError("encode_shard() failed on another shard, or asked for less there") from error
    except Exception:
        shard.barrier.abort()  # or the other shards would wait
        raise


@cache
def vectors(d: int) -> dict[str, Tensor]:
    """Return float64 batches [T, 3, d] that compressors get wrong, by name; for a large d [1, 1, d], random.

    The squares of huge and tiny ones are outside float32's range.
    """
    random = torch.Generator().manual_seed(d)
    normal = torch.randn(2, 3, d, dtype=torch.float64, generator=random)
    if d > 300:
        return {"random": normal[:1, :1]}
    first = normal[:1]
    return {
        "random": normal,
        "sparse": first * (torch.rand(1, 3, d, generator=random) < 0.1),
        "one-coordinate": torch.where(torch.arange(d) == d // 3, -2.5, 0.0).double().expand_as(first),
        "spike": torch.where(torch.arange(d) == 0, 1.0, 1 / (1 + d**0.5)).double().expand_as(first),
        "constant": torch.full_like(first, -0.7),
        "equal-magnitude": first.sign(),
        "heavy-tailed": first.sign() * first.abs().exp() ** 3,
        "huge": first * 1e25,
        "tiny": first * 1e-25,
        "zero": torch.zeros_like(first),
        "negative-zero": torch.full_like(first, -0.0),
    }


def check_inputs(compressor: Compressor, check: Callable[[Tensor], None], among: Iterable[int] = ()) -> None:
    """Call `check` with x [T, W, d], a trial per kind of vector, for each dtype and each d up to 300 or in `among`.

    If it fails, it is called again with each kind alone, to name the one at fault.
    """
    every = sizes(compressor)
    for d in among or [d for d in every if d <= 300] or every:
        for dtype in DTYPES if d <= 300 else DTYPES[:1]:
            kinds = {name: x.to(dtype) for name, x in vectors(d).items()}
            together = torch.cat(list(kinds.values()))
            try:
                check(together)
            except Exception:
                for name, x in {**kinds, "all kinds of": together}.items():
                    with note_input(f"{name} vectors, d = {d}, {dtype}"):
                        check(x)


@cache
def sizes(compressor: Compressor) -> list[int]:
    """Return the numbers of coordinates to test, ascending: all accepted SIZES, or else the least accepted number."""
    accepted = []
    for d in (*SIZES, *range(2, 4096)):
        if accepted and d not in SIZES:
            break
        with suppress(ValueError):
            compressor.check(d)
            accepted.append(d)
    assert accepted, "expected a d below 4096 that check(d) accepts, saw none"
    return accepted


def middle_size(compressor: Compressor) -> int:
    """Return the number of coordinates for tests with many calls: the largest up to 37."""
    return max((d for d in sizes(compressor) if d <= 37), default=sizes(compressor)[0])


def draws(compressor: Compressor, keys: list[MessageKey]) -> set[tuple]:
    """Return the different C(x) of a random x under these keys."""
    x = vectors(middle_size(compressor))["random"][0, :1]
    return {tuple(compressor(x, key).flatten().tolist()) for key in keys}


@cache
def is_random(compressor: Compressor) -> bool:
    """Whether anything in a key makes a difference."""
    keys = [MessageKey(k, way, k + 1, (k,)) for k in range(16) for way in ("up", "down")]
    return len(draws(compressor, keys)) > 1


def draw_compressed(compressor: Compressor, d: int, count: int) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Yield a vector x [d] of every kind but zero, with its name, and `count` draws of C(x) [count, d]."""
    rows = {name: batch.flatten(0, 1) for name, batch in vectors(d).items()}
    nonzero = {name: batch[batch.any(-1)][0] for name, batch in rows.items() if batch.any()}
    x = torch.stack(list(nonzero.values()))
    drawn = compressor(x.unsqueeze(1).repeat(1, count, 1), MessageKey(0, "up", 1, tuple(range(count))))
    yield from zip(nonzero, x, drawn, strict=True)


def assert_error(what: str, most: float, name: str, x: Tensor, drawn: Tensor) -> None:
    """Assert that the mean of ‖C(x) − x‖² over draws of C(x) [n, d] is at most `most` times ‖x‖²."""
    errors = (drawn - x).square().sum(-1) / x.square().sum()
    room = float(uncertainty(errors)) if len(drawn) > 1 else 1e-9
    wanted, seen = f"at most {what} = {most:.7g} (± {room:.2g}) times ‖x‖²", f"{errors.mean():.7g}"
    assert errors.mean() <= most + room, f"expected {wanted}, saw {seen}, for {name} vectors, d = {len(x)}"


def uncertainty(drawn: Tensor) -> Tensor:
    """Bound the error of the mean over draws [n, …]: five standard errors, and a part for rare draws.

    Values drawn less than 25 times have no reliable standard error. They count as no larger than the largest draw.
    """
    return 5 * drawn.std(0) / len(drawn) ** 0.5 + 25 * drawn.abs().max() / len(drawn)
