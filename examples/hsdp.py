"""Two replicas of a sharded model: a small network on scikit-learn's digits, compressed between the replicas.

torchrun --standalone --nproc-per-node=4 examples/hsdp.py
"""

import gc

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy

from algorithms import compress_replicas

REPLICAS = 2


def main() -> None:
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    digits = load_digits()
    images, labels = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
    images_here, labels_here = images[rank::ranks], labels[rank::ranks]

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    mesh = init_device_mesh("cpu", (REPLICAS, ranks // REPLICAS), mesh_dim_names=("replicate", "shard"))
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    replicas = compress_replicas(model, "loco")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    rounds = 100
    for _ in range(rounds):
        batch = torch.randint(len(images_here), (32,))
        optimizer.zero_grad()
        cross_entropy(model(images_here[batch]), labels_here[batch]).backward()
        optimizer.step()

    with torch.no_grad():
        accuracy = (model(images).argmax(1) == labels).float().mean()  # all ranks gather the shards
    if rank == 0:
        dense = 64 * rounds * sum(param.to_local().numel() for param in model.parameters())
        bits = replicas.meter.bits
        saved = f"{dense / bits:.1f} times fewer"
        print(f"accuracy {accuracy:.3f}; {bits} bits between replicas instead of {dense}: {saved}")
    dist.destroy_process_group()
    gc.collect()  # or gloo's threads may outlive the interpreter and abort it (seen with torch 2.13)


if __name__ == "__main__":
    main()
