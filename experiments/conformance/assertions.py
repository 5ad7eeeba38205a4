"""What the contract tests assert of tensors and payloads, and how they say for which input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from algorithms.compressors import Payload, tensors


@contextmanager
def given(what: str) -> Iterator[None]:
    """Add to whatever goes wrong inside for which input it did."""
    try:
        yield
    except Exception as error:
        error.add_note(f"for {what}")
        raise


def assert_close(actual: Tensor, wanted: Tensor, rtol: float, what: str) -> None:
    """Shape and dtype are equal, and numbers differ by at most `rtol` times the largest of the second tensor."""
    room = rtol * float(wanted.abs().max()) if rtol and wanted.numel() else 0.0
    torch.testing.assert_close(actual, wanted, rtol=0, atol=room, msg=lambda found: f"{what}: {found}")


def assert_same(actual: Tensor, wanted: Tensor, what: str) -> None:
    """Shape, dtype and every bit are equal, the sign of zeros included."""
    assert_close(actual, wanted, 0, what)
    assert torch.equal(actual.signbit(), wanted.signbit()), f"{what}: zeros of the other sign"


def assert_form(tensor: Tensor, shape: tuple[int, ...], dtype: torch.dtype, what: str) -> None:
    """A tensor has this shape and dtype, and finite numbers alone."""
    wanted, seen = f"{list(shape)}, {dtype}", f"{list(tensor.shape)}, {tensor.dtype}"
    assert seen == wanted, f"{what}: expected {wanted}, saw {seen}"
    assert tensor.isfinite().all(), f"{what}: expected finite numbers, saw {tensor[~tensor.isfinite()][0].item()}"


def assert_bits(bits: object, payload: Payload, dtype: torch.dtype) -> None:
    """These are the bits of one message: its tensors', or less by under a byte for each tensor of packed bytes.

    Numbers in the run's dtype count 32 bits each.
    """
    parts = list(tensors(payload))
    most = sum(32 * part.numel() if part.dtype == dtype else 8 * part.nbytes for part in parts)
    least = most - 7 * sum(part.dtype == torch.uint8 and part.numel() > 0 for part in parts)
    held = " and ".join(f"{str(part.dtype).removeprefix('torch.')} {list(part.shape)}" for part in parts)
    fits = type(bits) is int and least <= bits <= most
    assert fits, f"expected {least} to {most} bits for a payload of {held}, saw {bits!r}"
