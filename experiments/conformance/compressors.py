"""What every compressor keeps."""

from __future__ import annotations

import copy
from contextlib import suppress

import torch
from torch import Tensor

from algorithms.compressors import Compressor, tensors
from algorithms.randomness import Key
from algorithms.wire import from_bytes, to_bytes
from experiments.conformance.findings import Violation, demand, expect, expect_same, given
from experiments.conformance.payloads import expect_bits, expect_payload
from experiments.conformance.vectors import (
    DRAWS,
    DTYPES,
    SERVER,
    WORKERS,
    is_random,
    middle,
    on_every_vector,
    outcomes,
    sizes,
    uncertainty,
    vectors,
)

_ROUNDING = 1e-9
_SOME = 1e-6  # the π that is asked of a compressor which states none


def check_compressor(compressor: Compressor) -> None:
    """Raise Violation with every promise of a compressor (algorithms/compressors/base.py) that this one breaks."""
    demand(CHECKS, compressor)


def has_a_name(compressor: Compressor) -> None:
    """It is hashable, and its repr tells its options, as a frozen dataclass's does."""
    hash(compressor)
    expect(repr(copy.deepcopy(compressor)) == repr(compressor), "the same repr for a copy", repr(compressor))


@on_every_vector
def keeps_shape_and_dtype(compressor: Compressor, x: Tensor) -> None:
    """C(x) has the shape and dtype of x [T, W, d], [T, d] or [d], and is finite."""
    for part, key in ((x, WORKERS), (x[:, 0], SERVER), (x[0, 0], SERVER)):
        y = compressor(part, key)
        expect(y.shape == part.shape, f"C(x) of shape {list(part.shape)}", list(y.shape))
        expect(y.dtype == part.dtype, f"C(x) of {part.dtype}", y.dtype)
        expect(y.isfinite().all(), "finite numbers", y[~y.isfinite()][:1].tolist())


@on_every_vector
def decodes_c_of_x(compressor: Compressor, x: Tensor) -> None:
    """decode(encode(x)) is C(x), bit for bit."""
    decoded = compressor.decode(compressor.encode(x, WORKERS), x.shape[-1])
    expect_same(decoded, compressor(x, WORKERS), "decode(encode(x)) to be C(x)")


def keeps_zero(compressor: Compressor) -> None:
    """C(0) = 0."""
    for d in sizes(compressor):
        with given(f"d = {d}"):
            y = compressor(torch.zeros(2, 3, d), WORKERS)
            expect((y == 0).all(), "zeros", f"{y[0, 0, :3].tolist()}…")


@on_every_vector
def takes_vectors_apart(compressor: Compressor, x: Tensor) -> None:
    """A vector is compressed in a batch as it is alone."""
    workers, server = compressor(x, WORKERS), compressor(x[:, 0], SERVER)
    for trial in range(len(x)):
        expect_same(compressor(x[trial, 0], SERVER), server[trial], f"C(x[{trial}]) alone as in [T, d]")
        for worker in range(x.shape[1]):
            alone = compressor(x[trial, worker, None], WORKERS._replace(workers=(worker,)))
            expect_same(alone[0], workers[trial, worker], f"C(x[{trial}, {worker}]) alone as in [T, W, d]")


def sends_tensors(compressor: Compressor) -> None:
    """A payload is a named tuple of tensors with the leading axes of x, alike for every x of d coordinates."""
    for d in sizes(compressor):
        for dtype in DTYPES:
            forms = set()
            for name, x in vectors(d).items():
                with given(f"{name} vectors, d = {d}, {dtype}"):
                    payload = compressor.encode(x.to(dtype), WORKERS)
                    expect_payload(payload, x.shape[:-1])
                    forms.add(tuple((tuple(part.shape), part.dtype) for part in tensors(payload)))
                    expect(len(forms) == 1, "the shapes and dtypes of other vectors", sorted(map(str, forms)))


@on_every_vector
def crosses_the_wire(compressor: Compressor, x: Tensor) -> None:
    """What two ranks send as bytes decodes to C(x) for the workers of both."""
    together = compressor(torch.cat([x, x], 1), WORKERS._replace(workers=tuple(range(6))))
    payloads = [compressor.encode(x, WORKERS._replace(workers=ids)) for ids in ((0, 1, 2), (3, 4, 5))]
    arrived = from_bytes(torch.cat([to_bytes(payload, 2) for payload in payloads], 1), payloads[0], 2)
    expect_same(compressor.decode(arrived, x.shape[-1]), together, "what arrives to be C(x)")


