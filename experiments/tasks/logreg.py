"""Nonconvex logistic regression on sparse data, for all workers and all trials at once."""

import warnings
from collections.abc import Sequence
from functools import cached_property
from typing import Literal

import numpy as np
import scipy.sparse as sp
import torch
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt
from torch import Tensor
from torch.nn.functional import logsigmoid

from algorithms.core.algorithm import Algorithm
from algorithms.utils.layout import laid_out
from algorithms.utils.seeding import keyed_seed
from data.dataset import Dataset, shape
from data.limits import check_memory
from data.partition import share
from plots.runs.columns import column


class LogisticRegression:
    """f(x) = mean_i f_i(x), each f_i over the m = ⌊N/n⌋ rows (a_j, y_j) of worker i (CD-Adam paper, eq. 7.1):

        f_i(x) = (1/m) Σ_j log(1 + exp(−y_j a_jᵀx)) + λ Σ_k x_k²/(1 + x_k²)

    in float64, from x₁ = 0. Rows that do not divide over the workers are left out and reported by `facts`.

    `workers` is n. `ids` are the workers of this process, neighbours in ascending order; None for all. Batches are
    drawn without replacement. `step_unit=theory` is the largest step size that the method is proven for with full
    gradients, on these data and with this compressor. Methods without a proof take EF21's, and so does EF21-SGDM.
    Raises ValueError or UsageError if the data cannot be shared over the workers.
    """

    dtype = torch.float64
    devices = ("cpu",)
    metric = "grad_norm"
    columns = tuple(map(column, ("train_loss", "grad_norm", "train_accuracy")))
    device = torch.device("cpu")

    def __init__(
        self,
        dataset: Dataset,
        workers: int,
        seed: int,
        ids: Sequence[int] | None = None,
        regularization: NonNegativeFloat = 0.1,  # λ
        batch_size: PositiveInt | None = None,  # rows a worker draws each round; null: all, exact local gradients
        partition: Literal["contiguous", "shuffled", "dirichlet"] = "contiguous",  # contiguous: file order
        alpha: PositiveFloat = 0.5,  # of the Dirichlet label skew: smaller is more skewed
        step_unit: Literal["one", "theory"] = "one",  # unit of lr; theory: the method's step size, or EF21's
    ) -> None:
        parts = share(dataset.labels, workers, partition, seed, alpha)
        self.workers, self.rows = parts.shape
        if batch_size is not None and batch_size > self.rows:
            raise ValueError(f"batch_size={batch_size}: a worker has {self.rows} rows; choose at most that, or null")
        self.d = shape(dataset.features)[1]
        self.sizes = (self.d,)  # of the parameter tensors: there is one
        self.layout = laid_out([("x", self.sizes, "vector")])
        self.regularization, self.batch_size, self.seed = regularization, batch_size, seed
        self.evaluated = self.workers * self.rows
        self._step_unit, self._dataset = step_unit, dataset
        self._known: tuple[Tensor, Tensor] | None = None  # the model [d, T] last evaluated, and the margins there
        self._ids = range(workers) if ids is None else ids
        used, own = parts.reshape(-1), len(self._ids)
        last = dataset.features.indices.argmax() if dataset.features.nnz else 0
        row = np.searchsorted(dataset.features.indptr, last, side="right")
        check_memory(
            (2 * own + 6) * self.d * self.dtype.itemsize,  # what SGD with one step size takes
            f"{dataset.name} has {self.d} columns (its largest index is in row {row}), so a run with {own} workers",
            "correct the index, or take fewer workers or more ranks, on machines with more memory",
        )
        labels = dataset.labels[used]
        rows = _slice_rows(dataset.features, 0, len(used)) if partition == "contiguous" else dataset.features[used]
        signed = rows.data * np.repeat(labels, np.diff(rows.indptr))
        # y_j a_j [nm, d], in worker order. With contiguous parts the indices are the data set's own arrays.
        self._rows = sp.csr_array((signed, rows.indices, rows.indptr), shape=shape(rows))
        self._is_positive = torch.from_numpy(labels > 0).unsqueeze(-1)  # [nm, 1]
        self._own = slice(self._ids[0] * self.rows, (self._ids[-1] + 1) * self.rows)
        self._own_rows = _slice_rows(self._rows, self._own.start, self._own.stop)
        # Forward from one model of all workers [d, T]; backward from [Wm, T] to every worker's own sum.
        self._forward = _torch_csr(self._own_rows)
        self._backward = _torch_csr(_block_diagonal(self._own_rows, own).T.tocsr())

    def start(self) -> Tensor:
        return torch.zeros(self.d, dtype=self.dtype)

    def start_statistics(self) -> Tensor:
        return torch.zeros(len(self._ids), 0, dtype=self.dtype)

    def gradients(self, x: Tensor, statistics: Tensor, t: int) -> tuple[Tensor, Tensor]:
        return self._gradients(x, self._batch(t)), statistics

    def full_gradients(self, x: Tensor) -> Tensor:
        return self._gradients(x, None)

    def _gradients(self, x: Tensor, batch: sp.csr_array | None) -> Tensor:
        sums = self._sums(x.reshape(-1, self.d).T.contiguous(), batch, own_models=False)
        gradients = sums.reshape(*x.shape[:-1], -1, self.d)
        # In place: these are the longest vectors of a round.
        return gradients.add_(self._regularizer_gradient(x).unsqueeze(-2))

    def gradients_at(self, x: Tensor, statistics: Tensor, t: int) -> tuple[Tensor, Tensor]:
        sums = self._sums(x.permute(1, 2, 0).reshape(-1, len(x)).contiguous(), self._batch(t), own_models=True)
        return sums.add_(self._regularizer_gradient(x)), statistics

    def _sums(self, x: Tensor, batch: sp.csr_array | None, own_models: bool) -> Tensor:
        """Return ∇f_i(x) [T, W, d] without the regularizer, at x [d, T], or at the workers' `own_models` [Wd, T].

        batch: rows, equally many of every worker; None: all rows.
        """
        if batch is None:
            rows, known, self._known = self.rows, self._known, None
            if known is not None and torch.equal(known[0], x):
                margins = known[1]
            else:
                margins = _product(self._own_forward if own_models else self._forward, x)
            sums = _product(self._backward, _weights(margins))
        else:
            rows = shape(batch)[0] // len(self._ids)
            by_worker = _block_diagonal(batch, len(self._ids))
            margins = torch.from_numpy((by_worker if own_models else batch) @ x.numpy())
            sums = torch.from_numpy(by_worker.T @ _weights(margins).numpy())
        return sums.view(len(self._ids), self.d, -1).permute(2, 0, 1).contiguous().div_(-rows)

    def evaluate(self, x: Tensor, statistics: Tensor) -> dict[str, Tensor]:
        """f(x), ‖∇f(x)‖₂ and the share of rows classified right (+1 where a_jᵀx ≥ 0), over all rows in use."""
        columns = x.reshape(-1, self.d).T.contiguous()
        forward, backward = self._all_rows
        margins = _product(forward, columns)
        if forward is self._forward and self.batch_size is None:  # the next round takes gradients at the same model
            self._known = columns.clone(), margins  # cloned, because with one trial `columns` is x itself
        # x²/(1 + x²) in a form that neither overflows for huge x nor divides 0 by 0
        penalty = self.regularization * columns.pow(-2).add_(1).reciprocal_().sum(0)
        loss = -logsigmoid(margins).mean(0) + penalty
        sums = _product(backward, torch.sigmoid(-margins)).view(self.workers, self.d, -1).sum(0)
        gradient = sums.T.reshape(x.shape).div_(-self.evaluated).add_(self._regularizer_gradient(x))
        right = (margins > 0) | ((margins == 0) & self._is_positive)
        return {
            "train_loss": loss.view(x.shape[:-1]),
            "grad_norm": torch.linalg.vector_norm(gradient, dim=-1),
            "train_accuracy": right.to(self.dtype).mean(0).view(x.shape[:-1]),
        }

    def step_unit(self, algorithm: Algorithm) -> float:
        """Return 1, or the method's largest proven step size. Raises ValueError if there is none."""
        if self._step_unit == "one":
            return 1.0
        return algorithm.step_size(*self.smoothness(), self.workers, self.d)

    def smoothness(self) -> tuple[float, float]:
        """L of f and L̃ = √(mean_i L_i²) of the f_i: λ_max of (1/4m)Σ_j a_j a_jᵀ + 2λI, as EF21's authors bound it."""
        workers = [self._rows[i * self.rows : (i + 1) * self.rows] for i in range(self.workers)]
        own = [_top_eigenvalue(rows) / (4 * self.rows) + 2 * self.regularization for rows in workers]
        whole = _top_eigenvalue(self._rows) / (4 * self.rows * self.workers) + 2 * self.regularization
        return whole, float(np.sqrt(np.mean(np.square(own))))

    def epoch(self, t: int) -> float:
        return float(t) if self.batch_size is None else t * self.batch_size / self.rows

    def facts(self) -> dict[str, object]:
        return {
            "data": self._dataset.name,
            "data_sha256": self._dataset.sha256(),
            "d": self.d,
            "rows": shape(self._dataset.features)[0],
            "rows_per_worker": self.rows,
            "rows_left_out": len(self._dataset.labels) - self.evaluated,
            "nonzeros": self._dataset.features.nnz,
        }

    @cached_property
    def _own_forward(self) -> Tensor:
        """The forward matrix at workers' own models [Wd, T], only for methods with local steps."""
        return _torch_csr(_block_diagonal(self._own_rows, len(self._ids)))

    @cached_property
    def _all_rows(self) -> tuple[Tensor, Tensor]:
        """The forward and backward matrices over the rows of all workers."""
        if len(self._ids) == self.workers:
            return self._forward, self._backward
        return _torch_csr(self._rows), _torch_csr(_block_diagonal(self._rows, self.workers).T.tocsr())

    def _regularizer_gradient(self, x: Tensor) -> Tensor:
        return (self.regularization * 2 * x).div_((x * x).add_(1).square_())

    def _batch(self, t: int) -> sp.csr_array | None:
        """Draw the rows y_j a_j of this process's workers in round t, in worker order. None: all of them."""
        if self.batch_size is None:
            return None
        drawn = []
        for worker in self._ids:
            random = np.random.default_rng(keyed_seed(self.seed, "batch", worker, t))
            drawn.append(worker * self.rows + random.choice(self.rows, self.batch_size, replace=False))
        return self._rows[np.concatenate(drawn)]


