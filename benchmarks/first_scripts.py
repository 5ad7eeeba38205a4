"""Two well-known first scripts, trained with each method: a first try of `CompressedOptimizer`.

    torchrun --standalone --nproc-per-node=2 -m benchmarks.first_scripts data_dir=FOLDER

Writes results/first_scripts.csv, and results/first_scripts.md from it. A repeated command skips runs that are in the
table. If FOLDER lacks tiny Shakespeare, it is downloaded there.

mnist      the network of pytorch/examples' mnist script, without its schedule; scikit-learn's digits at 28 × 28, with
           every fifth for the test; 64 images a step, half of them on each rank
nanogpt    the small setting of karpathy/nanoGPT's readme, with 300 steps instead of 2,000; 50 of them are warm-up; a
           cosine to a tenth, every rank's gradient clipped to norm 1, no decay; 12 windows of 64 characters a step
"""

import gc
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from math import cos, pi
from pathlib import Path
from typing import Any

import pandas as pd
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, interpolate
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_

from algorithms import CompressedOptimizer, LocalSteps
from data.shakespeare import load
from experiments.models.initial import initialise
from experiments.models.transformer import transformer
from experiments.run_store.environment import environment
from plots.figure.markdown import row_table

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Case:
    """A run of a script: its method, step size, seed, and the steps after which it is evaluated."""

    script: str
    method: str
    lr: float
    seed: int
    ends: tuple[int, ...]


MNIST = {
    "torch": [1e-3],
    "loco": [1e-3],
    "naive": [1e-3],
    "error_feedback": [1e-3],
    "cd_adam": [1e-3, 1e-4],
    "cd_adam partition=layer": [1e-3],
    "ef21": [1e-3, 1e-1],
    "signum": [1e-4],
    "distributed_lion": [1e-4],
    "onebit_adam": [1e-3],
    "sparseloco": [1e-3],
    "diloco": [1e-3],
}
PERIODS = {"sparseloco": 15, "diloco": 10}
NANOGPT = (
    *("torch", "loco", "onebit_adam", "cd_adam", "naive", "distributed_lion", "cd_adam partition=layer"),
    *PERIODS,
)


def cases() -> list[Case]:
    """Return all runs. 1-bit Adam has a warm-up, so each number of steps is a separate run."""
    runs = [Case("nanogpt", method, 1e-3, 0, (300,)) for method in NANOGPT]
    for seed in range(3):
        for method, lrs in MNIST.items():
            lengths = [(30,), (90,)] if method == "onebit_adam" else [(30, 90)]
            runs += [Case("mnist", method, lr, seed, ends) for lr in lrs for ends in lengths]
    return runs


