"""What training loops do to a torch optimizer: accumulate, compile, tie, clip, hold parameters in 16 bits."""

from dataclasses import replace

import pytest
import torch
from optimizer_support import ALGORITHMS, ROUNDS, simulate
from small_network import from_file, group_of_one, network, train, vector
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.utils import clip_grad_norm_, parameters_to_vector, vector_to_parameters

from algorithms import LocalSteps
from algorithms.compressors import Identity, ScaledSign
from algorithms.core.algorithm import clip_norm
from algorithms.core.update_rules import SGD, AMSGrad
from algorithms.methods.amsgrad import amsgrad
from algorithms.methods.cd_adam import cd_adam
from algorithms.methods.sgd import sgd
from algorithms.optim.optimizer import CompressedOptimizer
from experiments.cluster.base import Simulated

STEPS = 5
SIGN = cd_adam(ScaledSign(), AMSGrad())


def test_the_state_of_a_lone_parameter_is_no_view_of_it() -> None:
    param = torch.nn.Parameter(torch.ones(3))
    optimizer = CompressedOptimizer([param], SIGN, lr=0.1)
    state = optimizer.state_dict()
    param.grad = torch.ones(3)
    optimizer.step()
    assert torch.equal(state["state"][0]["replica"]["x"], torch.ones(3))
    after = optimizer.state_dict()
    moved = param.detach().clone()
    param.data.zero_()
    assert torch.equal(after["state"][0]["replica"]["x"], moved)


def test_a_sparse_gradient_is_refused_in_words() -> None:
    table = torch.nn.Embedding(4, 2, sparse=True)
    optimizer = CompressedOptimizer(table.parameters(), SIGN, lr=0.1)
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(ValueError, match="a gradient is sparse"):
        optimizer.step()
    assert optimizer.t == 0


@pytest.mark.parametrize("version", [pytest.param("1", marks=pytest.mark.slow), "2"])
def test_sharded_parameters_are_refused_in_words(version: str) -> None:
    """Those of FSDP, of which a process has a part, also where they were sharded later."""
    with group_of_one():
        model = torch.nn.Linear(3, 2)
        optimizers = [
            CompressedOptimizer(model.parameters(), SIGN, lr=0.1),
            LocalSteps(torch.optim.SGD(model.parameters()), "diloco", period=1),
        ]
        if version == "1":
            sharded = FullyShardedDataParallel(model, device_id=torch.device("cpu"))
        else:
            sharded = fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
        with pytest.raises(ValueError, match="parameters are sharded"):
            CompressedOptimizer(sharded.parameters(), SIGN, lr=0.1)
        for optimizer in optimizers if version == "2" else ():  # FSDP 1 leaves no mark on former parameters
            with pytest.raises(ValueError, match="parameters are sharded"):
                optimizer.step()


def test_channels_last_gradients_are_read_in_the_order_of_their_indices() -> None:
    torch.manual_seed(0)
    images = torch.randn(2, 3, 5, 5)
    plain = torch.nn.Conv2d(3, 4, 3)
    last = torch.nn.Conv2d(3, 4, 3)
    last.load_state_dict(plain.state_dict())
    last.to(memory_format=torch.channels_last)
    for net, inputs in ((plain, images), (last, images.contiguous(memory_format=torch.channels_last))):
        optimizer = CompressedOptimizer(net.parameters(), amsgrad(Identity(), AMSGrad()), lr=0.1)
        for _ in range(STEPS):
            optimizer.zero_grad()
            net(inputs).square().mean().backward()
            optimizer.step()
    torch.testing.assert_close(last.weight, plain.weight)


@pytest.mark.parametrize("most", [0.3, 3.0, 100.0])
def test_every_vector_is_clipped_by_its_own_norm_as_torch_clips(most):
    torch.manual_seed(0)
    vectors = torch.randn(2, 3, 7, dtype=torch.float64) * torch.tensor([[0.1], [1.0], [10.0]], dtype=torch.float64)
    ours = clip_norm(vectors, most)
    for trial in range(2):
        for worker in range(3):
            parameter = torch.nn.Parameter(torch.zeros(7, dtype=torch.float64))
            parameter.grad = vectors[trial, worker].clone()
            clip_grad_norm_([parameter], most)
            torch.testing.assert_close(ours[trial, worker], parameter.grad, rtol=1e-14, atol=0)


