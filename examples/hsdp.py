"""Replicas of a sharded model (FSDP2 on a mesh, HSDP); a method compresses gradients between replicas.

    torchrun --standalone --nproc-per-node=4 examples/hsdp.py [METHOD [STEPS [FOLDER]]]

METHOD: a name that `compress_replicas` takes, or `torch` for the original. FOLDER: for the states, and to resume.
"""

import gc
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy

from algorithms import compress_replicas

REPLICAS = 2
inputs = torch.randn(512, 20, generator=torch.Generator().manual_seed(1))
labels = (inputs @ torch.randn(20, 4, generator=torch.Generator().manual_seed(2))).argmax(1)


def main(method: str = "loco", steps: str = "100", folder: str = "") -> None:
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    mesh = init_device_mesh("cpu", (REPLICAS, ranks // REPLICAS), mesh_dim_names=("replicate", "shard"))
    for module in (model[0], model[2], model):
        fully_shard(module, mesh=mesh)
    replicas = None if method == "torch" else compress_replicas(model, method)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    own, common, start = Path(folder, f"memories-{rank}.pt"), Path(folder, "common"), 0
    if folder and common.exists():
        weights, moments = get_state_dict(model, optimizer)
        saved = {"model": weights, "optimizer": moments, "steps": 0}
        dcp.load(saved, checkpoint_id=common)
        set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
        start = saved["steps"]
        if replicas:
            replicas.load_state_dict(torch.load(own))
    for step in range(start, int(steps)):
        batch = torch.arange(rank + 16 * ranks * step, 16 * ranks * (step + 1), ranks) % 512
        optimizer.zero_grad()
        cross_entropy(model(inputs[batch]), labels[batch]).backward()
        optimizer.step()
    if folder:
        weights, moments = get_state_dict(model, optimizer)
        dcp.save({"model": weights, "optimizer": moments, "steps": int(steps)}, checkpoint_id=common)  # by all ranks
        if replicas:
            torch.save(replicas.state_dict(), own)  # one file per rank

    with torch.no_grad():
        loss = cross_entropy(model(inputs), labels)  # on all ranks: it gathers the shards
    if rank == 0:
        bits = f", {replicas.meter.bits} bits between replicas" if replicas else ""
        print(f"{method}: loss {loss:.5f} on {ranks} ranks{bits}")
    dist.destroy_process_group()
    gc.collect()  # or gloo's threads may outlive the interpreter and abort it (seen with torch 2.13)


if __name__ == "__main__":
    main(*sys.argv[1:])
