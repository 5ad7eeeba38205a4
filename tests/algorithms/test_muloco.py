"""MuLoCo: against plain loops, at the ends of its options, and where it is no method."""

import pytest
from reference import compressors as plain
from reference import matrices as problem
from reference.groups import bin_means
from reference.local_steps import local_steps
from reference.muon import Muon
from small_support import ROUNDS, assert_close, run

from algorithms.compressors import BinMeans, Compressor, Identity, ScaledSign
from algorithms.methods.muloco import muloco
from algorithms.utils.layout import laid_out

LR = 0.02
LAYOUT = laid_out(problem.TENSORS)


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
    n, start = problem.WORKERS, list(problem.START)
    apart = [Muon(LR, 0.9, nesterov, scale, 0.5, 0.1, 0.99, 1e-8) for _ in range(n)]
    inner = lambda i, t, x, g: apart[i].step(x, g)  # noqa: E731
    expected = local_steps(problem.gradient, start, n, inner, ROUNDS, period, 0.9, 0.8, theirs, 0.95)
    ours = muloco(compressor, LAYOUT, period, nesterov=nesterov, scale=scale, others_lr=0.5, weight_decay=0.1)
    assert_close(run(ours, LR, problem), expected)
