"""The loop of nanoGPT's train.py with a small network and without DDP: accumulation, schedule, clipping.

    torchrun --standalone --nproc-per-node=2 examples/nanogpt_loop.py [METHOD [STEPS [FOLDER]]]

METHOD: a name of docs/optimizer.md, or `torch` for the original. FOLDER: for every rank's checkpoints, and to resume.
"""

import gc
import math
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from algorithms import CompressedOptimizer

text = torch.arange(4096).square().cumsum(0) % 31 % 16  # codes of 16 characters
LR, ACCUMULATION, WINDOW, ALL_STEPS = 3e-3, 2, 8, 60


def loss_of(model: nn.Module, seed: int) -> torch.Tensor:
    starts = torch.randint(len(text) - WINDOW, (32,), generator=torch.Generator().manual_seed(seed))
    return nn.functional.cross_entropy(model(text[starts[:, None] + torch.arange(WINDOW)]), text[starts + WINDOW])


def main(method: str = "loco", steps: str = str(ALL_STEPS), folder: str = "") -> None:
    dist.init_process_group("gloo")
    rank, workers = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1337)
    layers = nn.Embedding(16, 16), nn.Flatten(), nn.Linear(16 * WINDOW, 64), nn.GELU(), nn.Linear(64, 16)
    model = raw_model = nn.Sequential(*layers)
    if method == "torch":
        model, optimizer = DistributedDataParallel(raw_model), torch.optim.AdamW(raw_model.parameters(), lr=LR)
    else:
        optimizer = CompressedOptimizer(raw_model.parameters(), method, lr=LR, weight_decay=0.01)
    Path(folder).mkdir(parents=True, exist_ok=True)
    file, start = Path(folder, f"ckpt-{rank}.pt"), 0
    if folder and file.exists():
        saved = torch.load(file)
        raw_model.load_state_dict(saved["model"]), optimizer.load_state_dict(saved["optimizer"])
        start = saved["step"]
    for step in range(start, int(steps)):
        for group in optimizer.param_groups:
            group["lr"] = LR * (0.1 + 0.45 * (1 + math.cos(math.pi * step / ALL_STEPS)))
        for micro_step in range(ACCUMULATION):
            model.require_backward_grad_sync = micro_step == ACCUMULATION - 1  # no effect without DDP
            (loss_of(model, ACCUMULATION * (workers * step + rank) + micro_step) / ACCUMULATION).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # clips this worker's gradient; with DDP, the mean
        optimizer.step(), optimizer.zero_grad()
    if folder:  # on every rank, not only the master
        states = {"model": raw_model.state_dict(), "optimizer": optimizer.state_dict(), "step": int(steps)}
        torch.save(states, file)
    if rank == 0:
        bits = "" if method == "torch" else f", {optimizer.meter.bits} bits a worker"
        print(f"{method}: loss {loss_of(raw_model, 2**40):.5f} on {workers} ranks{bits}")
    del model
    dist.destroy_process_group(), gc.collect()  # gloo's threads may outlive the interpreter


if __name__ == "__main__":
    main(*sys.argv[1:])
