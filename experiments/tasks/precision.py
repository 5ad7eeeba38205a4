"""Which precision convolutions are fast in."""

import torch


def fast_precision(device: str) -> str:
    """What `precision=auto` stands for: `bf16` on GPUs and on CPUs with AVX-512-BF16 or AMX, `float32` elsewhere,
    where convolutions in bf16 take about ten times as long.

    device: `cpu`, `cuda` with or without a number, or `auto` for a GPU where there is one.
    """
    is_gpu = device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())
    is_fast = is_gpu or torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return "bf16" if is_fast else "float32"
