"""Vectors shortened to a longest norm."""

from torch import Tensor

from ..compressors.shard import whole

_MARGIN = 1e-6


def check_clip(most: float | None, name: str) -> None:
    """Raise ValueError unless `most` is positive or None."""
    if most is not None and not most > 0:
        raise ValueError(f"{name}={most}: a norm above 0, or null for no clipping")


def clipped(vectors: Tensor, most: float | None, norm: Tensor | None = None) -> Tensor:
    """u ← u·min(1, c/(‖u‖₂ + 10⁻⁶)) for every vector of [..., d], each by its own norm; themselves where c is None.

    norm [..., 1]: instead of their own norms, for vectors that are parts of longer ones.

    The 10⁻⁶ is that of `torch.nn.utils.clip_grad_norm_`, so that both give the same vector (but for rounding: torch
    sums the squares tensor by tensor).
    """
    if most is None:
        return vectors
    norm = whole(vectors.shape[-1]).norm(vectors) if norm is None else norm
    return vectors * (most / (norm + _MARGIN)).clamp(max=1.0)
