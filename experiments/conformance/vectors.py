"""What compressors are tried on."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import torch
from torch import Tensor

from algorithms.compressors import Compressor
from algorithms.randomness import Key
from experiments.conformance.findings import Check, expect, given

SIZES = (1, 2, 8, 37, 300)
"""Numbers of coordinates to try, of which a compressor may refuse some by its `check`."""

MOST = 4096
"""Where the search ends for a number of coordinates that a compressor takes, where it takes none of these."""

DRAWS = 4000
"""Messages over which expectations are estimated."""

DTYPES = (torch.float32, torch.float64)

WORKERS = Key(seed=1, direction="up", round=2, workers=(0, 1, 2))
SERVER = Key(seed=1, direction="down", round=2)


def vectors(d: int) -> dict[str, Tensor]:
    """float64 batches [2, 3, d] of every kind that compressors get wrong, by name, in memory of their own.

    The squares of huge and tiny ones are outside float32's range.
    """
    random = torch.Generator().manual_seed(d)
    normal = torch.randn(2, 3, d, dtype=torch.float64, generator=random)
    one = torch.zeros_like(normal)
    one[..., d // 3] = -2.5
    return {
        "random": normal,
        "sparse": normal * (torch.rand(2, 3, d, generator=random) < 0.1),
        "one-coordinate": one,
        "constant": torch.full_like(normal, -0.7),
        "equal-magnitude": normal.sign(),
        "heavy-tailed": normal.sign() * normal.abs().exp() ** 3,
        "huge": normal * 1e25,
        "tiny": normal * 1e-25,
        "zero": torch.zeros_like(normal),
        "negative-zero": torch.full_like(normal, -0.0),
    }


def on_every_vector(check: Callable[[Compressor, Tensor], None]) -> Check:
    """A check of a compressor, out of one of a compressor and a batch x [2, 3, d]."""

    @wraps(check)
    def every(compressor: Compressor) -> None:
        for d in sizes(compressor):
            for dtype in DTYPES:
                for name, x in vectors(d).items():
                    with given(f"{name} vectors, d = {d}, {dtype}"):
                        check(compressor, x.to(dtype))

    return every


def sizes(compressor: Compressor) -> list[int]:
    """The numbers of coordinates to try with a compressor, ascending. Raises Violation where it takes none."""
    found = [d for d in SIZES if _takes(compressor, d)] or [d for d in range(1, MOST) if _takes(compressor, d)][:1]
    expect(found, f"a d below {MOST} that check(d) accepts", "none")
    return found


def middle(compressor: Compressor) -> int:
    """One of them, for what takes many draws: the largest up to 37."""
    return max((d for d in sizes(compressor) if d <= 37), default=sizes(compressor)[0])


def is_random(compressor: Compressor) -> bool:
    """Whether anything in a key makes a difference."""
    x = vectors(max(sizes(compressor)))["random"][0, :1]
    keys = [Key(k, way, k + 1, (k,)) for k in range(16) for way in ("up", "down")]
    return len({tuple(compressor(x, key).flatten().tolist()) for key in keys}) > 1


def outcomes(compressor: Compressor, d: int, draws: int) -> dict[str, tuple[Tensor, Tensor]]:
    """x [d] and as many draws of C(x) [draws, d] for a vector of every kind but zero."""
    rows = {name: batch.flatten(0, 1) for name, batch in vectors(d).items()}
    some = {name: batch[batch.any(-1)][0] for name, batch in rows.items() if batch.any()}
    x = torch.stack(list(some.values()))
    drawn = compressor(x.unsqueeze(1).repeat(1, draws, 1), Key(0, "up", 1, tuple(range(draws))))
    return {name: (x[k], drawn[k]) for k, name in enumerate(some)}


def uncertainty(draws: Tensor) -> Tensor:
    """By how much the mean over draws [n, …] may be off: five standard errors, and what rare draws may hide.

    What happens less than 25 times in n draws has no reliable standard error, but is taken to be no larger than the
    largest that was drawn.
    """
    return 5 * draws.std(0) / len(draws) ** 0.5 + 25 * draws.abs().max() / len(draws)


def _takes(compressor: Compressor, d: int) -> bool:
    try:
        compressor.check(d)
    except ValueError:
        return False
    return True