def counts_its_bits(compressor: Compressor) -> None:
    """bits(d) is what the payload holds, a float counted as 32 bits, but for padding of the last byte."""
    for d in sizes(compressor):
        for dtype in DTYPES:
            with given(f"d = {d}, {dtype}"):
                payload = compressor.encode(torch.zeros(d, dtype=dtype), Key.none())
                expect_bits(compressor.bits(d), payload, dtype)


@on_every_vector
def leaves_its_input(compressor: Compressor, x: Tensor) -> None:
    """Neither x nor a payload is changed in place."""
    before = x.clone()
    compressor(x, WORKERS)
    expect_same(x, before, "x as it was before C(x)")
    payload = compressor.encode(x, WORKERS)
    expect_same(x, before, "x as it was before encode(x)")
    content = to_bytes(payload, 2)
    compressor.decode(payload, x.shape[-1])
    expect_same(to_bytes(payload, 2), content, "the payload's bytes as before decode")


@on_every_vector
def depends_on_its_key_alone(compressor: Compressor, x: Tensor) -> None:
    """C(x) is the same at every call with the same key, whatever was compressed in between."""
    first = compressor(x, WORKERS).clone()
    compressor(3 * x + 1, WORKERS._replace(round=9))
    expect_same(compressor(x, WORKERS), first, "C(x) as at the first call")


def draws_apart(compressor: Compressor) -> str | None:
    """A random C(x) is drawn anew for every seed, direction, round and worker."""
    if not is_random(compressor):
        return "it is not random"
    d = max(sizes(compressor))
    x = vectors(d)["random"][0, :1]
    start = Key(0, "up", 1, (0,))
    ways = {
        "seeds": [start._replace(seed=k) for k in range(16)],
        "rounds": [start._replace(round=k) for k in range(1, 17)],
        "workers": [start._replace(workers=(k,)) for k in range(16)],
    }
    with given(f"one and the same vector, d = {d}"):
        for what, keys in ways.items():
            drawn = {tuple(compressor(x, key).flatten().tolist()) for key in keys}
            expect(len(drawn) > 1, f"different draws for 16 {what}", "the same 16 times")
        up, down = (
            [compressor(x, key._replace(direction=way)).tolist() for key in ways["rounds"]] for way in ("up", "down")
        )
        expect(up != down, "different draws up and down", "the same in 16 rounds")
    return None


def contracts(compressor: Compressor) -> str | None:
    """If `contractive`, E‖C(x) − x‖² ≤ (1 − π)‖x‖² with π = pi(d), or with π = 10⁻⁶ where that is not known."""
    expect(isinstance(compressor.contractive, bool), "contractive to be True or False", compressor.contractive)
    if not compressor.contractive:
        return "it does not say so"
    random = is_random(compressor)
    for d in [middle(compressor)] if random else sizes(compressor):
        pi = _SOME
        with suppress(ValueError):
            pi = compressor.pi(d)
        expect(0 < pi <= 1, f"0 < pi({d}) ≤ 1", pi)
        for name, (x, drawn) in outcomes(compressor, d, DRAWS if random else 1).items():
            with given(f"{name} vectors, d = {d}"):
                errors = (drawn - x).square().sum(-1) / x.square().sum()
                room = float(uncertainty(errors)) if random else _ROUNDING
                wanted = f"‖C(x) − x‖²/‖x‖² of at most 1 − π = {1 - pi:.7g} (± {room:.2g})"
                expect(errors.mean() <= 1 - pi + room, wanted, f"{errors.mean():.7g}")
    return None


def is_unbiased(compressor: Compressor) -> str | None:
    """If `unbiased`, E C(x) = x, up to five standard errors over 4000 draws."""
    expect(isinstance(compressor.unbiased, bool), "unbiased to be True or False", compressor.unbiased)
    if not compressor.unbiased:
        return "it does not say so"
    d = middle(compressor)
    for name, (x, drawn) in outcomes(compressor, d, DRAWS).items():
        with given(f"{name} vectors, d = {d}"):
            mean, room = drawn.mean(0), uncertainty(drawn - x) + _ROUNDING * x.abs()
            off = ((mean - x).abs() > room).nonzero().flatten()
            if len(off):
                j = int(off[0])
                wanted = f"coordinate {j} of C(x) to be {x[j]:.4g} (± {room[j]:.2g}) in the mean"
                raise Violation(f"expected {wanted}, saw {mean[j]:.4g}, and {len(off) - 1} more that are off")
    return None


CHECKS = (
    has_a_name,
    keeps_shape_and_dtype,
    decodes_c_of_x,
    keeps_zero,
    takes_vectors_apart,
    sends_tensors,
    crosses_the_wire,
    counts_its_bits,
    leaves_its_input,
    depends_on_its_key_alone,
    draws_apart,
    contracts,
    is_unbiased,
)
"""In the order in which they are reported: what the later ones rely on comes first."""
