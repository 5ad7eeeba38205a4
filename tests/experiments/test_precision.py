"""Which precision `auto` stands for."""

from pathlib import Path

import pytest

from experiments.tasks import precision
from experiments.tasks.images import ImageClassification
from experiments.tasks.precision import resolved_precision

AMX = "processor\t: 0\nflags\t\t: fpu avx2 avx512f amx_bf16 amx_tile\n"
BF16 = "processor\t: 0\nflags\t\t: fpu avx2 avx512f avx512_bf16\n"
AVX512 = "processor\t: 0\nmodel name\t: amx_bf16\nflags\t\t: fpu avx2 avx512f avx512_vnni\n"


@pytest.mark.parametrize(
    ("flags", "isa", "expected"),
    [
        pytest.param(AMX, None, "bf16", id="amx"),
        pytest.param(BF16, None, "bf16", id="avx512_bf16"),
        pytest.param(BF16, "AVX512_CORE_BF16", "bf16", id="held down, not below"),
        pytest.param(AVX512, None, "float32", id="avx512"),
        pytest.param(AMX, "AVX2", "float32", id="amx held down"),
        pytest.param(BF16, "avx512_core_vnni", "float32", id="avx512_bf16 held down"),
        pytest.param(None, None, "float32", id="not linux"),
    ],
)
def test_auto_on_a_cpu(
    flags: str | None, isa: str | None, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cpuinfo"
    if flags is not None:
        file.write_text(flags)
    monkeypatch.setattr(precision, "CPUINFO", file)
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    if isa is not None:
        monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", isa)
    assert resolved_precision("auto", "cpu") == expected
    assert resolved_precision("auto", "cuda:1") == "bf16"
    assert resolved_precision("tf32", "cpu") == "tf32"  # what is chosen stays


def test_a_device_that_is_to_be_found_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert resolved_precision("auto", "auto") == "bf16"


def test_a_task_refuses_what_is_not_resolved() -> None:
    with pytest.raises(ValueError, match=r"precision=auto: .*resolved_precision"):
        ImageClassification.check_options(10, 1, 0.5, 0, None, 1, "auto")
