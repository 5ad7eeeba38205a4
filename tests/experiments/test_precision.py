"""Which precision `auto` stands for."""

import pytest

from experiments.tasks.images import ImageClassification
from experiments.tasks.precision import fast_precision


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


def test_a_task_refuses_what_is_not_resolved() -> None:
    with pytest.raises(ValueError, match=r"precision=auto: .*fast_precision"):
        ImageClassification.check_options(10, 1, 0.5, 0, None, 1, "auto")
