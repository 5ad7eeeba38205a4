"""Next-character prediction on a text that is shared over the workers."""

import math
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import torch
from pydantic import PositiveInt
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from algorithms.utils.seeding import keyed_seed
from common.errors import UsageError
from data.dataset import Text, Tokens
from experiments.models.transformer import key_masks
from experiments.tasks.network import NetworkTask
from plots.runs.columns import Column, column


class LanguageModel(NetworkTask):
    """f(x) = mean_i f_i(x), each f_i the mean cross entropy of next characters in worker i's part of m = ⌊N/n⌋.

    N is the length of the training part, and worker i has its characters i·m to (i + 1)·m − 1. In round t it draws
    `batch_size` windows of `context` + 1 characters, uniformly within its part. The model predicts each character of
    a window but the first from all before it. Windows and dropout masks depend on (seed, worker, round) alone.

    Training loss and gradient norm are measured without dropout, over `evaluation_windows` evenly spaced windows of
    the training part. Test loss is over the whole held-out part in consecutive windows, the last one shorter. Each
    character but the very first is predicted once. Losses are in nats per character; bits per character are the test
    loss over log 2.

    Raises ValueError for a model that does not take the text's characters, and UsageError if a worker's part is
    shorter than a window.
    """

    metric = "test_loss"
    columns = (
        *map(column, ("train_loss", "grad_norm", "test_loss")),
        Column("bits_per_character", "held-out bits per character", "bits", better="lower", wandb="loss/bits"),
    )

    def __init__(
        self,
        dataset: Text | Tokens,
        model: nn.Module,
        workers: int,
        seed: int,
        device: torch.device,
        ids: Sequence[int] | None = None,
        batch_size: PositiveInt = 12,  # windows of a worker and round
        context: PositiveInt = 64,  # characters of a window, besides the one that follows
        precision: Literal["float32", "tf32", "bf16"] = "float32",  # of products
        evaluation_windows: PositiveInt = 200,  # of the training part, for its loss and gradient norm
        evaluation_batch: PositiveInt = 64,  # windows at a time
    ) -> None:
        self.workers, self.length = workers, len(dataset.train) // workers
        if self.length <= context:
            raise UsageError(
                f"cluster.workers={workers}: each has {self.length} of {len(dataset.train)} characters, and "
                f"a window takes {context + 1} (task.context); take fewer workers"
            )
        self.rows, self.evaluated = self.length // context, evaluation_windows
        self.batch_size, self.context, self._evaluation_batch = batch_size, context, evaluation_batch
        self._dataset = dataset
        self._train, self._held_out = (
            torch.from_numpy(codes.view(np.int16) if codes.dtype == np.uint16 else codes).to(device)  # see `_codes`
            for codes in (dataset.train, dataset.held_out)
        )
        starts = np.linspace(0, len(dataset.train) - context - 1, evaluation_windows).astype(np.int64)
        self._evaluated = torch.from_numpy(starts).to(device)
        self._within = torch.arange(context + 1, device=device)

        super().__init__(model, range(workers) if ids is None else ids, seed, device, precision)
        if self.model.statistics.numel():
            raise ValueError("model: has a batch norm, but this task keeps no running statistics")
        self._check_model(dataset.vocabulary)

    def gradients_at(self, x: Tensor, statistics: Tensor, t: int) -> tuple[Tensor, Tensor]:
        starts = torch.from_numpy(np.stack([self._starts(worker, t) for worker in self._ids])).to(self.device)

        def loss(place: int) -> Tensor:
            key_masks(self.model.module, self.seed, self._ids[place], t)
            return self._loss(self._windows(starts[place]))

        return self._gradients(x, statistics, loss)

    def epoch(self, t: int) -> float:
        """The characters that a worker predicts in t rounds, over its part's length."""
        return t * self.batch_size * self.context / self.length

    def facts(self) -> dict[str, object]:
        return {
            "data": self._dataset.name,
            "data_sha256": self._dataset.sha256(),
            "d": self.d,
            "characters": len(self._train) + len(self._held_out),
            "alphabet": self._dataset.vocabulary,
            "held_out": len(self._held_out),
            "characters_per_worker": self.length,
            "characters_left_out": len(self._train) - self.workers * self.length,
            "device": str(self.device),
        }

    def _check_model(self, alphabet: int) -> None:
        """Raise ValueError unless the model takes a window of the text, and gives a logit for every character."""
        codes = torch.full((1, self.context), alphabet - 1, device=self.device)
        try:
            with torch.no_grad():
                fits = self.model.module.eval()(codes).shape == (*codes.shape, alphabet)
        except (IndexError, RuntimeError):
            fits = False
        if not fits:
            raise ValueError(
                f"model: must take {self.context} characters (task.context) and give {alphabet} logits for each; set "
                f"task.model.characters={alphabet}"
            )

    def _starts(self, worker: int, t: int) -> np.ndarray:
        """Draw where a worker's windows of round t start in the training part: int64 [batch_size]."""
        random = np.random.default_rng(keyed_seed(self.seed, "windows", worker, t))
        return worker * self.length + random.integers(0, self.length - self.context, self.batch_size)

    def _windows(self, starts: Tensor) -> Tensor:
        """Return the windows of the training part that start there, int64 [N, context + 1]."""
        return _codes(self._train[starts[:, None] + self._within])

    def _loss(self, windows: Tensor) -> Tensor:
        """The mean cross entropy of every character of windows [N, L + 1] but the first."""
        scores = self._scores(windows[:, :-1])
        return cross_entropy(scores.flatten(0, 1), windows[:, 1:].flatten())

    def _evaluate(self) -> dict[str, Tensor]:
        measured = self._train_loss(
            self._loss(self._windows(starts)) * (len(starts) / self.evaluated)
            for starts in self._evaluated.split(self._evaluation_batch)
        )
        test = self.model.vector.new_zeros((), dtype=torch.float64)
        with torch.no_grad():
            for windows in self._held_out_windows():
                test += self._loss(windows).double() * windows[:, 1:].numel()
        test = test / (len(self._held_out) - 1)
        return {**measured, "test_loss": test, "bits_per_character": test / math.log(2)}

    def _held_out_windows(self) -> Iterator[Tensor]:
        """Yield the held-out part in windows int64 [N, L + 1]. A window's last character is the first of the next."""
        whole = (len(self._held_out) - 1) // self.context
        starts = torch.arange(whole, device=self.device) * self.context
        for some in starts.split(self._evaluation_batch) if whole else ():  # no starts would be one empty piece
            yield _codes(self._held_out[some[:, None] + self._within])
        if whole * self.context < len(self._held_out) - 1:
            yield _codes(self._held_out[None, whole * self.context :])


def _codes(stored: Tensor) -> Tensor:
    """Read codes as int64. uint16 codes are stored as int16, because CUDA cannot index a uint16 tensor."""
    return stored.long() & 0xFFFF