def build(case: Case, model: nn.Module, betas: tuple[float, float]) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Return the model, wrapped if the method needs it, and its optimizer."""
    inner = torch.optim.Adam(model.parameters(), lr=case.lr, betas=betas)  # AdamW too: there is no decay
    if case.method == "torch":
        return DistributedDataParallel(model), inner
    if case.method in PERIODS:
        return model, LocalSteps(inner, case.method, period=PERIODS[case.method])
    method, _, partition = case.method.partition(" partition=")
    options: dict[str, Any] = {
        "loco": {"betas": betas},
        "onebit_adam": {"rounds": case.ends[-1], "betas": betas},
        "distributed_lion": {"workers": dist.get_world_size()},
    }.get(method, {})
    return model, CompressedOptimizer(
        model.parameters(), method, lr=case.lr, partition=partition or "whole", **options
    )


def train_mnist(case: Case) -> Iterator[dict[str, float]]:
    """Yield test loss and accuracy. Images [1797, 1, 28, 28] are scaled as the script scales MNIST's."""
    digits = load_digits()
    images, labels = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16, torch.tensor(digits.target)
    images = (interpolate(images, size=28, mode="bilinear") - 0.1307) / 0.3081
    is_test = torch.arange(len(images)) % 5 == 0
    rank, size = dist.get_rank(), dist.get_world_size()
    mine, mine_labels = images[~is_test][rank::size], labels[~is_test][rank::size]
    torch.manual_seed(case.seed)
    model = nn.Sequential(
        *(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25)),
        *(nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10)),
    )
    model, optimizer = build(case, model, betas=(0.9, 0.999))
    torch.manual_seed(1000 * case.seed + rank)
    for step in range(1, case.ends[-1] + 1):
        batch = torch.randperm(len(mine))[: 64 // size]
        model.train().zero_grad()
        cross_entropy(model(mine[batch]), mine_labels[batch]).backward()
        optimizer.step()
        if step in case.ends:
            with torch.no_grad():
                scores, target = model.eval()(images[is_test]), labels[is_test]
            accuracy = (scores.argmax(1) == target).double().mean().item()
            yield {"loss": cross_entropy(scores, target).item(), "accuracy": accuracy, "bits": bits(optimizer, step)}


def train_nanogpt(case: Case, data_dir: str) -> Iterator[dict[str, float]]:
    """Yield the held-out loss, in nats per character, over 200 evenly spaced windows."""
    text, rank, size = load(data_dir), dist.get_rank(), dist.get_world_size()
    train, held_out = (torch.from_numpy(codes).long() for codes in (text.train, text.held_out))
    model, [steps] = transformer(), case.ends
    initialise(model, case.seed)
    model, optimizer = build(case, model, betas=(0.9, 0.99))
    torch.manual_seed(1000 * case.seed + rank)
    for step in range(steps):
        decay = 0.1 + 0.9 * (1 + cos(pi * max(0, step - 50) / (steps - 50))) / 2
        optimizer.param_groups[0]["lr"] = case.lr * min(1, (step + 1) / 50) * decay
        model.zero_grad()
        loss_of(model, train, torch.randint(len(train) - 64, (12 // size,))).backward()
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    with torch.no_grad():
        starts = torch.linspace(0, len(held_out) - 65, 200).long()
        yield {"loss": loss_of(model, held_out, starts).item(), "bits": bits(optimizer, steps)}


def loss_of(model: nn.Module, codes: Tensor, starts: Tensor) -> Tensor:
    windows = codes[starts[:, None] + torch.arange(65)]
    return cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())


def bits(optimizer: torch.optim.Optimizer, steps: int) -> int:
    """Return the bits that one rank sent and received; torch's optimizer: 64 a coordinate and round."""
    if isinstance(optimizer, CompressedOptimizer | LocalSteps):
        return optimizer.meter.bits
    return 64 * steps * sum(param.numel() for param in optimizer.param_groups[0]["params"])


def report(rows: pd.DataFrame) -> str:
    """Return Markdown: the machine, and a table per script with mean, least and greatest over seeds."""
    machine = f"{date.today()}, {environment()['processor']}, torch {torch.__version__}"
    lines = [f"# First scripts\n\n{machine}; 2 gloo ranks. `benchmarks.first_scripts` describes the scripts.\n"]
    for script, group in rows.groupby("script"):
        dense = group[group["method"] == "torch"].groupby("steps")["bits"].first()
        group = group.dropna(axis=1, how="all").assign(times=group["steps"].map(dense) / group["bits"])
        table = group.groupby(["method", "lr", "steps"], sort=False).agg({
            **{name: format_spread for name in ("loss", "accuracy") if name in group},
            "times": lambda times: f"{times.mean():.3g}",
        }).rename(columns={"times": "times fewer bits"}).reset_index().astype(str)  # fmt: skip
        seeds = ", ".join(map(str, sorted(set(group["seed"]))))
        about = f"Seeds {seeds}. Means, with the least and the greatest." if "," in seeds else f"Seed {seeds}."
        lines += [f"## {script}\n\n{about}\n", *row_table(list(table), table.to_numpy()), ""]
    return "\n".join(lines)


def format_spread(values: pd.Series) -> str:
    if values.isna().any():
        return "not finite"
    if len(values) == 1:
        return f"{values.mean():.3f}"
    return f"{values.mean():.3f} ({values.min():.3f} to {values.max():.3f})"


def main(arguments: list[str]) -> None:
    """Run the command line above."""
    data_dir = dict(argument.split("=") for argument in arguments).get("data_dir", "data/downloads")
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    file = RESULTS / "first_scripts.csv"
    rows = pd.read_csv(file).to_dict("records") if file.exists() else []
    done = {tuple(row[name] for name in ("script", "method", "lr", "seed", "steps")) for row in rows}
    for case in cases():
        about = {"script": case.script, "method": case.method, "lr": case.lr, "seed": case.seed}
        if (*about.values(), case.ends[-1]) not in done:
            measured = train_mnist(case) if case.script == "mnist" else train_nanogpt(case, data_dir)
            rows += [{**about, "steps": steps, **metrics} for steps, metrics in zip(case.ends, measured, strict=True)]
            if dist.get_rank() == 0:
                pd.DataFrame(rows).to_csv(file, index=False, float_format="%.6g")
                print(rows[-1], flush=True)
    if dist.get_rank() == 0:
        (RESULTS / "first_scripts.md").write_text(report(pd.DataFrame(rows)))
    dist.destroy_process_group()
    gc.collect()


if __name__ == "__main__":
    main(sys.argv[1:])