def _product(matrix: Tensor, x: Tensor) -> Tensor:
    """Multiply a sparse matrix [p, q] by x [q, T]. `matrix @ x` takes the memory of its result twice."""
    # Not `new_empty` with beta=0: older versions of torch without MKL multiply what is there by 0, and 0·NaN is NaN.
    return x.new_zeros(matrix.shape[0], x.shape[1]).addmm_(matrix, x)


def _weights(margins: Tensor) -> Tensor:
    """Turn margins y_j a_jᵀx [rows, T] into σ(−y_j a_jᵀx), in place.

    torch.sigmoid computes a tensor's last few elements by another formula, which may differ in the last bit. These
    functions do not, so a row's weight does not depend on the number of rows.
    """
    return margins.exp_().add_(1).reciprocal_()


def _top_eigenvalue(rows: sp.csr_array) -> float:
    """λ_max of the Gram matrix AᵀA of rows A [m, d]."""
    d = shape(rows)[1]
    if d <= 2000:
        return float(np.linalg.eigvalsh((rows.T @ rows).toarray())[-1])
    from scipy.sparse.linalg import aslinearoperator, eigsh  # here alone: it takes a quarter of a second

    gram = aslinearoperator(rows.T) @ aslinearoperator(rows)  # never formed: it can have d² entries
    return float(eigsh(gram, k=1, v0=np.ones(d), return_eigenvectors=False)[0])


