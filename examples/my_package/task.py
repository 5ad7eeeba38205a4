"""Robust linear classification."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from algorithms.core.algorithm import Algorithm
from algorithms.utils.seeding import keyed_seed
from data.dataset import Dataset
from data.partition import share
from plots.runs.columns import Column


class RobustRegression:
    """f(x) = mean_i f_i(x) with Cauchy's loss of the residuals r_j = y_j − a_jᵀx, over the m rows of worker i:

        f_i(x) = (1/m) Σ_j (c²/2) log(1 + r_j²/c²)

    in float64, from x₁ = 0. Nonconvex: the pull of outliers, rows with |r_j| > c, falls with their distance.

    `scale` is c. `batch_size` is the number of rows that each worker draws a round, without replacement; None takes
    all. Rows are shared at random. `workers`, `seed` and `ids` come from the project: n, the run's seed, and the
    workers of this process (None for all).
    """

    dtype = torch.float64
    devices = ("cpu",)
    columns = (Column("median_residual", "median of $|r_j|$", better="lower"),)  # in addition to the project's
    device = torch.device("cpu")

    def __init__(
        self,
        dataset: Dataset,
        workers: int,
        seed: int,
        ids: Sequence[int] | None = None,
        scale: float = 1.0,
        batch_size: int | None = None,
    ) -> None:
        if scale <= 0:
            raise ValueError(f"scale={scale}: must be positive")
        rows = share(dataset.labels, workers, "shuffled", seed)  # [n, m]
        if batch_size is not None and not 1 <= batch_size <= rows.shape[1]:
            raise ValueError(
                f"batch_size={batch_size}: a worker has {rows.shape[1]} rows; choose at most that, or null"
            )
        self._a = torch.from_numpy(dataset.features.toarray())[rows]  # [n, m, d]
        self._y = torch.from_numpy(dataset.labels.astype(np.float64))[rows]  # [n, m]
        self.workers, self._m, self.d = self._a.shape
        self.sizes = (self.d,)  # one parameter tensor, and so one block for `partition=layer`
        self._ids = range(workers) if ids is None else ids
        self._scale, self._batch_size, self._seed, self._dataset = scale, batch_size, seed, dataset

    def start(self) -> Tensor:
        """x₁ = 0, [d]."""
        return torch.zeros(self.d, dtype=self.dtype)

    def start_statistics(self) -> Tensor:
        """There are none: [W, 0]."""
        return torch.zeros(len(self._ids), 0, dtype=self.dtype)

    def gradients(self, x: Tensor, statistics: Tensor, t: int) -> tuple[Tensor, Tensor]:
        """∇f_i(x) [T, W, d] at x [T, d] in round t, one worker at a time, so that the others do not affect it."""
        each = [self._gradient(x, *self._batch(worker, t)) for worker in self._ids]
        return torch.stack(each, -2), statistics

    def evaluate(self, x: Tensor, statistics: Tensor) -> dict[str, Tensor]:
        """f(x), ‖∇f(x)‖₂, the share of rows on the right side of zero and the median |r_j|, each [T], of all rows."""
        a, y = self._a.flatten(0, 1), self._y.flatten()
        residuals = y - x @ a.T
        loss = (self._scale**2 / 2 * torch.log1p((residuals / self._scale) ** 2)).mean(-1)
        return {
            "train_loss": loss,
            "grad_norm": torch.linalg.vector_norm(self._gradient(x, a, y), dim=-1),
            "train_accuracy": ((x @ a.T > 0) == (y > 0)).to(x.dtype).mean(-1),
            "median_residual": residuals.abs().median(-1).values,
        }

    def epoch(self, t: int) -> float:
        """Passes over the data after t rounds."""
        return t * (self._batch_size or self._m) / self._m

    def step_unit(self, algorithm: Algorithm) -> float:
        """Step sizes are absolute."""
        return 1.0

    def facts(self) -> dict[str, object]:
        """Facts for the run's record."""
        return {
            "data": self._dataset.name,
            "data_sha256": self._dataset.sha256(),
            "d": self.d,
            "rows": len(self._dataset.labels),
            "rows_per_worker": self._m,
        }

    def _batch(self, worker: int, t: int) -> tuple[Tensor, Tensor]:
        """Draw a worker's rows of round t by name, never from a stream: a resumed run draws the same."""
        if self._batch_size is None:
            return self._a[worker], self._y[worker]
        random = np.random.default_rng(keyed_seed(self._seed, "batch", worker, t))
        rows = random.choice(self._m, self._batch_size, replace=False)
        return self._a[worker, rows], self._y[worker, rows]

    def _gradient(self, x: Tensor, a: Tensor, y: Tensor) -> Tensor:
        """∇ [T, d] of the mean loss over rows a [m, d] with labels y [m]: −mean_j r_j/(1 + r_j²/c²) a_j."""
        residuals = y - x @ a.T
        return -(residuals / (1 + (residuals / self._scale) ** 2)) @ a / len(y)
