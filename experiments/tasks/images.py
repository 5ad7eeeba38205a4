"""Image classification by a network, every worker with its own batch-norm statistics."""

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import torch
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from algorithms.utils.layout import with_ends
from algorithms.utils.seeding import keyed_seed
from data.dataset import Images, Place
from data.partition import share
from experiments.tasks.graph import CudaGraph
from experiments.tasks.network import NetworkTask
from plots.runs.columns import column


class ImageClassification(NetworkTask):
    """f(x) = mean_i f_i(x), each f_i the mean cross entropy over the m = ⌊N/n⌋ images of worker i (CD-Adam, 7.2).

    In round t every worker takes a batch of `batch_size` of its images, randomly cropped out of a frame of `padding`
    black pixels and, with `flip`, mirrored. It shuffles its part after every epoch of ⌊m/batch_size⌋ rounds. Every
    worker keeps its own running statistics of batch norm; evaluation uses worker 0's. Gradients are without weight
    decay, which belongs to the update.

    Training loss and gradient norm are measured without augmentation in evaluation mode, over the first
    `evaluation_rows` images in use (None: all). Test loss and accuracy are over the whole test set.

    `rows` is N. Raises ValueError or UsageError if the data cannot be shared over the workers, or if the model has
    fewer logits than the data have classes.
    """

    metric = "train_loss"
    columns = tuple(map(column, ("train_loss", "grad_norm", "test_loss", "test_accuracy")))

    def __init__(
        self,
        dataset: Images,
        model: nn.Module,
        workers: int,
        seed: int,
        device: torch.device,
        rows: PositiveInt = 50000,  # training images in use, from the first on
        ids: Sequence[int] | None = None,
        batch_size: PositiveInt = 128,  # of a worker and round
        partition: Literal["contiguous", "shuffled", "dirichlet"] = "shuffled",  # contiguous: file order
        alpha: PositiveFloat = 0.5,  # of the Dirichlet label skew: smaller is more skewed
        padding: NonNegativeInt = 4,  # black pixels around an image before it is cropped
        flip: bool = True,  # mirror each image with probability 1/2
        precision: Literal["float32", "tf32", "bf16"] = "float32",  # of convolutions
        evaluation_rows: PositiveInt | None = None,  # training images of train_loss, from the first on; null: all
        evaluation_batch: PositiveInt = 1000,  # images at a time
        cuda_graphs: Place[bool] = True,  # on a GPU, replay a round's forward and backward passes as one graph
    ) -> None:
        if rows > len(dataset.train_labels):
            raise ValueError(f"rows={rows}: {dataset.name} has {len(dataset.train_labels)} training images")
        parts = share(dataset.train_labels[:rows], workers, partition, seed, alpha)
        self.workers, self.rows = parts.shape
        self.rounds_per_epoch = self.rows // batch_size
        if not self.rounds_per_epoch:
            raise ValueError(f"batch_size={batch_size}: a worker has {self.rows} images; choose at most that")
        self.batch_size = batch_size
        self._dataset, self._left_out, self._parts = dataset, rows - parts.size, parts
        self._padding, self._flip = padding, flip
        self._evaluated = torch.from_numpy(np.sort(parts.reshape(-1))[:evaluation_rows]).to(device)
        self.evaluated, self._evaluation_batch = len(self._evaluated), evaluation_batch

        super().__init__(model, range(workers) if ids is None else ids, seed, device, precision)
        self.layout = with_ends(self.layout)
        self._images, self._labels, self._test_images, self._test_labels = (
            torch.from_numpy(array).to(device) for array in dataset.arrays().values()
        )
        self._mean, self._std = (torch.tensor(values, device=device) for values in (dataset.mean, dataset.std))
        self._check_model(dataset.classes)
        self._epoch, self._draws = -1, torch.empty(0)  # int64 [rounds, W, batch_size, 4]
        self._round = CudaGraph(self._run_passes) if cuda_graphs and device.type == "cuda" else self._run_passes

    def gradients_at(self, x: Tensor, statistics: Tensor, t: int) -> tuple[Tensor, Tensor]:
        epoch, round = divmod(t - 1, self.rounds_per_epoch)
        if epoch != self._epoch:
            each = [
                draws(self.seed, worker, epoch, self._parts[worker], self.batch_size, self._padding, self._flip)
                for worker in self._ids
            ]
            self._epoch, self._draws = epoch, torch.from_numpy(np.stack(each, 1)).to(self.device)
        gradients, statistics = self._round(x, statistics, self._draws[round])
        return gradients, statistics

    def epoch(self, t: int) -> float:
        return t / self.rounds_per_epoch

    def facts(self) -> dict[str, object]:
        return {
            "data": self._dataset.name,
            "data_sha256": self._dataset.sha256(),
            "d": self.d,
            "rows": self.workers * self.rows + self._left_out,
            "rows_per_worker": self.rows,
            "rows_left_out": self._left_out,
            "rounds_per_epoch": self.rounds_per_epoch,
            "device": str(self.device),
        }

    def _check_model(self, classes: int) -> None:
        """Raise ValueError unless the model gives a logit for every class."""
        self.model.module.eval()
        with torch.no_grad():
            logits = self._scores(normalise(self._images[:1], self._mean, self._std)).shape[-1]
        if logits < classes:
            raise ValueError(
                f"model: gives {logits} logits, and {self._dataset.name} has {classes} classes; this project's "
                f"networks take task.model.classes={classes}"
            )

    def _run_passes(self, x: Tensor, statistics: Tensor, draw: Tensor) -> tuple[Tensor, Tensor]:
        """Forward and backward of every trial and worker, at models [T, W or 1, d] for draws [W, batch_size, 4]."""
        images = normalise(augment(self._images, draw.flatten(0, 1), self._padding), self._mean, self._std)
        batches = images.split(self.batch_size)
        labels = self._labels[draw[..., 0]].long()
        return self._gradients(
            x, statistics, lambda place: cross_entropy(self._scores(batches[place]), labels[place])
        )

    def _evaluate(self) -> dict[str, Tensor]:
        measured = self._train_loss(
            cross_entropy(self._scores(images), labels, reduction="sum") / len(self._evaluated)
            for images, labels in self._batches(self._images[self._evaluated], self._labels[self._evaluated])
        )
        test, right = self.model.vector.new_zeros(2, dtype=torch.float64)
        with torch.no_grad():
            for images, labels in self._batches(self._test_images, self._test_labels):
                scores = self._scores(images)
                test += cross_entropy(scores, labels, reduction="sum")
                right += (scores.argmax(-1) == labels).sum()
        count = len(self._test_labels)
        return {**measured, "test_loss": test / count, "test_accuracy": right / count}

    def _batches(self, images: Tensor, labels: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Normalised images and labels, `evaluation_batch` at a time."""
        for some, theirs in zip(*(all_.split(self._evaluation_batch) for all_ in (images, labels)), strict=True):
            yield normalise(some, self._mean, self._std), theirs.long()

    def _scores(self, inputs: Tensor) -> Tensor:
        return super()._scores(inputs.contiguous(memory_format=self.model.memory_format))


def draws(
    seed: int, worker: int, epoch: int, rows: np.ndarray, batch_size: int, padding: int, flip: bool
) -> np.ndarray:
    """Draw one worker's batches of an epoch: int64 [rounds, batch_size, 4] of image, top, left and flip.

    Its rows are shuffled anew every epoch and cut into ⌊m/batch_size⌋ batches, without the remainder. Offsets are
    uniform in 0 … 2·padding, flips are 0 or 1. All depends on (seed, worker, epoch) alone.
    """
    random = np.random.default_rng(keyed_seed(seed, "images", worker, epoch))
    rounds = len(rows) // batch_size
    order = random.permutation(rows)[: rounds * batch_size]
    offsets = random.integers(0, 2 * padding + 1, (len(order), 2))
    flips = random.integers(0, 2, (len(order), 1)) * flip
    return np.concatenate([order[:, None], offsets, flips], 1).reshape(rounds, batch_size, 4)


def augment(images: Tensor, draw: Tensor, padding: int) -> Tensor:
    """Pad the drawn images with black, crop them back to their size and flip them: uint8 [N, h, w, c].

    images: uint8 [all, h, w, c]. draw: int64 [N, 4] of image, top, left and flip, see `draws`.
    """
    row, top, left, flipped = draw.unbind(-1)
    height, width = images.shape[1:3]
    padded = pad(images[row], (0, 0, padding, padding, padding, padding))
    across = torch.arange(width, device=images.device)
    across = torch.where(flipped.bool()[:, None], across.flip(0), across) + left[:, None]  # [N, w]
    down = torch.arange(height, device=images.device) + top[:, None]  # [N, h]
    every = torch.arange(len(row), device=images.device)
    return padded[every[:, None, None], down[:, :, None], across[:, None, :]]


def normalise(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """(pixel/255 − mean)/std by channel: images uint8 [N, h, w, c] as float32 [N, c, h, w], channels_last."""
    return ((images.float() / 255 - mean) / std).permute(0, 3, 1, 2)
