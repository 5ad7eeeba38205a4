"""Distributed Lion: workers keep Lion's momentum and send signs of its steps."""

from typing import Literal

from ..compressors.sign import Sign, SignMean, check_signs, vote
from .bases import SGD, Algorithm, Direct, check_words
from .bases.worker_momentum import WorkerMomentum


def distributed_lion(
    compressor: Sign,
    update: SGD,
    workers: int,
    combine: Literal["vote", "mean"] = "vote",  # of the workers' signs: the majority's, or their mean
    tie: Literal["plus", "zero"] = "plus",  # the result of a tied vote; zero: 0, for 2d bits down
    beta1: float = 0.9,  # β₁, how much of m_i is sent
    beta2: float = 0.99,  # β₂, how much of m_i is kept each round
) -> Algorithm:
    """Lion with momenta on the workers. They send the signs of their steps.

        worker   s_i = sgn±(β₁m_i + (1−β₁)g_i),  m_i ← β₂m_i + (1−β₂)g_i
        server   D = sgn±(mean_i s_i)  (`vote`),  or mean_i s_i  (`mean`)
        replica  x ← x − α(D + λx)

    State: m_i [d] on every worker, zero at the start. n = `workers`.
    Wire: d bits up; down d bits (2d with `tie: zero`), or ⌈log₂(n+1)⌉·d for the mean, which has n + 1 values.
    Source: Liu et al., Communication Efficient Distributed Training with Distributed Lion, 2024 (arXiv 2404.00438).
    β₁ = β₂ is Signum.
    Differences: In an unofficial code a step of 0 and a tie become −1; here both are +1.
    """
    check_words(distributed_lion, locals())
    check_signs(compressor)
    if combine == "mean" and (tie != "plus" or compressor.zero):
        raise ValueError("combine=mean: takes signs without 0 and has no ties; leave out zero and tie")
    down = SignMean(workers) if combine == "mean" else vote(tie)
    return WorkerMomentum(uplink=Direct(compressor), downlink=Direct(down), update=update, beta1=beta1, beta2=beta2)
