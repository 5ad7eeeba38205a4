"""EF21: SGD on Markov sequences."""

from algorithms.channels import Markov
from algorithms.compressors import Compressor
from algorithms.protocol import Algorithm
from algorithms.updates import SGD


def ef21(
    compressor: Compressor,
    update: SGD,
    uplink_only: bool = False,  # true: the downlink stays dense, 32d bits
    dense_start: bool = False,  # true: the first vectors cross uncompressed, 32d bits
) -> Algorithm:
    """Gradient descent on an estimate that learns the gradient from compressed differences.

        worker   c_i = C(g_i − ĝ_i),  ĝ_i ← ĝ_i + c_i
        server   ĝ ← ĝ + mean_i c_i,  c̃ = C(ĝ − g̃),  g̃ ← g̃ + c̃      (ĝ itself goes down where `uplink_only`)
        replica  g̃ ← g̃ + c̃,  x ← x − αg̃

    State: ĝ_i [d] on every worker; ĝ and g̃ [d] on the server; g̃ [d] on every replica; all zero at the start.
    Wire: one message of C up and one down, 64k bits each with top-k.
    Source: Richtárik, Sokolov and Fatkhullin 2021, extended to both directions by the CD-Adam paper, section 7.2,
    with k = 0.016d. EF21's own setting is `uplink_only` and `dense_start`; its authors do not count the start. Its
    step size is `algorithms.theory.markov_step_size`, on logistic regression `task.step_unit=theory`. EF21-W (2024,
    arXiv 2402.10774) has the same iterates for every positively homogeneous C, by a step size of mean_i L_i for L̃.
    """
    return Algorithm.both_ways(Markov(compressor, dense_rounds=int(dense_start)), update, uplink_only)
