"""Which precision convolutions are fast in."""

import os
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")

_FAST = {"avx512_bf16", "amx_bf16"}
_WITHOUT = {"SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2", "AVX512_CORE", "AVX512_CORE_VNNI"}
"""Values of ONEDNN_MAX_CPU_ISA that keep oneDNN from these instructions."""


def resolved_precision(precision: str, device: str) -> str:
    """`precision` itself, but for `auto` what is fast: `bf16` on GPUs and on CPUs with AVX-512-BF16 or AMX, whose
    oneDNN is not held down, and `float32` elsewhere, where convolutions in bf16 take about ten times as long.

    device: `cpu`, `cuda` with or without a number, or `auto` for a GPU where there is one.
    """
    if precision != "auto":
        return precision
    if device == "auto":
        import torch  # here alone, because it takes a second

        device = "cuda" if torch.cuda.is_available() else "cpu"
    return "bf16" if device.startswith("cuda") or _is_fast_cpu() else "float32"


def _is_fast_cpu() -> bool:
    """By the flags that Linux lists; elsewhere it is not known, and taken not to be."""
    if os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper() in _WITHOUT:
        return False
    try:
        lines = CPUINFO.read_text().splitlines()
    except OSError:
        return False
    return any(not _FAST.isdisjoint(line.split()) for line in lines if line.startswith("flags"))
