"""Quantizers: values against plain loops, error bounds, and what is random about the random ones."""

import math

import pytest
import torch
from reference import quantizers as plain

from algorithms.compressors import LogQuantize, MinMaxUint8, Natural, Qsgd, UniformQuantize
from algorithms.compressors.packing import pack_codes, unpack_codes
from algorithms.utils.seeding import MessageKey

D = 37
SERVER = MessageKey(seed=3, direction="down", round=5)
DETERMINISTIC = [MinMaxUint8(), *(LogQuantize(b) for b in (2, 3, 8)), *(UniformQuantize(b) for b in (2, 5, 16))]
QUANTIZERS = [*DETERMINISTIC, Qsgd(1), Qsgd(), Qsgd(32767), Natural()]
every_quantizer = pytest.mark.parametrize("compressor", QUANTIZERS, ids=str)


def _vectors() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    normal = torch.randn(D, dtype=torch.float64, generator=generator)
    one = torch.zeros(D, dtype=torch.float64)
    one[5] = -2.5
    return {
        "random": normal,
        "sparse": normal * (torch.arange(D) % 7 == 0),
        "one coordinate": one,
        "constant": torch.full_like(normal, -0.7),
        "ones": torch.ones_like(normal),
        "zero": torch.zeros_like(normal),
        "negative zero": torch.full_like(normal, -0.0),
        "huge": normal * 1e30,
        "tiny": normal * 1e-30,
        "shifted": 1000 + normal,
        "small range": 1e-9 * normal,
        "heavy tailed": normal.sign() * normal.abs().exp() ** 3,
        "ties": torch.arange(-18, 19, dtype=torch.float64) / 16,
        "powers": 2.0 ** torch.arange(-18, 19, dtype=torch.float64),
    }


VECTORS = _vectors()
every_vector = pytest.mark.parametrize("x", VECTORS.values(), ids=VECTORS)


def _uniform(key: MessageKey, d: int) -> list[float]:
    """The numbers that the one message of a key is rounded with."""
    generator = torch.Generator().manual_seed(key.seeds().item())
    return torch.rand(d, dtype=torch.float64, generator=generator).tolist()


def _plain(compressor, x: torch.Tensor) -> torch.Tensor:
    values = x.tolist()
    out = {
        MinMaxUint8: lambda: plain.min_max_uint8(values),
        LogQuantize: lambda: plain.log_quantize(values, compressor.width),
        UniformQuantize: lambda: plain.uniform_quantize(values, compressor.width),
        Qsgd: lambda: plain.qsgd(values, compressor.levels, _uniform(SERVER, len(values))),
        Natural: lambda: plain.natural(values, _uniform(SERVER, len(values))),
    }[type(compressor)]()
    return torch.tensor(out, dtype=x.dtype)


@every_vector
@every_quantizer
def test_values_equal_the_plain_loops(compressor, x):
    torch.testing.assert_close(compressor(x, SERVER), _plain(compressor, x), rtol=1e-13, atol=0)


def test_min_max_codes():
    payload = MinMaxUint8().encode(torch.tensor([-1.0, 0.0, 0.25, 1.0]))
    assert payload.codes.tolist() == [0, 127, 159, 255]  # S = 127.5 − 6·10⁻⁶, U = 127, L = −128: −1·S rounds to −127
    ones = torch.ones(D)  # where float32 cannot count the levels, Bagua's kernel wraps 256 to 0
    payload = MinMaxUint8().encode(ones)
    assert payload.codes.tolist() == [255] * D
    torch.testing.assert_close(MinMaxUint8().decode(payload, D), ones)


def test_log_quantize_by_hand():
    x = torch.tensor([4.0, -3.0, 2.9, 1.5, -1.49, 0.5, 0.49, -0.5, 0.0])
    assert LogQuantize(3)(x).tolist() == [4, -4, 2, 2, -1, 1, 0, -1, 0]  # 3 = 4·3/4, 1.5 and 0.5 are ties
    assert LogQuantize(2)(x).tolist() == [4, -4, 4, 0, 0, 0, 0, 0, 0]
    assert LogQuantize(3).encode(x).codes.tolist() == [0b11000010, 0b11010101, 0b00011010, 0b01100000]


