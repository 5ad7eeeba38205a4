"""Methods against plain-loop references, and what they send."""

from functools import partial

import pytest
import torch
from reference import compressors as plain
from reference import methods, problem, updates

from algorithms.compressors import Blocks, Identity, LogQuantize, MinMaxUint8, RandomK, ScaledSign, TopK
from algorithms.core.algorithm import Algorithm
from algorithms.core.bit_counter import BitCounter
from algorithms.core.update_rules import SGD, Adam, AMSGrad
from algorithms.methods.adam import adam
from algorithms.methods.amsgrad import amsgrad
from algorithms.methods.apmsqueeze import apmsqueeze
from algorithms.methods.cd_adam import cd_adam
from algorithms.methods.ef21 import ef21
from algorithms.methods.error_feedback import error_feedback
from algorithms.methods.naive import naive
from algorithms.methods.qadam import qadam
from algorithms.methods.quantized_adam import quantized_adam
from algorithms.methods.sgd import sgd
from experiments.cluster.simulated import Simulated

UPDATES = {"sgd": SGD(), "adam": Adam(), "amsgrad": AMSGrad()}
COMPRESSORS = {
    "identity": (Identity(), plain.identity),
    "scaled_sign": (ScaledSign(), plain.scaled_sign),
    "scaled_sign_l2": (ScaledSign("l2"), plain.scaled_sign_l2),
    "top_2": (TopK(k=2), plain.top_2),
}
UNCOMPRESSED = {"sgd": (sgd, "sgd"), "adam": (adam, "adam"), "amsgrad": (amsgrad, "amsgrad")}
COMPRESSED = {
    "naive": (naive, methods.naive, "sgd"),
    "error_feedback": (error_feedback, methods.error_feedback, "amsgrad"),
    "cd_adam": (cd_adam, methods.markov, "amsgrad"),
    "ef21": (partial(ef21, dense_start=False), methods.markov, "sgd"),
}
ROUNDS = 60


def reference_update(name: str):
    return {
        "sgd": updates.SGD,
        "adam": partial(updates.Adam, problem.D, False),
        "amsgrad": partial(updates.Adam, problem.D, True),
    }[name]()


def gradients(x: torch.Tensor) -> torch.Tensor:
    """∇f_i of the small problem for parameters [T, d]: [T, W, d]."""
    return torch.tensor(
        [[problem.gradient(i, row) for i in range(problem.WORKERS)] for row in x.tolist()], dtype=x.dtype
    )


def run(algorithm: Algorithm, lrs: list[float]) -> torch.Tensor:
    """x after each of 60 rounds [60, T, d] in the simulated cluster, from x₁ = 0.1."""
    cluster = Simulated(algorithm, problem.WORKERS, seed=3)
    state = cluster.start(torch.full((len(lrs), problem.D), 0.1, dtype=torch.float64))
    lr, path = torch.tensor(lrs, dtype=torch.float64).unsqueeze(-1), []
    for t in range(1, ROUNDS + 1):
        state = cluster.round(gradients(state.replica.x), state, lr, t)
        path.append(state.replica.x)
    return torch.stack(path)


