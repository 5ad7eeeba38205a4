"""A loop with DistributedDataParallel: a method compresses the gradients, and all else stays.

    torchrun --standalone --nproc-per-node=2 examples/ddp_hook.py [METHOD [STEPS [FOLDER]]]

METHOD: a name that the hook takes, or `torch` for the original. FOLDER: for the states, and to resume.
"""

import gc
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from algorithms import compressed

inputs = torch.randn(512, 20, generator=torch.Generator().manual_seed(1))
labels = (inputs @ torch.randn(20, 4, generator=torch.Generator().manual_seed(2))).argmax(1)


def main(method: str = "loco", steps: str = "100", folder: str = "") -> None:
    dist.init_process_group("gloo")
    rank, workers = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    model = DistributedDataParallel(network)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
    memories = None
    if method != "torch":
        memories, hook = compressed(model.parameters(), method)
        model.register_comm_hook(memories, hook)

    Path(folder).mkdir(parents=True, exist_ok=True)
    own, common, start = Path(folder, f"memories-{rank}.pt"), Path(folder, "common.pt"), 0
    if folder and common.exists():
        saved = torch.load(common)
        network.load_state_dict(saved["network"]), optimizer.load_state_dict(saved["optimizer"])
        start = saved["steps"]
        if memories:
            memories.load_state_dict(torch.load(own))
    for step in range(start, int(steps)):
        batch = torch.arange(rank + 32 * workers * step, 32 * workers * (step + 1), workers) % 512
        optimizer.zero_grad()
        cross_entropy(model(inputs[batch]), labels[batch]).backward()
        optimizer.step()
    if folder and memories:
        torch.save(memories.state_dict(), own)  # one file per rank
    if folder and rank == 0:  # the same on all ranks
        state = {"network": network.state_dict(), "optimizer": optimizer.state_dict(), "steps": int(steps)}
        torch.save(state, common)

    if rank == 0:
        bits = f", {memories.meter.bits} bits a worker" if memories else ""
        print(f"{method}: loss {cross_entropy(network(inputs), labels):.5f} on {workers} ranks{bits}")
    del model  # goes before its process group, or it may hang
    dist.destroy_process_group(), gc.collect()  # gloo's threads may outlive the interpreter


if __name__ == "__main__":
    main(*sys.argv[1:])
