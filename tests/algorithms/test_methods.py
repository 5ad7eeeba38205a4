"""Every method: against a plain-loop reference, and one contract that all of them keep."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from reference import compressors as plain
from reference import methods, problem, updates

from algorithms.adam import adam
from algorithms.amsgrad import amsgrad
from algorithms.apmsqueeze import apmsqueeze
from algorithms.cd_adam import cd_adam
from algorithms.compressors import Identity, LogQuantize, MinMaxUint8, RandomK, ScaledSign, TopK
from algorithms.ef21 import ef21
from algorithms.error_feedback import error_feedback
from algorithms.meter import Meter
from algorithms.naive import naive
from algorithms.onebit_adam import onebit_adam
from algorithms.protocol import Algorithm
from algorithms.qadam import qadam
from algorithms.quantized_adam import quantized_adam
from algorithms.sgd import sgd
from algorithms.updates import SGD, Adam, AMSGrad
from experiments.cluster.base import ClusterState
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
    "naive": (naive, methods.naive, ["sgd", "amsgrad"]),
    "error_feedback": (error_feedback, methods.error_feedback, ["sgd", "amsgrad"]),
    "cd_adam": (cd_adam, methods.markov, ["amsgrad"]),
    "ef21": (ef21, methods.markov, ["sgd"]),
}
ROUNDS = 60


def reference_update(name: str):
    return {
        "sgd": updates.SGD,
        "adam": partial(updates.Adam, problem.D),
        "amsgrad": partial(updates.AMSGrad, problem.D),
    }[name]()


def gradients(x: torch.Tensor) -> torch.Tensor:
    """∇f_i of the small problem for parameters [T, d]: [T, W, d]."""
    return torch.tensor(
        [[problem.gradient(i, row) for i in range(problem.WORKERS)] for row in x.tolist()], dtype=x.dtype
    )


def run(
    algorithm: Algorithm, lrs: list[float], rounds: int, cluster: Simulated | None = None, dtype=torch.float64
) -> tuple[torch.Tensor, ClusterState]:
    """x after every round [rounds, T, d] in the simulated cluster, from x₁ = 0.1, and the last state."""
    cluster = cluster or Simulated(algorithm, problem.WORKERS, seed=3)
    state = cluster.start(torch.full((len(lrs), problem.D), 0.1, dtype=dtype))
    lr, path = torch.tensor(lrs, dtype=dtype).unsqueeze(-1), []
    for t in range(1, rounds + 1):
        state = cluster.round(gradients(state.replica.x), state, lr, t)
        path.append(state.replica.x)
    return torch.stack(path), state


class Packed(Simulated):
    """The simulated cluster on the wire path: what is exchanged is the packed payload."""

    def __init__(self, algorithm: Algorithm, workers: int, seed: int) -> None:
        super().__init__(algorithm, workers, seed)
        self.algorithm = algorithm


def every_compressed() -> list:
    return [
        pytest.param(factory(compressor, UPDATES[update], **options), id=f"{method}-{name}-{update}{label}")
        for method, (factory, _, allowed) in COMPRESSED.items()
        for update in allowed
        for name, compressor in {
            **{name: ours for name, (ours, _) in COMPRESSORS.items()},
            "random_3": RandomK(k=3),
        }.items()
        for label, options in {"": {}, "-uplink_only": {"uplink_only": True}}.items()
    ]


def every_phased() -> list:
    """Methods that change after a warm-up of five rounds, and those that keep moments on the workers."""
    return [
        pytest.param(onebit_adam(ScaledSign("l2"), 20, warmup=5), id="onebit_adam"),
        pytest.param(onebit_adam(TopK(k=2), 20, warmup=5, signal="gradient"), id="onebit_adam-gradient"),
        pytest.param(onebit_adam(ScaledSign("l2"), 20, warmup=5, uplink_only=True), id="onebit_adam-uplink_only"),
        pytest.param(onebit_adam(RandomK(k=3), 20, warmup=5), id="onebit_adam-random_3"),
        pytest.param(qadam(MinMaxUint8(), 20, warmup=5), id="qadam"),
        pytest.param(apmsqueeze(ScaledSign(), 20, warmup=5), id="apmsqueeze"),
        pytest.param(quantized_adam(LogQuantize()), id="quantized_adam"),
        pytest.param(quantized_adam(LogQuantize(), uplink_only=True), id="quantized_adam-uplink_only"),
    ]


def every_method() -> list:
    plain_ones = [
        pytest.param(factory(Identity(), UPDATES[update]), id=name)
        for name, (factory, update) in UNCOMPRESSED.items()
    ]
    return plain_ones + every_compressed() + every_phased()


@pytest.mark.parametrize("name", UNCOMPRESSED)
def test_uncompressed_methods_follow_the_reference(name):
    factory, update = UNCOMPRESSED[name]
    ours, _ = run(factory(Identity(), UPDATES[update]), [0.02], ROUNDS)
    expected = methods.uncompressed(
        problem.gradient, [0.1] * problem.D, problem.WORKERS, list, reference_update(update), 0.02, ROUNDS, True
    )
    torch.testing.assert_close(ours[:, 0], torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-10)


@pytest.mark.parametrize("dense_down", [False, True])
@pytest.mark.parametrize("compressor", COMPRESSORS)
@pytest.mark.parametrize(("method", "update"), [(m, u) for m, (_, _, us) in COMPRESSED.items() for u in us])
def test_compressed_methods_follow_the_reference(method, update, compressor, dense_down):
    factory, reference, _ = COMPRESSED[method]
    ours, plain_compressor = COMPRESSORS[compressor]
    path, _ = run(factory(ours, UPDATES[update], uplink_only=dense_down), [0.02], ROUNDS)
    expected = reference(
        problem.gradient,
        [0.1] * problem.D,
        problem.WORKERS,
        plain_compressor,
        reference_update(update),
        0.02,
        ROUNDS,
        dense_down,
    )
    torch.testing.assert_close(path[:, 0], torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-10)


@pytest.mark.parametrize("uplink_only", [False, True])
@pytest.mark.parametrize(("factory", "update"), [(cd_adam, "amsgrad"), (ef21, "sgd")])
def test_a_dense_start_follows_the_reference(factory, update, uplink_only):
    path, _ = run(factory(TopK(k=2), UPDATES[update], uplink_only, dense_start=True), [0.02], ROUNDS)
    expected = methods.markov(
        problem.gradient,
        [0.1] * problem.D,
        problem.WORKERS,
        plain.top_2,
        reference_update(update),
        0.02,
        ROUNDS,
        uplink_only,
        dense_start=True,
    )
    torch.testing.assert_close(path[:, 0], torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-10)


@pytest.mark.parametrize("update", ["sgd", "amsgrad"])
@pytest.mark.parametrize("method", COMPRESSED)
def test_identity_compression_is_the_uncompressed_method(method, update):
    compressed, _ = run(COMPRESSED[method][0](Identity(), UPDATES[update]), [0.02, 0.1], ROUNDS)
    uncompressed, _ = run(UNCOMPRESSED[update][0](Identity(), UPDATES[update]), [0.02, 0.1], ROUNDS)
    torch.testing.assert_close(compressed, uncompressed, rtol=0, atol=1e-12)


@pytest.mark.parametrize("algorithm", every_method())
def test_packed_messages_give_the_same_bits_as_the_dense_path(algorithm):
    dense, _ = run(algorithm, [0.02, 0.1], 20)
    packed, _ = run(algorithm, [0.02, 0.1], 20, Packed(algorithm, problem.WORKERS, seed=3))
    assert torch.equal(dense, packed)


@pytest.mark.parametrize("algorithm", every_method())
def test_a_batch_of_trials_equals_each_trial_alone(algorithm):
    together, _ = run(algorithm, [0.005, 0.02, 0.1], 20)
    for trial, lr in enumerate([0.005, 0.02, 0.1]):
        alone, _ = run(algorithm, [lr], 20)
        torch.testing.assert_close(together[:, trial : trial + 1], alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize("algorithm", every_method())
def test_state_goes_through_its_dict(algorithm):
    cluster = Simulated(algorithm, problem.WORKERS, seed=3)
    whole, _ = run(algorithm, [0.02], 20)
    _, state = run(algorithm, [0.02], 10)
    state = ClusterState.from_state_dict(state.state_dict())
    for t in range(11, 21):
        state = cluster.round(gradients(state.replica.x), state, torch.tensor([[0.02]], dtype=torch.float64), t)
    assert torch.equal(state.replica.x, whole[-1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("algorithm", every_method())
def test_dtype_and_shape_are_kept(algorithm, dtype):
    _, state = run(algorithm, [0.02, 0.1], 3, dtype=dtype)

    def check(node) -> int:
        if isinstance(node, dict):
            return sum(check(child) for name, child in node.items() if name != "ids")
        if node is None:
            return 0
        assert node.dtype == dtype
        assert node.shape in {(2, problem.D), (2, problem.WORKERS, problem.D)}
        return 1

    assert check(state.state_dict()) >= 3


@pytest.mark.parametrize("algorithm", every_method())
def test_a_round_leaves_the_old_state_as_it_was(algorithm):
    cluster = Simulated(algorithm, problem.WORKERS, seed=3)
    _, state = run(algorithm, [0.02], 3)

    def flat(node) -> list[torch.Tensor]:
        if isinstance(node, dict):
            return [tensor for child in node.values() for tensor in flat(child)]
        return [] if node is None else [node]

    before = [tensor.clone() for tensor in flat(state.state_dict())]
    cluster.round(gradients(state.replica.x), state, 0.02, 4)
    assert all(torch.equal(old, new) for old, new in zip(before, flat(state.state_dict()), strict=True))


@pytest.mark.parametrize(
    ("algorithm", "up", "down"),
    [
        (amsgrad(Identity(), AMSGrad()), 32 * 100, 32 * 100),
        (cd_adam(ScaledSign(), AMSGrad()), 132, 132),
        (cd_adam(ScaledSign(), AMSGrad(), uplink_only=True), 132, 3200),
        (naive(ScaledSign("l2"), AMSGrad()), 132, 132),
        (error_feedback(TopK(ratio=0.05), AMSGrad()), 64 * 5, 64 * 5),
        (ef21(TopK(ratio=0.016), SGD()), 64, 64),
        (naive(RandomK(k=7, unbiased=True), SGD()), 32 * 7 + 64, 32 * 7 + 64),
    ],
)
def test_bits_of_a_round(algorithm, up, down):
    meter = Meter()
    for t in (1, 2, 3):
        meter.count(algorithm, 100, t, torch.float64)
    assert (meter.bits_up, meter.bits_down, meter.bits) == (3 * up, 3 * down, 3 * (up + down))


def test_a_dense_start_is_counted():
    meter = Meter()
    for t in (1, 2):
        meter.count(ef21(TopK(k=2), SGD(), dense_start=True), 100, t, torch.float64)
    assert meter.bits_up == meter.bits_down == 3200 + 128
    assert meter.payload_bytes == 2 * (800 + 2 * (8 + 4))


@pytest.mark.parametrize("factory", [error_feedback, cd_adam, ef21])
def test_memories_refuse_a_compressor_scaled_to_be_unbiased(factory):
    with pytest.raises(ValueError, match="contractive"):
        factory(RandomK(k=2, unbiased=True), AMSGrad())


def test_randomised_messages_do_not_depend_on_how_workers_are_spread():
    """Two processes with two workers each send what one process with four sends."""
    algorithm = cd_adam(RandomK(k=3), AMSGrad())
    x = torch.full((1, problem.D), 0.1, dtype=torch.float64)
    replica, g = algorithm.start_replica(x), gradients(x)
    together, _ = algorithm.worker(g, algorithm.start_workers(x, torch.arange(4)), replica, 0.1, 5, seed=1)
    for ids in (torch.tensor([0, 1]), torch.tensor([2, 3])):
        apart, _ = algorithm.worker(g[:, ids], algorithm.start_workers(x, ids), replica, 0.1, 5, seed=1)
        assert torch.equal(apart.values, together.values[:, ids])
        assert torch.equal(apart.seed, together.seed[:, ids])


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


def test_weight_decay_is_added_on_the_replica_after_decompression():
    """cd_adam with λ equals cd_adam whose received signal is shifted by λx, with the same messages on the wire."""
    decayed = cd_adam(ScaledSign(), AMSGrad(weight_decay=0.3))
    x = torch.full((1, problem.D), 0.1, dtype=torch.float64)
    cluster = Simulated(decayed, problem.WORKERS, seed=0)
    state = cluster.round(gradients(x), cluster.start(x), 0.02, 1)
    plain_state = Simulated(cd_adam(ScaledSign(), AMSGrad()), problem.WORKERS, seed=0)
    other = plain_state.round(gradients(x), plain_state.start(x), 0.02, 1)
    assert torch.equal(state.replica.signal, other.replica.signal)
    m = 0.1 * (other.replica.signal + 0.3 * x)
    v = 0.01 * (other.replica.signal + 0.3 * x) ** 2
    torch.testing.assert_close(state.replica.x, x - 0.02 * m / (v + 1e-8).sqrt(), rtol=1e-14, atol=0)


@pytest.mark.parametrize("algorithm", every_compressed())
def test_every_method_learns(algorithm):
    """With a small step the gradient norm of the mean falls well below its start (naive signs stop earlier)."""
    lr = 0.05 if isinstance(algorithm.update, SGD) else 0.01
    path, _ = run(algorithm, [lr], 300)
    start = gradients(torch.full((1, problem.D), 0.1, dtype=torch.float64)).mean(-2).norm()
    end = torch.stack([gradients(x).mean(-2).norm() for x in path[-30:]]).mean()
    assert end < 0.7 * start


def test_unpacked_changes_nothing_but_the_path():
    algorithm = cd_adam(ScaledSign(), AMSGrad(), dense_start=True)
    unpacked = algorithm.unpacked()
    assert replace(unpacked, uplink=algorithm.uplink, downlink=algorithm.downlink) == algorithm
    assert [unpacked.uplink.bits(9, t) for t in (1, 2)] == [algorithm.uplink.bits(9, t) for t in (1, 2)] == [288, 41]
