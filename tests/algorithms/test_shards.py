"""Where vectors are cut for several servers, and what crosses then."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from refusals import refusals

from algorithms.comm.sharded_server import cuts, describe_exchange
from algorithms.compressors import (
    BinMeans,
    Blocks,
    Compressor,
    Identity,
    LogQuantize,
    MinMaxUint8,
    Natural,
    RandomK,
    ScaledSign,
    Shardable,
    Sign,
    TopK,
    Unpacked,
    tensors,
)
from algorithms.compressors import shard as module
from algorithms.compressors.shard import Shard
from algorithms.core.algorithm import Algorithm
from algorithms.core.channels import Direct
from algorithms.core.update_rules import AMSGrad
from algorithms.methods.cd_adam import cd_adam
from algorithms.methods.naive import naive
from algorithms.methods.quantized_adam import quantized_adam
from algorithms.utils.seeding import MessageKey
from experiments.contracts.test_compressor import encode_shards

D = 200
SIZES = (1, 100, 3, 7, 89)
SIGNS = cd_adam(ScaledSign(), AMSGrad())
BLOCKWISE = quantized_adam(Blocks(LogQuantize(), SIZES))
OF_WEIGHTS = quantized_adam(LogQuantize())  # signs up, quantized weights down


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST", 16)


def vectors() -> torch.Tensor:
    """[2, 3, D]: of every size, with ties, zeros and a vector of nothing but zeros."""
    x = torch.randn(2, 3, D, generator=torch.Generator().manual_seed(0))
    x[..., 20:60] *= 1e-6
    x[0, 1] = x[0, 1].round()
    x[1, 2] = 0
    return x


def method(compressor: Compressor, **options: bool) -> Algorithm:
    return (cd_adam if compressor.contractive else naive)(compressor, AMSGrad(), **options)


@pytest.mark.parametrize(
    "compressor",
    [
        *(TopK(k=9), TopK(ratio=0.3), TopK(k=9, index_bits="packed"), RandomK(k=30), RandomK(k=30, unbiased=True)),
        *(ScaledSign(), Natural(), BinMeans(), Blocks(TopK(ratio=0.4), SIZES), Blocks(RandomK(ratio=0.4), SIZES)),
    ],
    ids=str,
)
def test_shards_make_what_the_whole_makes(compressor: Shardable) -> None:
    """And a server reads one worker's shard at a time, which was cut with the others of its rank."""
    x, key = vectors(), MessageKey(3, "up", 4, (0, 1, 2))
    places = cuts(method(compressor), D, 5)
    assert len(places) > 2
    made, whole, decoded = encode_shards(compressor, x, places, key), compressor.encode(x, key), []
    for number, payload in enumerate(made):
        shard = Shard(places, number)
        part = compressor.cut(whole, shard)
        for found, expected in zip(tensors(payload), tensors(part), strict=True):
            assert torch.equal(found, expected)
        decoded.append(compressor.decode_shard(payload, shard))
        for worker in range(3):
            assert torch.equal(compressor.decode_shard(_select(part, worker), shard), decoded[-1][:, worker])
    assert torch.equal(torch.cat(decoded, -1), compressor(x, key))


def _select(payload: tuple, worker: int) -> tuple:
    parts = [_select(one, worker) if isinstance(one, tuple) else one.select(1, worker) for one in payload]
    return type(payload)(*parts) if hasattr(payload, "_fields") else tuple(parts)


@pytest.mark.parametrize(
    ("algorithm", "parts", "expected"),
    [
        (SIGNS, 4, (0, 48, 96, 144, 200)),
        (method(Identity()), 3, (0, 64, 128, 200)),
        (SIGNS, 100, (0, *range(16, 200, 16), 200)),
        (method(Blocks(ScaledSign(), SIZES)), 2, (0, 101, 200)),
        (method(Blocks(ScaledSign(), SIZES)), 200, (0, 1, 101, 104, 111, 200)),
        (method(Blocks(TopK(k=1), SIZES), uplink_only=True), 2, (0, 101, 200)),
        (OF_WEIGHTS, 2, (0, 96, 200)),
        (BLOCKWISE, 2, (0, 101, 200)),
        # Where a server clips by a norm, between pieces of the whole vector, and none of the blocks begins so:
        (replace(BLOCKWISE, clip=1.0), 2, (0, D)),
        (replace(OF_WEIGHTS, clip=1.0), 2, (0, 96, 200)),
        (replace(method(Blocks(ScaledSign(), SIZES)), clip=1.0), 2, (0, 101, 200)),
    ],
)
def test_vectors_are_cut_between_pieces_and_blocks_into_about_equal_parts(algorithm, parts, expected) -> None:
    assert cuts(algorithm, D, parts) == expected


@pytest.mark.parametrize(
    ("algorithm", "servers", "exchanges"),
    [
        *((method(one), 13, 2) for one in (Identity(), Natural(), Sign())),
        *((method(one), 13, 3) for one in (ScaledSign(), LogQuantize())),
        *((method(one), 13, 4) for one in (ScaledSign(norm="l2"), MinMaxUint8())),
        (method(Blocks(ScaledSign(), SIZES)), 5, 2),
        (method(TopK(k=9)), 13, 2 + 2 + 4),  # each length before its message, and one for every byte of a float
        (method(TopK(k=9), uplink_only=True), 13, 3),
        (replace(OF_WEIGHTS, clip=1.0), 13, 4),
        (method(Unpacked(ScaledSign())), 1, 2),  # which needs the whole vector
    ],
)
def test_exchanges_are_those_up_and_down_and_of_servers_that_know_a_part(algorithm, servers, exchanges) -> None:
    assert describe_exchange(algorithm, D, torch.float32) == (servers, exchanges)
    assert describe_exchange(algorithm, 16, torch.float32).servers in (1, 5)


class OfTheWhole(Direct):
    """A receiver that looks at all coordinates."""


class ServesItself(Algorithm):
    """A method with a server of its own."""

    is_coordinatewise = True

    def server(self, payloads, state, t, seed):
        return super().server(payloads, state, t, seed)


OWN = type("Mine", (Algorithm,), {})(SIGNS.uplink, SIGNS.downlink, SIGNS.update)
test_parts_that_do_not_say_that_they_may_be_divided_are_refused = refusals(
    (lambda: cuts(replace(SIGNS, uplink=OfTheWhole(ScaledSign())), D, 2), r"OfTheWhole: .*cluster\.server=rank0"),
    (lambda: cuts(OWN, D, 2), r"Mine: .*cluster\.server=rank0"),
    (lambda: cuts(ServesItself(SIGNS.uplink, SIGNS.downlink, SIGNS.update), D, 2), r"ServesItself: .*server=rank0"),
    (lambda: cuts(method(Unpacked(ScaledSign())), D, 2), r"needs the whole vector.*cluster\.server=rank0"),
)
