"""SparseLoCo around AdamW: workers train separately, and every 15 steps exchange two bits of a few coordinates.

torchrun --standalone --nproc-per-node=2 examples/local_steps.py
"""

import gc

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy

from algorithms import LocalSteps

STEPS, PERIOD = 300, 15  # the last step ends with an exchange, so that all workers have one model


def main() -> None:
    dist.init_process_group("gloo")
    rank, workers = dist.get_rank(), dist.get_world_size()
    digits = load_digits()
    images, labels = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
    images_here, labels_here = images[rank::workers], labels[rank::workers]

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    inner = torch.optim.AdamW(model.parameters(), lr=1e-2)
    optimizer = LocalSteps(inner, "sparseloco", period=PERIOD)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(inner, STEPS)
    for _ in range(STEPS):
        batch = torch.randint(len(images_here), (128,))
        optimizer.zero_grad()
        cross_entropy(model(images_here[batch]), labels_here[batch]).backward()
        optimizer.step()
        scheduler.step()

    if rank == 0:
        accuracy = (model(images).argmax(1) == labels).float().mean()
        dense = 64 * sum(param.numel() for param in model.parameters()) * optimizer.t
        bits = optimizer.meter.bits
        print(f"accuracy {accuracy:.3f}; {bits} bits a worker instead of {dense}: {dense / bits:.0f} times fewer")
    dist.destroy_process_group()
    gc.collect()  # or gloo's threads may outlive the interpreter and abort it (seen with torch 2.13)


if __name__ == "__main__":
    main()
