"""A plain torch loop on several processes: a small network on scikit-learn's digits, one worker a process.

    torchrun --standalone --nproc-per-node=2 examples/two_workers.py [METHOD [STEPS [FOLDER]]]

METHOD: a name of docs/optimizer.md, or `torch` for the original. FOLDER: for every rank's state, and to resume.
"""

import gc
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from algorithms import CompressedOptimizer


def main(method: str = "loco", steps: str = "300", folder: str = "") -> None:
    dist.init_process_group("gloo")
    rank, workers = dist.get_rank(), dist.get_world_size()
    digits = load_digits()
    images, labels = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
    images_here, labels_here = images[rank::workers], labels[rank::workers]

    torch.manual_seed(0)
    model = network = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    if method == "torch":
        model, optimizer = DistributedDataParallel(network), torch.optim.AdamW(network.parameters(), weight_decay=0)
    else:
        optimizer = CompressedOptimizer(network.parameters(), method, lr=1e-3)

    Path(folder).mkdir(parents=True, exist_ok=True)
    file, start = Path(folder, f"rank-{rank}.pt"), 0
    if folder and file.exists():
        saved = torch.load(file)
        network.load_state_dict(saved["network"]), optimizer.load_state_dict(saved["optimizer"])
        start = saved["steps"]
    for step in range(start, int(steps)):
        batch = torch.randint(len(images_here), (128,), generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        cross_entropy(model(images_here[batch]), labels_here[batch]).backward()
        optimizer.step()
    if folder:
        state = {"network": network.state_dict(), "optimizer": optimizer.state_dict(), "steps": int(steps)}
        torch.save(state, file)

    if rank == 0:
        bits = 64 * sum(param.numel() for param in network.parameters()) * int(steps)
        times = "" if method == "torch" else f", {bits / optimizer.meter.bits:.1f} times fewer bits than float32"
        print(f"{method}: loss {cross_entropy(network(images), labels):.5f} on {workers} ranks{times}")
    del model  # DistributedDataParallel goes before its process group
    dist.destroy_process_group()
    gc.collect()  # or gloo's threads may outlive the interpreter and abort it (seen with torch 2.13)


if __name__ == "__main__":
    main(*sys.argv[1:])