def test_short_vectors_stay_bit_for_bit_and_a_norm_is_positive():
    vectors = torch.tensor([[0.1, -0.2], [0.0, 0.0]])
    assert torch.equal(clip_norm(vectors, 1.0), vectors)
    for most in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="a norm above 0"):
            replace(sgd(Identity(), SGD()), clip=most)


@pytest.mark.parametrize("name", ["amsgrad", "cd_adam", "onebit_adam", "quantized_adam"])
def test_in_a_loop_of_ones_own_both_norms_are_those_of_a_run(name):
    algorithm = replace(ALGORITHMS[name], clip=0.02)
    net = network()
    optimizer = CompressedOptimizer(net.parameters(), algorithm, lr=0.05, seed=3)
    ours = train(net, optimizer, steps=ROUNDS, befalls=lambda step: clip_grad_norm_(net.parameters(), 0.3))[-1]
    torch.testing.assert_close(ours, simulate(algorithm, 1, clip=0.3)[-1], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(ours, simulate(ALGORITHMS[name], 1)[-1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["naive", "cd_adam", "onebit_adam", "quantized_adam"])
def test_what_is_remembered_and_sent_is_not_clipped(name):
    """In one round like SGD's the signal is not clipped, but the step of x is."""
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


# 16 bits


@pytest.mark.parametrize(("name", "dtype"), [("cd_adam", torch.bfloat16), ("quantized_adam", torch.float16)])
def test_parameters_of_16_bits_round_what_float32_states_move(name: str, dtype: torch.dtype) -> None:
    """The simulation has float32 parameters, of which the gradient is taken at what they round to."""
    net, other = network().to(dtype), network().to(dtype)
    optimizer = CompressedOptimizer(net.parameters(), ALGORITHMS[name], lr=1e-3, seed=3)
    cluster = Simulated(ALGORITHMS[name], 1, seed=3)
    state = cluster.start(vector(other).float())
    inputs = torch.linspace(-1, 1, 18).view(6, 3).to(dtype)
    for t in range(1, STEPS + 1):
        optimizer.zero_grad()
        net(inputs).square().mean().backward()
        optimizer.step()
        vector_to_parameters(state.replica.x.to(dtype), other.parameters())
        gradient = torch.autograd.grad(other(inputs).square().mean(), list(other.parameters()))
        state = cluster.round(parameters_to_vector(gradient).float().unsqueeze(0), state, 1e-3, t)
        assert torch.equal(optimizer.state_dict()["state"][0]["replica"]["x"], state.replica.x)
        assert torch.equal(vector(net), state.replica.x.to(dtype))


def test_a_parameter_of_16_bits_changed_from_outside_goes_on_from_there_and_others_from_their_copies() -> None:
    param = torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16))
    optimizer = CompressedOptimizer([param], sgd(Identity(), SGD()), lr=1.0)
    param.grad = torch.full_like(param, -(2.0**-10))
    optimizer.step()
    param.data[0] = 3.0
    optimizer.step()
    assert optimizer.state_dict()["state"][0]["replica"]["x"].tolist() == [3 + 2.0**-10, 1 + 2 * 2.0**-10]


def test_16_and_32_bits_are_one_vector() -> None:
    net = network()
    net[0].bfloat16()
    optimizer = CompressedOptimizer(net.parameters(), sgd(Identity(), SGD()), lr=1e-4)
    for param in net.parameters():
        param.grad = torch.ones_like(param)
    before = [param.detach().clone() for param in net.parameters()]
    optimizer.step(), optimizer.step()
    state = optimizer.state_dict()["state"][0]["replica"]["x"]
    expected = torch.cat([(param.float().flatten() - 1e-4) - 1e-4 for param in before])
    assert torch.equal(state, expected)
    for param, values in zip(net.parameters(), state.split([param.numel() for param in before]), strict=True):
        assert torch.equal(param.flatten(), values.to(param.dtype))


def test_the_state_of_16_bits_goes_on_bit_for_bit() -> None:
    net, other = network().bfloat16(), network().bfloat16()
    optimizer, restarted = (CompressedOptimizer(one.parameters(), SIGN, lr=1e-3, seed=3) for one in (net, other))
    train(net, optimizer, steps=STEPS)
    restarted.load_state_dict(from_file(optimizer.state_dict()))
    assert torch.equal(train(net, optimizer, steps=STEPS), train(other, restarted, steps=STEPS))
    assert restarted.state_dict()["state"][0]["digest"] == optimizer.state_dict()["state"][0]["digest"]
    moments = optimizer.state_dict()["state"][0]["replica"]["moments"]
    assert all(leaf.dtype == torch.float32 for leaf in moments.values())
