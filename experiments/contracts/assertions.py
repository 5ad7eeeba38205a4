"""Assertions of the contract tests on tensors and payloads, and notes on the input."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import is_dataclass
from typing import Any

import torch
from torch import Tensor

from algorithms.compressors import Payload, tensors


@contextmanager
def note_input(what: str) -> Iterator[None]:
    """Add the input to errors in the with-block."""
    try:
        yield
    except Exception as error:
        error.add_note(f"for {what}")
        raise


def assert_close(actual: Any, wanted: Any, rtol: float, what: str) -> None:
    """Assert that tensors of two states or payloads have equal forms, and numbers up to `rtol` times the largest."""
    actuals = tensors_in(actual)
    for name, tensor in tensors_in(wanted).items():
        where = f"{what}: {name}" if name else what
        room = rtol * float(tensor.abs().max()) if rtol and tensor.numel() else 0.0
        seen = actuals[name]
        same_form = (seen.shape, seen.dtype, seen.device) == (tensor.shape, tensor.dtype, tensor.device)
        if not same_form or not torch.equal(seen, tensor):  # assert_close imports for half a second
            torch.testing.assert_close(seen, tensor, rtol=0, atol=room, msg=lambda text, at=where: f"{at}: {text}")
        signs = rtol or torch.equal(seen.signbit(), tensor.signbit())
        assert signs, f"{where}: zeros of the other sign"


def assert_same(actual: Any, wanted: Any, what: str) -> None:
    """Assert that all tensors of two states or payloads have the same shape, dtype and bits, signs of zeros too."""
    assert_close(actual, wanted, 0, what)


def assert_form(tensor: Tensor, shape: tuple[int, ...], dtype: torch.dtype, what: str) -> None:
    """Assert that a tensor has this shape and dtype, and only finite numbers."""
    wanted, seen = f"{list(shape)}, {dtype}", f"{list(tensor.shape)}, {tensor.dtype}"
    assert seen == wanted, f"{what}: expected {wanted}, saw {seen}"
    assert tensor.isfinite().all(), f"{what}: expected finite numbers, saw {tensor[~tensor.isfinite()][0].item()}"


def assert_bits(bits: object, payload: Payload, dtype: torch.dtype) -> None:
    """Assert the bits of one message: the size of its tensors, or up to 7 bits less for each tensor of packed bytes.

    Numbers in the run's dtype count 32 bits each.
    """
    parts = list(tensors(payload))
    most = sum(32 * part.numel() if part.dtype == dtype else 8 * part.nbytes for part in parts)
    least = most - 7 * sum(part.dtype == torch.uint8 and part.numel() > 0 for part in parts)
    held = " and ".join(f"{str(part.dtype).removeprefix('torch.')} {list(part.shape)}" for part in parts)
    fits = type(bits) is int and least <= bits <= most
    assert fits, f"expected {least} to {most} bits for a payload of {held}, saw {bits!r}"


def assert_pure(function: Callable[..., object], arguments: tuple, others: tuple) -> None:
    """Assert that results are the same after other calls, and that neither arguments nor results change in place."""
    before = deepcopy(arguments)
    first = function(*arguments)
    kept = deepcopy(first)
    function(*others)
    assert_same(arguments, before, "its arguments, later and before")
    assert_same(first, kept, "its result, later and at first")
    assert_same(function(*arguments), kept, "its second result and the first")


def assert_typed(function: Callable[..., object], *wanted: str) -> None:
    """Assert that all parameters have annotations, which check configurations, and that `wanted` are among them."""
    known = inspect.signature(function).parameters
    bare = [name for name, parameter in known.items() if parameter.annotation is parameter.empty]
    assert not bare, f"expected annotations, saw none at {', '.join(bare)}"
    assert set(wanted) <= set(known), f"expected parameters {', '.join(wanted)}, saw {', '.join(known)}"


def tensors_in(part: Any, name: str = "") -> dict[str, Tensor]:
    """Return the tensors in nested states, payloads and results, by the path to them."""
    if isinstance(part, Tensor):
        return {name: part}
    if is_dataclass(part):
        part = vars(part)
    elif isinstance(part, tuple):
        part = dict(zip(getattr(part, "_fields", range(len(part))), part, strict=True))
    below = part.items() if isinstance(part, dict) else ()
    return {p: t for key, value in below for p, t in tensors_in(value, f"{name}.{key}".lstrip(".")).items()}