def assert_follows(algorithm: Algorithm, reference, update: str, compressor=list, dense_down=True, **options) -> None:
    """The algorithm comes to the points of a reference."""
    start, step = [0.1] * problem.D, reference_update(update)
    expected = reference(
        problem.gradient, start, problem.WORKERS, compressor, step, 0.02, ROUNDS, dense_down, **options
    )
    ours = run(algorithm, [0.02])[:, 0]
    torch.testing.assert_close(ours, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", UNCOMPRESSED)
def test_uncompressed_methods_follow_the_reference(name):
    factory, update = UNCOMPRESSED[name]
    assert_follows(factory(Identity(), UPDATES[update]), methods.naive, update)


@pytest.mark.parametrize("dense_down", [False, True])
@pytest.mark.parametrize("compressor", COMPRESSORS)
@pytest.mark.parametrize(("method", "update"), [(m, u) for m, (_, _, u) in COMPRESSED.items()])
def test_compressed_methods_follow_the_reference(method, update, compressor, dense_down):
    factory, reference, _ = COMPRESSED[method]
    ours, plain_compressor = COMPRESSORS[compressor]
    algorithm = factory(ours, UPDATES[update], uplink_only=dense_down)
    assert_follows(algorithm, reference, update, plain_compressor, dense_down)


@pytest.mark.parametrize(("dense_start", "down"), [(False, "scaled_sign"), (True, "identity")])
def test_ef21_with_another_compressor_down_follows_the_reference(down, dense_start):
    ours, plain_down = COMPRESSORS[down]
    algorithm = ef21(TopK(k=2), SGD(), uplink_only=False, dense_start=dense_start, downlink_compressor=ours)
    options = {"dense_start": dense_start, "compress_down": plain_down}
    assert_follows(algorithm, methods.markov, "sgd", plain.top_2, False, **options)
    with pytest.raises(ValueError, match=r"downlink_compressor=.*: takes uplink_only=false"):
        ef21(TopK(k=2), SGD(), downlink_compressor=ours)


@pytest.mark.parametrize("uplink_only", [False, True])
@pytest.mark.parametrize(("factory", "update"), [(cd_adam, "amsgrad"), (ef21, "sgd")])
def test_a_dense_start_follows_the_reference(factory, update, uplink_only):
    algorithm = factory(TopK(k=2), UPDATES[update], uplink_only, dense_start=True)
    assert_follows(algorithm, methods.markov, update, plain.top_2, uplink_only, dense_start=True)


@pytest.mark.parametrize(
    ("method", "update"), [("naive", "sgd"), ("error_feedback", "amsgrad"), ("cd_adam", "amsgrad"), ("ef21", "sgd")]
)
def test_identity_compression_is_the_uncompressed_method(method, update):
    compressed = run(COMPRESSED[method][0](Identity(), UPDATES[update]), [0.02, 0.1])
    uncompressed = run(UNCOMPRESSED[update][0](Identity(), UPDATES[update]), [0.02, 0.1])
    torch.testing.assert_close(compressed, uncompressed, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("algorithm", "up", "down"),  # over ten rounds of 100 coordinates
    [
        (amsgrad(Identity(), AMSGrad()), 10 * 3200, 10 * 3200),
        (cd_adam(ScaledSign(), AMSGrad()), 10 * 132, 10 * 132),
        (cd_adam(ScaledSign(), AMSGrad(), uplink_only=True), 10 * 132, 10 * 3200),
        (naive(ScaledSign("l2"), AMSGrad()), 10 * 132, 10 * 132),
        (error_feedback(TopK(ratio=0.05), AMSGrad()), 10 * 64 * 5, 10 * 64 * 5),
        (ef21(TopK(k=2), SGD(), uplink_only=False), 3200 + 9 * 128, 3200 + 9 * 128),
        (naive(RandomK(k=7, unbiased=True), SGD()), 10 * (32 * 7 + 64), 10 * (32 * 7 + 64)),
        (qadam(MinMaxUint8(), 10, 4), 4 * 3200 + 6 * 864, 4 * 3200 + 6 * 864),
        (qadam(MinMaxUint8(), 10, 4, uplink_only=True), 4 * 3200 + 6 * 864, 10 * 3200),
        (apmsqueeze(ScaledSign(), 10, 0.5), 5 * 3200 + 5 * 132, 5 * 3200 + 5 * 132),
        (quantized_adam(LogQuantize(3), weight_bits=8), 10 * 332, 10 * 832),
        (quantized_adam(LogQuantize(3), uplink_only=True), 10 * 332, 10 * 3200),
        (quantized_adam(Blocks(LogQuantize(3), (30, 70)), weight_bits=8), 10 * 364, 10 * 864),
    ],
)
def test_bits_of_ten_rounds(algorithm, up, down):
    meter = BitCounter()
    for t in range(1, 11):
        meter.count(algorithm, 100, t, torch.float32)
    assert (meter.bits_up, meter.bits_down, meter.bits) == (up, down, up + down)


@pytest.mark.parametrize(
    ("algorithm", "dtype", "payload_bytes"),
    [
        (ef21(TopK(k=2), SGD(), uplink_only=False), torch.float64, 2 * (800 + 2 * (8 + 4))),
        (quantized_adam(LogQuantize(3), weight_bits=8), torch.float32, 2 * (38 + 4 + 100 + 4)),
    ],
    ids=["a dense start", "directions that differ"],
)
def test_payload_bytes_of_two_rounds(algorithm, dtype, payload_bytes):
    meter = BitCounter()
    for t in (1, 2):
        meter.count(algorithm, 100, t, dtype)
    assert meter.payload_bytes == payload_bytes


def test_randomised_messages_depend_on_seed_round_worker_and_direction():
    algorithm = cd_adam(RandomK(k=3), AMSGrad())
    x = torch.full((1, 1000), 0.1)
    state, replica = algorithm.start_workers(x, torch.arange(2)), algorithm.start_replica(x)
    g = torch.ones(1, 2, 1000)

    def seeds(t: int, seed: int) -> list[int]:
        payload, _ = algorithm.worker(g, state, replica, 0.1, t, seed)
        down, _ = algorithm.server(payload, algorithm.start_server(x), t, seed)
        return [*payload.seed.flatten().tolist(), *down.seed.flatten().tolist()]

    drawn = seeds(1, 0) + seeds(2, 0) + seeds(1, 1)
    assert len(set(drawn)) == len(drawn) == 9
