"""A loop with Accelerate: `prepare` wraps the model in DistributedDataParallel, and a method compresses gradients.

    torchrun --standalone --nproc-per-node=2 examples/accelerate_loop.py [METHOD [EPOCHS [FOLDER]]]

METHOD: a name that the hook takes, or `torch` for the original. FOLDER: for the states, and to resume.
"""

import sys
from pathlib import Path

import torch
from accelerate import Accelerator, DataLoaderConfiguration
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from algorithms import compressed

inputs = torch.randn(512, 20, generator=torch.Generator().manual_seed(1))
labels = (inputs @ torch.randn(20, 4, generator=torch.Generator().manual_seed(2))).argmax(1)


def main(method: str = "loco", epochs: str = "8", folder: str = "") -> None:
    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True))
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    loader = DataLoader(TensorDataset(inputs, labels), batch_size=16, shuffle=True)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
    model, optimizer, loader = accelerator.prepare(network, optimizer, loader)
    memories = None
    if method != "torch" and accelerator.num_processes > 1:  # one process does not wrap the model and sends nothing
        memories, hook = compressed(model.parameters(), method)
        model.register_comm_hook(memories, hook)

    own, start = Path(folder, f"memories-{accelerator.process_index}.pt"), 0
    if folder and Path(folder, "model.safetensors").exists():
        accelerator.load_state(folder)
        start = torch.load(Path(folder, "epochs.pt"))
        if memories:
            memories.load_state_dict(torch.load(own))
    for epoch in range(start, int(epochs)):
        loader.set_epoch(epoch)
        for some, targets in loader:
            optimizer.zero_grad()
            accelerator.backward(cross_entropy(model(some), targets))
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    if folder:
        accelerator.save_state(folder)  # model and optimizer of rank 0; they are the same on all ranks
        accelerator.save(int(epochs), Path(folder, "epochs.pt"))
        if memories:
            torch.save(memories.state_dict(), own)  # one file per rank

    loss = cross_entropy(network(inputs), labels)
    accelerator.print(f"{method}: loss {loss:.5f} on {accelerator.num_processes} ranks")
    accelerator.end_training()


if __name__ == "__main__":
    main(*sys.argv[1:])