def _slice_rows(rows: sp.csr_array, start: int, stop: int) -> sp.csr_array:
    """Return rows `start` to `stop` − 1, not copied."""
    first, last = rows.indptr[[start, stop]]
    parts = rows.data[first:last], rows.indices[first:last], rows.indptr[start : stop + 1] - first
    return sp.csr_array(parts, shape=(stop - start, shape(rows)[1]))


def _block_diagonal(rows: sp.csr_array, workers: int) -> sp.csr_array:
    """Move each worker's columns to its own block: rows [nm, d] of n workers, in worker order, become [nm, nd]."""
    count, d = shape(rows)
    index = np.int32 if max(rows.nnz, count, workers * d) < 2**31 else np.int64  # int32 is about twice as fast
    entries = np.diff(rows.indptr[:: count // workers])
    columns = np.repeat(np.arange(workers, dtype=index) * d, entries) + rows.indices
    return sp.csr_array((rows.data, columns, rows.indptr.astype(index, copy=False)), shape=(count, workers * d))


def _torch_csr(matrix: sp.csr_array) -> Tensor:
    parts = map(torch.from_numpy, (matrix.indptr, matrix.indices, matrix.data))
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "Sparse CSR tensor support is in beta|The given NumPy array is not writable"
        )
        return torch.sparse_csr_tensor(*parts, size=shape(matrix), check_invariants=True)
