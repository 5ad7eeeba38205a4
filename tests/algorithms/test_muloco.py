"""MuLoCo: against plain loops, at the ends of its options, and where it is no method."""

import pytest
import torch
from reference import compressors as plain
from reference import matrices as problem
from reference.groups import bin_means
from reference.local_steps import local_steps
from reference.muloco import muon_apart
from torch import Tensor

from algorithms.compressors import BinMeans, Compressor, Identity, ScaledSign
from algorithms.core.algorithm import Algorithm
from algorithms.methods.muloco import muloco
from algorithms.utils.layout import laid_out
from experiments.cluster.simulated import Simulated

ROUNDS, LR = 40, 0.02
LAYOUT = laid_out(problem.TENSORS)


def run(algorithm: Algorithm, workers: int = problem.WORKERS) -> Tensor:
    """The common x after each round [rounds, d]."""
    algorithm.check(problem.D)
    cluster = Simulated(algorithm, workers, seed=3)
    state, path = cluster.start(torch.tensor(problem.START, dtype=torch.float64)), []
    for t in range(1, ROUNDS + 1):
        models = state.replica.x.expand(workers, -1) if state.workers.x is None else state.workers.x
        found = [problem.gradient(i, own.tolist()) for i, own in enumerate(models)]
        state = cluster.round(torch.tensor(found, dtype=torch.float64), state, LR, t)
        path.append(state.replica.x)
    return torch.stack(path)


@pytest.mark.parametrize(("period", "nesterov", "scale"), [(1, True, "original"), (4, False, "spectral")])
@pytest.mark.parametrize(
    ("compressor", "theirs"),
    [
        (Identity(), plain.identity),
        (ScaledSign(), plain.scaled_sign),
        (BinMeans(), lambda x: bin_means(x, 2)),
    ],
    ids=["identity", "scaled_sign", "bin_means"],
)
def test_muloco_follows_the_reference(compressor: Compressor, theirs, period: int, nesterov: bool, scale) -> None:
    inner = muon_apart(problem.WORKERS, LR, 0.9, nesterov, scale, 0.5, 0.1)
    expected = local_steps(
        problem.gradient, list(problem.START), problem.WORKERS, inner, ROUNDS, period, 0.9, 0.8, theirs, 0.95
    )
    found = run(muloco(compressor, LAYOUT, period, nesterov=nesterov, scale=scale, others_lr=0.5, weight_decay=0.1))
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-10)
