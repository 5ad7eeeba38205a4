"""Several processes that each have a shard of a vector make, together, what one makes of the whole."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import yaml
from hydra.utils import get_object
from torch import Tensor

from algorithms.comm.sharded_server import cuts, exchange
from algorithms.compressors import (
    BinMeans,
    Blocks,
    ChunkTopK,
    Compressor,
    Dynamic4,
    Identity,
    Int4,
    LinfDither,
    LogQuantize,
    MinMaxUint8,
    Natural,
    Nf4,
    Nuqsgd,
    Qsgd,
    RandomK,
    ScaledSign,
    Shardable,
    Sign,
    SignMean,
    TopK,
    UniformQuantize,
    Unpacked,
    tensors,
)
from algorithms.compressors import shard as module
from algorithms.compressors.shard import Shard
from algorithms.core.algorithm import Algorithm
from algorithms.core.channels import Direct
from algorithms.core.update_rules import AMSGrad
from algorithms.methods.cd_adam import cd_adam
from algorithms.methods.quantized_adam import quantized_adam
from algorithms.utils.seeding import MessageKey
from experiments.config.compose import CONF
from experiments.contracts.test_compressor import encoded_apart

D = 200
SIZES = (1, 100, 3, 7, 89)
PLAIN: list[Shardable] = [
    *(Identity(), ScaledSign(), ScaledSign(norm="l2"), TopK(k=9), TopK(ratio=0.3), RandomK(k=30)),
    *(RandomK(k=30, unbiased=True), MinMaxUint8(), LogQuantize(), LogQuantize(bits=5), UniformQuantize(bits=12)),
    *(Nf4(10), Dynamic4(10), Qsgd(), Qsgd(levels=1), Natural(), Sign(), Sign(zero=True), SignMean(20)),
    *(Int4(10), LinfDither(10, levels=1), Nuqsgd(12), BinMeans(), ChunkTopK(3, 10), TopK(k=9, index_bits="packed")),
]
BLOCKWISE: list[Shardable] = [Blocks(one, SIZES) for one in (ScaledSign(), ScaledSign(norm="l2"), Qsgd(), Natural())]
BLOCKWISE += [Blocks(TopK(k=1), SIZES), Blocks(TopK(ratio=0.4), SIZES), Blocks(RandomK(ratio=0.4), SIZES)]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST", 16)


def vectors(dtype: torch.dtype = torch.float64) -> Tensor:
    """[2, 3, D]: of every size, with ties, zeros and a vector of nothing but zeros."""
    x = torch.randn(2, 3, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x[..., 20:60] *= 1e-6
    x[0, 1] = x[0, 1].round()
    x[1, 2] = 0
    return x.to(dtype)


def cut(compressor: Shardable, parts: int) -> tuple[int, ...]:
    return cuts(cd_adam(compressor, AMSGrad()) if compressor.contractive else _naive(compressor), D, parts)


def _naive(compressor: Compressor):
    from algorithms.methods.naive import naive

    return naive(compressor, AMSGrad())


@pytest.mark.parametrize(("parts", "dtype"), [(2, torch.float32), (5, torch.float64)])
@pytest.mark.parametrize("compressor", PLAIN + BLOCKWISE, ids=str)
def test_shards_make_what_the_whole_makes(compressor: Shardable, parts: int, dtype: torch.dtype) -> None:
    x, key = vectors(dtype), MessageKey(3, "up", 4, (0, 1, 2))
    places = cut(compressor, parts)
    assert len(places) > 2
    made, whole = encoded_apart(compressor, x, places, key), compressor.encode(x, key)
    alone = [Shard(places, number) for number in range(len(made))]
    for payload, shard in zip(made, alone, strict=True):
        expected = list(tensors(compressor.cut(whole, shard)))
        found = list(tensors(payload))
        assert [one.dtype for one in found] == [one.dtype for one in expected]
        assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
    decoded = [compressor.decode_shard(payload, shard) for payload, shard in zip(made, alone, strict=True)]
    assert torch.equal(torch.cat(decoded, -1), compressor(x, key))


@pytest.mark.parametrize("compressor", PLAIN + BLOCKWISE, ids=str)
def test_a_message_can_be_read_without_those_it_was_cut_beside(compressor: Shardable) -> None:
    """A server reads one worker's shard at a time, which was cut with the others of its rank."""
    x, places = vectors(), cut(compressor, 3)
    payload = compressor.encode(x, MessageKey(3, "up", 4, (0, 1, 2)))
    for number in range(len(places) - 1):
        shard = Shard(places, number)
        part = compressor.cut(payload, shard)
        together = compressor.decode_shard(part, shard)
        for worker in range(3):
            assert torch.equal(compressor.decode_shard(_select(part, worker), shard), together[:, worker])


def _select(payload: tuple, worker: int) -> tuple:
    parts = [_select(one, worker) if isinstance(one, tuple) else one.select(1, worker) for one in payload]
    return type(payload)(*parts) if hasattr(payload, "_fields") else tuple(parts)


def test_every_compressor_is_tried() -> None:
    tried = {type(compressor).__name__.lower() for compressor in PLAIN}
    files = (yaml.safe_load(path.read_text()) for path in (CONF / "compressor").glob("*.yaml"))
    made = [get_object(file["defaults"][0]["/target@_here_"]) for file in files]
    configured = {one.__name__.lower() for one in made if one.is_shardable}
    assert len(configured) > 10
    assert configured <= tried


