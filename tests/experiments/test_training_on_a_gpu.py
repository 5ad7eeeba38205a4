"""The trainer's rounds and the networks' passes on a GPU that computes nothing."""

from __future__ import annotations

import contextlib
from typing import Literal

import numpy as np
import pytest
import torch
from pretended_gpu import GPU, PretendedGpu, gpu
from torch import Tensor

from algorithms.compressors import ScaledSign
from algorithms.core.lr_schedules import step_decay
from algorithms.methods.onebit_adam import onebit_adam
from data.dataset import Images
from data.markov import markov
from experiments.cluster.base import Simulated
from experiments.models.flat import FlatModel
from experiments.models.resnet import resnet18
from experiments.models.small_cnn import small_cnn
from experiments.models.transformer import transformer
from experiments.models.vgg import vgg16
from experiments.models.wide_resnet import wide_resnet_16_4
from experiments.tasks.images import ImageClassification
from experiments.tasks.language import LanguageModel
from experiments.training.trainer import Trainer

D, WORKERS = 37, 3
NETWORKS = {"resnet18": resnet18, "vgg16": vgg16, "wrn16_4": wide_resnet_16_4, "small_cnn": small_cnn}
TEXTS = {"transformer": 0.0, "transformer with dropout": 0.2}
Precision = Literal["float32", "tf32", "bf16"]
assert gpu  # a fixture
SOME = [*TEXTS, *(name if name == "small_cnn" else pytest.param(name, marks=pytest.mark.slow) for name in NETWORKS)]


@pytest.fixture(autouse=True)
def generators_of_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the place of a GPU's, of which a CPU's torch has none, as the device of shapes alone has none: that masks
    are drawn where the activations lie is asked of their device."""
    cpus = torch.Generator
    monkeypatch.setattr(torch, "Generator", lambda device="cpu": cpus())


class OnGpu:
    """A task whose gradients lie on the GPU."""

    dtype, device, d = torch.float32, GPU, D

    def start(self) -> Tensor:
        return torch.zeros(D, device=GPU)

    def start_statistics(self) -> Tensor:
        return torch.zeros(WORKERS, 4, device=GPU)

    def gradients(self, x: Tensor, statistics: Tensor, t: int) -> tuple[Tensor, Tensor]:
        return torch.zeros(*x.shape[:-1], WORKERS, D, device=GPU), statistics + 1


def test_a_round_of_training_waits_for_nothing(gpu: PretendedGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """But where a row is due; that the gradients are finite is looked at there too."""
    waited = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waited.append(1))
    algorithm = onebit_adam(ScaledSign(), rounds=6, warmup=2)
    trainer = Trainer(OnGpu(), Simulated(algorithm, WORKERS, 0), lrs=[0.1, 0.2], rounds=6, schedule=step_decay)
    gpu.crossings.clear()
    for _ in range(5):
        trainer.step()
        assert not trainer.verified
    assert (gpu.crossings, waited) == ([], [])
    trainer.step(diagnose=True)
    assert (gpu.crossings, waited) == ([], [1])
    assert {value.device for value in trainer.diagnostics.values()} == {GPU}
    with pytest.raises(RuntimeError):
        trainer.verify()


def text(device: torch.device, dropout: float, precision: Precision = "float32") -> LanguageModel:
    """Two workers, batches of four windows."""
    model = transformer(characters=16, context=8, layers=1, heads=2, width=8, dropout=dropout)
    return LanguageModel(
        markov(2000), model, workers=2, seed=0, device=device, batch_size=4, context=8,
        evaluation_windows=6, evaluation_batch=4, precision=precision,
    )  # fmt: skip


def task(name: str, device: torch.device, precision: Precision = "float32") -> ImageClassification | LanguageModel:
    """Random pictures of the size that a network takes, two workers, batches of four; or a text."""
    if name in TEXTS:
        return text(device, TEXTS[name], precision)
    size, colours = (8, 1) if name == "small_cnn" else (32, 3)
    draw = np.random.default_rng(0)
    train, test = (draw.integers(256, size=(count, size, size, colours), dtype=np.uint8) for count in (16, 6))
    labels = [np.arange(len(images), dtype=np.uint8) % 10 for images in (train, test)]
    dataset = Images("random", train, labels[0], test, labels[1], mean=(0.5,) * colours, std=(0.25,) * colours)
    return ImageClassification(
        dataset, NETWORKS[name](width=2), workers=2, seed=0, device=device, rows=16, batch_size=4,
        evaluation_rows=6, evaluation_batch=4, cuda_graphs=False, precision=precision,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:CUDA is not available")  # by autocast, which is off in float32
@pytest.mark.parametrize("name", SOME)
@torch.no_grad()  # what autograd notes of an operation asks CUDA for a stream
def test_forward_passes_stay_on_the_gpu(name: str, gpu: PretendedGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a round nothing but its draws crosses, of images once an epoch, as a graph needs it that is captured."""
    monkeypatch.setattr(FlatModel, "gradient", lambda model, loss, out: out.copy_(model.vector * loss.detach()))
    images = task(name, GPU)
    x, statistics = images.start().expand(2, -1), images.start_statistics().expand(2, -1, -1)
    gpu.crossings.clear()
    gradients, after = images.gradients(x, statistics, 1)
    assert gpu.crossings == ["to the GPU"]  # the draws
    gpu.crossings.clear()
    images.gradients(x, after, 2)
    assert gpu.crossings == ["to the GPU"] * (name in TEXTS)
    gpu.crossings.clear()
    assert (gradients.device, gradients.shape, after.device) == (GPU, (2, 2, images.d), GPU)
    measured = images.evaluate(x, statistics[:, 0])
    assert {value.device for value in measured.values()} == {GPU}
    assert not gpu.crossings


@pytest.mark.filterwarnings("ignore:CUDA is not available")
@pytest.mark.parametrize("precision", ["float32", "tf32", "bf16"])
@pytest.mark.parametrize("name", ["small_cnn", pytest.param("transformer", marks=pytest.mark.slow)])
@torch.no_grad()
def test_a_methods_own_products_are_rounded_by_tf32_alone(name, precision, gpu, monkeypatch):
    """With bf16 what autocast leaves is float32."""
    monkeypatch.setattr(torch, "autocast", lambda *arguments, **options: contextlib.nullcontext())
    task(name, GPU, precision)
    assert torch.backends.cuda.matmul.allow_tf32 == (precision == "tf32")
