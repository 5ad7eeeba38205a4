"""What a payload is, and how many bits it holds."""

from __future__ import annotations

import torch
from torch import Tensor

from algorithms.compressors import Payload, tensors
from experiments.conformance.findings import expect


def expect_payload(payload: Payload, lead: torch.Size) -> None:
    """Raise Violation unless it is a named tuple, or tuples of them, of tensors with the given leading axes."""
    expect(isinstance(payload, tuple), "a named tuple of tensors", type(payload).__name__)
    for place, part in enumerate(payload):
        name = payload._fields[place] if hasattr(payload, "_fields") else f"[{place}]"
        if isinstance(part, Tensor):
            expect(part.shape[: len(lead)] == lead, f"{name} of leading axes {list(lead)}", list(part.shape))
        else:
            expect_payload(part, lead)


def held_bits(payload: Payload, dtype: torch.dtype) -> tuple[int, int]:
    """The bits of one message: at most what its tensors hold, at least that without the last bytes' padding.

    Numbers in the run's dtype count 32 bits each; a tensor of bytes may be padded by up to seven bits.
    """
    parts = list(tensors(payload))
    most = sum(32 * part.numel() if part.dtype == dtype else 8 * part.nbytes for part in parts)
    return most - 7 * sum(part.dtype == torch.uint8 and part.numel() > 0 for part in parts), most


def expect_bits(bits: object, payload: Payload, dtype: torch.dtype) -> None:
    """Raise Violation unless these are the bits of one message."""
    least, most = held_bits(payload, dtype)
    held = " and ".join(f"{str(part.dtype).removeprefix('torch.')} {list(part.shape)}" for part in tensors(payload))
    wanted = f"{most}" if least == most else f"{least} to {most}"
    expect(type(bits) is int and least <= bits <= most, f"{wanted} bits for a payload of {held}", f"{bits!r}")
