"""A sharded model with one replica of one shard, in this process: what is refused, and a round."""

from dataclasses import replace

import pytest
import torch
from small_network import group_of_one
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from algorithms import CompressedOptimizer, compress_replicas
from algorithms.registry import load_method


@group_of_one()
def test_a_lone_replica_receives_its_own_gradient_and_mistakes_are_refused() -> None:
    whole = torch.nn.Linear(3, 2)
    with pytest.raises(ValueError, match="no parameter that requires a gradient is sharded by fully_shard"):
        compress_replicas(whole, "loco")
    mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("replicate", "shard"))
    model = fully_shard(torch.nn.Linear(3, 2, device="meta"), mesh=mesh)  # as large models begin
    with pytest.raises(ValueError, match="does not send gradients, or makes its own step"):
        compress_replicas(model, "onebit_adam", rounds=100)
    with pytest.raises(ValueError, match="clip_grad_norm_ after backward"):
        compress_replicas(model, replace(load_method("sgd"), clip=1.0))
    replicas = compress_replicas(model, "sgd")
    model.to_empty(device="cpu")
    model.load_state_dict(fully_shard(whole, mesh=mesh).state_dict())
    for one in (whole, model):
        one(torch.ones(4, 3)).square().mean().backward()
    for one, other in zip(whole.parameters(), model.parameters(), strict=True):
        assert torch.equal(one.grad.to_local(), other.grad.to_local())  # pyright: ignore
    assert replicas.meter.bits == 2 * 32 * 8
    with pytest.raises(ValueError, match=r"no process has the whole gradient.* compress_replicas"):
        CompressedOptimizer(model.parameters(), "cd_adam", lr=0.1)
