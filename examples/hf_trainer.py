"""Transformers' Trainer with a tiny BERT: a callback compresses the gradients that DistributedDataParallel averages.

    torchrun --standalone --nproc-per-node=2 examples/hf_trainer.py [METHOD [STEPS [FOLDER]]]

METHOD: a name that the hook takes, or `torch` for the original. FOLDER: for checkpoints, and to resume.
"""

import sys
from pathlib import Path
from tempfile import mkdtemp

from data import torchvision_operators  # noqa: F401 # isort: skip  This checkout's torchvision may not fit torch for CPUs

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

from algorithms import compressed

sentences = torch.randint(50, (512, 8), generator=torch.Generator().manual_seed(1))
data = [{"input_ids": words, "labels": int(words[0] >= 25)} for words in sentences]
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}


class Compressed(TrainerCallback):
    trainer, memories = None, None

    def __init__(self, method: str) -> None:
        self.method = method

    def file(self, args: TrainingArguments, step: int) -> Path:
        return Path(args.output_dir, f"checkpoint-{step}", f"memories-{args.process_index}.pt")

    def on_train_begin(self, args, state, control, **kwargs) -> None:
        if args.world_size > 1:  # one process: the model is not wrapped, and nothing is sent
            self.memories, hook = compressed(self.trainer.model_wrapped.parameters(), self.method)
            self.trainer.model_wrapped.register_comm_hook(self.memories, hook)
        if self.memories and state.global_step:
            self.memories.load_state_dict(torch.load(self.file(args, state.global_step)))

    def on_save(self, args, state, control, **kwargs) -> None:
        if self.memories:
            torch.save(self.memories.state_dict(), self.file(args, state.global_step))  # one file per rank


def main(method: str = "loco", steps: str = "60", folder: str = "") -> None:
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig(vocab_size=50, max_position_embeddings=8, **SIZES))
    arguments = TrainingArguments(
        **{"output_dir": folder or mkdtemp(), "use_cpu": True, "ddp_backend": "gloo", "report_to": "none"},
        **{"max_steps": int(steps), "save_steps": int(steps), "learning_rate": 3e-3, "disable_tqdm": True},
        **{"per_device_train_batch_size": 16, "lr_scheduler_type": "constant", "logging_strategy": "no"},
    )
    callback = Compressed(method)
    trainer = Trainer(model, arguments, train_dataset=data, callbacks=[] if method == "torch" else [callback])
    callback.trainer = trainer
    trainer.train(resume_from_checkpoint=get_last_checkpoint(folder) if folder else None)
    if trainer.is_world_process_zero():
        loss = model.eval()(sentences, labels=torch.tensor([one["labels"] for one in data])).loss
        print(f"{method}: loss {loss:.5f} on {arguments.world_size} ranks")


if __name__ == "__main__":
    main(*sys.argv[1:])
