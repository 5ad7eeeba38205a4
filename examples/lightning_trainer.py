"""Lightning's Trainer with DDP: a callback compresses the gradients; module and optimizer stay as they are.

    torchrun --standalone --nproc-per-node=2 examples/lightning_trainer.py [METHOD [EPOCHS [FOLDER]]]

METHOD: a name that the hook takes, or `torch` for the original. FOLDER: for the checkpoint, and to resume.
"""

import os
import sys
from pathlib import Path

from data import torchvision_operators  # noqa: F401 # isort: skip  This checkout's torchvision may not fit torch for CPUs

import torch
import torch.distributed as dist
from lightning import Callback, LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset

from algorithms import compressed

inputs = torch.randn(512, 20, generator=torch.Generator().manual_seed(1))
labels = (inputs @ torch.randn(20, 4, generator=torch.Generator().manual_seed(2))).argmax(1)


class Module(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = torch.nn.Linear(20, 4)

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], number: int) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(self.network(batch[0]), batch[1])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


class Compressed(Callback):
    def __init__(self, method: str) -> None:
        self.method, self.saved = method, None

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:  # DDP has wrapped the module
        self.memories, hook = compressed(trainer.model.parameters(), self.method)
        trainer.model.register_comm_hook(self.memories, hook)
        if self.saved:
            self.memories.load_state_dict(self.saved[trainer.global_rank])

    def state_dict(self) -> dict:  # memories of all ranks, since rank 0 writes the checkpoint
        states = [None] * dist.get_world_size()
        dist.all_gather_object(states, self.memories.state_dict())
        return {"memories": states}

    def load_state_dict(self, state_dict: dict) -> None:
        self.saved = state_dict["memories"]


def main(method: str = "loco", epochs: str = "8", folder: str = "") -> None:
    torch.manual_seed(0)
    module, compression, file = Module(), Compressed(method), Path(folder, "last.ckpt")
    callbacks = [] if method == "torch" else [compression]
    options = {"gradient_clip_val": 1.0, "logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    where = {"accelerator": "cpu", "strategy": "ddp", "devices": int(os.environ.get("LOCAL_WORLD_SIZE", 1))}
    trainer = Trainer(**where, **options, max_epochs=int(epochs), callbacks=callbacks)
    loader = DataLoader(TensorDataset(inputs, labels), batch_size=16, shuffle=True)
    trainer.fit(module, loader, ckpt_path=str(file) if folder and file.exists() else None)
    if folder:
        trainer.save_checkpoint(file)
    if trainer.is_global_zero:
        print(f"{method}: loss {module.training_step((inputs, labels), 0):.5f} on {trainer.world_size} ranks")


if __name__ == "__main__":
    main(*sys.argv[1:])
