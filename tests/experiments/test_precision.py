"""Which precision `auto` stands for."""

import pytest

from experiments.config.derived import fast_precision


@pytest.mark.parametrize(
    ("gpu", "cpu", "amx", "expected"),
    [
        (True, False, False, ("bf16", "float32", "bf16")),
        (False, False, False, ("float32", "float32", "bf16")),
        (False, True, False, ("bf16", "bf16", "bf16")),
        (False, False, True, ("bf16", "bf16", "bf16")),
    ],
)
def test_what_is_fast(
    gpu: bool, cpu: bool, amx: bool, expected: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: gpu)
    monkeypatch.setattr("torch.cpu._is_avx512_bf16_supported", lambda: cpu)
    monkeypatch.setattr("torch.cpu._is_amx_tile_supported", lambda: amx)
    assert tuple(map(fast_precision, ("auto", "cpu", "cuda:1"))) == expected