def test_vectors_are_cut_between_pieces_and_blocks_into_about_equal_parts() -> None:
    assert cut(ScaledSign(), 4) == (0, 48, 96, 144, 200)
    assert cut(Identity(), 3) == (0, 64, 128, 200)
    assert cut(ScaledSign(), 100) == (0, *range(16, 200, 16), 200)
    # Blocks begin at 0, 1, 101, 104 and 111, and within them pieces 16 later.
    assert cut(Blocks(ScaledSign(), SIZES), 2) == (0, 101, 200)
    assert cut(Blocks(ScaledSign(), SIZES), 3) == (0, 65, 127, 200)
    # Signs up, quantized weights down: both have the partition.
    assert cuts(quantized_adam(LogQuantize()), D, 2) == (0, 96, 200)
    assert cuts(cd_adam(Blocks(TopK(k=1), SIZES), AMSGrad(), uplink_only=True), D, 2) == (0, 101, 200)


def test_where_a_server_clips_by_a_norm_shards_begin_between_pieces() -> None:
    """Pieces are those of the whole vector, as in one process: none of the blocks begins so."""
    blockwise = quantized_adam(Blocks(LogQuantize(), SIZES))
    assert cuts(blockwise, D, 2) == (0, 101, 200)
    assert cuts(replace(blockwise, clip=1.0), D, 2) == (0, D)
    assert cuts(replace(quantized_adam(LogQuantize()), clip=1.0), D, 2) == (0, 96, 200)
    assert cuts(replace(cd_adam(Blocks(ScaledSign(), SIZES), AMSGrad()), clip=1.0), D, 2) == (0, 101, 200)


@pytest.mark.parametrize(
    ("compressor", "others"),
    [
        *((Identity(), 0), (ScaledSign(), 1), (ScaledSign(norm="l2"), 2), (Natural(), 0), (Sign(), 0)),
        *((MinMaxUint8(), 2), (LogQuantize(), 1), (Blocks(ScaledSign(), SIZES), 0), (Blocks(ScaledSign(), (D,)), 1)),
    ],
    ids=str,
)
def test_exchanges_are_those_up_and_down_and_of_servers_that_know_a_part(compressor: Shardable, others: int) -> None:
    one = cd_adam(compressor, AMSGrad()) if compressor.contractive else _naive(compressor)
    assert exchange(one, D, torch.float32).exchanges == 2 + others


def test_exchanges_of_messages_whose_length_varies() -> None:
    """Each length before its message; the threshold takes one for every byte of a float, whatever the ties."""
    both = cd_adam(TopK(k=9), AMSGrad())
    assert [exchange(both, D, dtype).exchanges for dtype in (torch.float32, torch.float64)] == [2 + 2 + 4, 2 + 2 + 8]
    assert exchange(cd_adam(TopK(k=9), AMSGrad(), uplink_only=True), D, torch.float32).exchanges == 3
    assert exchange(replace(quantized_adam(LogQuantize()), clip=1.0), D, torch.float32).exchanges == 4


def test_a_method_that_has_one_server_exchanges_twice() -> None:
    assert exchange(cd_adam(Unpacked(ScaledSign()), AMSGrad()), D, torch.float32) == (1, 2)


def test_as_many_servers_as_there_are_shards() -> None:
    """However many ranks there are."""
    whole, blocks = (cd_adam(compressor, AMSGrad()) for compressor in (ScaledSign(), Blocks(ScaledSign(), SIZES)))
    for one in (whole, blocks, _naive(Identity())):
        assert exchange(one, D, torch.float32).servers == len(cuts(one, D, 10 * D)) - 1
    assert exchange(whole, D, torch.float32).servers == 13
    assert exchange(whole, 16, torch.float32) == (1, 2)


class OfTheWhole(Direct):
    """A receiver that looks at all coordinates."""


class ServesItself(Algorithm):
    """A method with a server of its own."""

    is_coordinatewise = True

    def server(self, payloads, state, t, seed):
        return super().server(payloads, state, t, seed)


def test_parts_that_do_not_say_that_they_may_be_divided_are_refused() -> None:
    plain = cd_adam(ScaledSign(), AMSGrad())
    for one, name in (
        (replace(plain, uplink=OfTheWhole(ScaledSign())), "OfTheWhole"),
        (type("Mine", (Algorithm,), {})(plain.uplink, plain.downlink, plain.update), "Mine"),
        (ServesItself(plain.uplink, plain.downlink, plain.update), "ServesItself"),
    ):
        with pytest.raises(ValueError, match=rf"{name}: .*cluster\.server=rank0"):
            cuts(one, D, 2)


def test_a_vector_of_one_piece_is_served_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST", 2**12)
    assert cut(ScaledSign(), 4) == (0, D)


def test_a_compressor_that_needs_the_whole_vector_is_refused() -> None:
    for one in (Unpacked(ScaledSign()), Blocks(Unpacked(ScaledSign()), SIZES)):
        with pytest.raises(ValueError, match=r"needs the whole vector.*cluster\.server=rank0"):
            cuts(cd_adam(one, AMSGrad()), D, 2)


def test_sums_of_long_vectors_are_sums_of_pieces() -> None:
    x = vectors(torch.float32)[0, 0]
    pieces = torch.stack([piece.sum() for piece in x.split(16)])
    assert torch.equal(module.whole(D).total(x), pieces.sum(0, keepdim=True))
    assert torch.equal(module.whole(16).total(x[:16]), x[:16].sum(0, keepdim=True))