def _chances(compressor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The gap between the two values each coordinate may get, and the chance of the outer one."""
    if isinstance(compressor, Natural):
        gap = 2.0 ** x.abs().log2().floor().clamp(min=-126)
        return gap, torch.where(x.abs() < 2.0**-126, x.abs() / gap, x.abs() / gap - 1)
    level = x.abs() / x.norm() * compressor.levels
    return x.norm().expand_as(x) / compressor.levels, level - level.floor()


DRAWS = 4000


@pytest.mark.parametrize("name", ["sparse", "heavy tailed"])
@pytest.mark.parametrize("compressor", [Qsgd(1), Qsgd(), Natural()], ids=str)
def test_the_mean_is_x_and_the_variance_is_bounded(compressor, name):
    """Over 4000 draws, to 5 standard deviations of the mean."""
    x = VECTORS[name].masked_fill(VECTORS[name] == 0, 1e-3)
    draws = compressor(x.expand(DRAWS, D), MessageKey(0, "up", 1, tuple(range(DRAWS))))
    gap, chance = _chances(compressor, x)
    variance = gap**2 * chance * (1 - chance)
    assert ((draws.mean(0) - x).abs() <= 5 * (variance / DRAWS).sqrt() + 1e-12 * x.norm()).all()
    errors = (draws - x).square().sum(-1)
    assert (errors.mean() - variance.sum()).abs() <= 5 * errors.std() / math.sqrt(DRAWS) + 1e-12 * x.norm() ** 2
    s = getattr(compressor, "levels", None)
    bound = 1 / 8 if s is None else min(D / s**2, math.sqrt(D) / s)
    assert variance.sum() <= bound * x.square().sum()


def test_natural_at_the_ends_of_float32():
    smallest, largest = 2.0**-126, 2.0**127
    x = torch.tensor([smallest / 4, -smallest / 4, smallest, largest, 1.5 * largest, -1e200], dtype=torch.float64)
    draws = Natural()(x.expand(DRAWS, 6), MessageKey(0, "up", 1, tuple(range(DRAWS))))
    assert set(draws[:, :2].abs().flatten().tolist()) == {0.0, smallest}
    assert (draws[:, 0] / smallest).mean().item() == pytest.approx(1 / 4, abs=5 * math.sqrt(3 / 16 / DRAWS))
    assert (draws[:, 2:] == torch.tensor([smallest, largest, largest, -largest])).all()
    assert torch.equal(Natural()(x[2:4].float(), SERVER), x[2:4].float())


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("compressor", [MinMaxUint8(), LogQuantize(), UniformQuantize(), Qsgd(), Natural()], ids=str)
def test_what_is_not_finite_shows(compressor, bad):
    x = torch.randn(9)
    x[3] = bad
    assert not compressor.decode(compressor.encode(x, SERVER), 9).isfinite().all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: UniformQuantize(1), "bits=1: uniform_quantize takes 2 to 16 bits"),
        (lambda: UniformQuantize(17), "bits=17"),
        (lambda: LogQuantize(bits=1), "bits=1: log_quantize takes 2 to 8 bits"),
        (lambda: Qsgd(0), "levels=0: qsgd"),
        (lambda: Qsgd(32768), "levels=32768"),
        (lambda: pack_codes(torch.zeros(3, dtype=torch.uint8), 0), "bits=0"),
        (lambda: unpack_codes(torch.zeros(3, dtype=torch.uint8), 32, 1), "bits=32"),
    ],
)
def test_nonsense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("bits", [1, 2, 3, 7, 8, 9, 16])
@pytest.mark.parametrize("d", [1, 9, 300])
def test_packed_codes_are_their_binary_digits_in_a_row(bits, d):
    codes = torch.randint(0, 2**bits, (3, 2, d), generator=torch.Generator().manual_seed(bits))
    codes[0, 0] = 2**bits - 1
    packed = pack_codes(codes, bits)
    assert packed.dtype == torch.uint8
    assert packed.shape == (3, 2, -(-bits * d // 8))
    digits = "".join(f"{code:0{bits}b}" for code in codes[2, 1].tolist())
    digits += "0" * (-len(digits) % 8)
    assert packed[2, 1].tolist() == [int(digits[k : k + 8], 2) for k in range(0, len(digits), 8)]
    assert torch.equal(unpack_codes(packed, bits, d).long(), codes)


@pytest.mark.parametrize(
    ("bits", "d", "dtype"), [(3, 2**16, torch.int16), (9, 2**16 + 1, torch.int64), (3, 2**17 + 11, torch.int64)]
)
def test_long_vectors_are_packed_like_short_ones(bits, d, dtype):
    codes = torch.randint(0, 2**bits, (2, d), dtype=dtype)
    packed = pack_codes(codes, bits)
    assert packed.shape == (2, -(-bits * d // 8))
    assert torch.equal(unpack_codes(packed, bits, d).to(dtype), codes)
    start = 2**16 - 16
    tail = pack_codes(codes[:, start:].contiguous(), bits)
    assert torch.equal(packed[:, start * bits // 8 :], tail)
