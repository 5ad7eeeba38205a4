"""Clipping against torch's, and where in a round it stands."""

from dataclasses import replace

import pytest
import torch
from optimizer_support import ALGORITHMS, ROUNDS, simulated
from small_network import loss, network, vector
from torch.nn.utils import clip_grad_norm_

from algorithms.compressors import Identity
from algorithms.core.algorithm import clipped
from algorithms.core.update_rules import SGD, Adam
from algorithms.methods.adam import adam
from algorithms.methods.sgd import sgd
from algorithms.optim.optimizer import CompressedOptimizer
from experiments.cluster.base import Simulated


@pytest.mark.parametrize("most", [0.3, 3.0, 100.0])
def test_every_vector_is_clipped_by_its_own_norm_as_torch_clips(most):
    torch.manual_seed(0)
    vectors = torch.randn(2, 3, 7, dtype=torch.float64) * torch.tensor([[0.1], [1.0], [10.0]], dtype=torch.float64)
    ours = clipped(vectors, most)
    for trial in range(2):
        for worker in range(3):
            parameter = torch.nn.Parameter(torch.zeros(7, dtype=torch.float64))
            parameter.grad = vectors[trial, worker].clone()
            clip_grad_norm_([parameter], most)
            torch.testing.assert_close(ours[trial, worker], parameter.grad, rtol=1e-14, atol=0)


def test_short_vectors_stay_bit_for_bit_and_a_norm_is_positive():
    vectors = torch.tensor([[0.1, -0.2], [0.0, 0.0]])
    assert torch.equal(clipped(vectors, 1.0), vectors)
    for most in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="a norm above 0"):
            replace(sgd(Identity(), SGD()), clip=most)


def test_clipped_workers_and_a_clipped_mean_are_torchs_adamw():
    """Two workers whose gradients are clipped, their mean clipped again, decoupled decay behind that."""
    algorithm = replace(adam(Identity(), Adam(form="torch", weight_decay=0.1, decoupled=True)), clip=0.2)
    net = network()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.05, betas=(0.9, 0.99), weight_decay=0.1)
    norms = []
    for _ in range(ROUNDS):
        means = [torch.zeros_like(parameter) for parameter in net.parameters()]
        for worker in range(2):
            optimizer.zero_grad()
            loss(net, worker).backward()
            clip_grad_norm_(net.parameters(), 0.3)
            for mean, parameter in zip(means, net.parameters(), strict=True):
                mean += parameter.grad / 2
        for mean, parameter in zip(means, net.parameters(), strict=True):
            parameter.grad = mean
        norms.append(clip_grad_norm_(net.parameters(), 0.2).item())
        optimizer.step()
    assert max(norms) > 0.2 > min(norms)
    expected = vector(net)
    torch.testing.assert_close(simulated(algorithm, 2, clip=0.3)[-1], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["amsgrad", "cd_adam", "onebit_adam", "quantized_adam"])
def test_in_a_loop_of_ones_own_both_norms_are_those_of_a_run(name):
    algorithm = replace(ALGORITHMS[name], clip=0.02)
    net = network()
    optimizer = CompressedOptimizer(net.parameters(), algorithm, lr=0.05, seed=3)
    for _ in range(ROUNDS):
        optimizer.zero_grad()
        loss(net, 0).backward()
        clip_grad_norm_(net.parameters(), 0.3)
        optimizer.step()
    ours = vector(net)
    torch.testing.assert_close(ours, simulated(algorithm, 1, clip=0.3)[-1], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(ours, simulated(ALGORITHMS[name], 1)[-1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["naive", "cd_adam", "onebit_adam", "quantized_adam"])
def test_what_is_remembered_and_sent_is_not_clipped(name):
    """One round of SGD's kind: the signal is whole, and x moves by the clipped one."""
    gradient = torch.randn(1, 32, generator=torch.Generator().manual_seed(1))
    plain, short = ALGORITHMS[name], replace(ALGORITHMS[name], clip=1e-3)
    whole, cut = (
        Simulated(one, 1, seed=3).round(gradient, Simulated(one, 1, seed=3).start(torch.zeros(32)), 0.1, 1)
        for one in (plain, short)
    )
    if name != "quantized_adam":  # whose signal is the move itself
        assert torch.equal(whole.replica.signal, cut.replica.signal)
    for one, other in ((whole.workers.memory, cut.workers.memory), (whole.server.aggregate, cut.server.aggregate)):
        assert one is other is None or torch.equal(one, other)
