"""Signum with majority vote: signs of momenta, one bit in each direction."""

from typing import Literal

from ..compressors.sign import Sign, check_signs, vote
from .bases import SGD, Algorithm, Direct
from .bases.worker_momentum import WorkerMomentum


def signum(
    compressor: Sign,
    update: SGD,
    beta: float = 0.9,  # β, how much of m_i is kept each round; 0: signSGD
    tie: Literal["plus", "zero"] = "plus",  # the result of a tie; zero: 0, for 2d bits down
) -> Algorithm:
    """Workers vote on the sign of every coordinate of the step.

        worker   m_i ← βm_i + (1−β)g_i,  s_i = sgn±(m_i)
        server   V = sgn±(mean_i s_i), the vote of the majority
        replica  x ← x − α(V + λx)

    State: m_i [d] on every worker, zero at the start.
    Wire: d bits up, d bits down, or 2d with `tie: zero`.
    Source: Bernstein et al., signSGD with Majority Vote is Communication Efficient and Fault Tolerant, 2019; ties and
    zeros are +1 in its authors' code, and weight decay is added to the vote.
    """
    check_signs(compressor)
    return WorkerMomentum(Direct(compressor), Direct(vote(tie)), update, beta1=beta, beta2=beta)
