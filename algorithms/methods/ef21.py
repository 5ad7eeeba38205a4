"""EF21: SGD on Markov sequences."""

from .bases import SGD, Algorithm, Compressor, Markov, dense


def ef21(
    compressor: Compressor,
    update: SGD,
    uplink_only: bool = True,  # true: the downlink stays dense, 32d bits
    dense_start: bool = True,  # true: the first vectors cross uncompressed, 32d bits
    downlink_compressor: Compressor | None = None,  # without `uplink_only`; null: the uplink's
) -> Algorithm:
    """Gradient descent along an estimate that learns the gradient from compressed differences.

        worker   c_i = C(g_i − ĝ_i),  ĝ_i ← ĝ_i + c_i
        server   ĝ ← ĝ + mean_i c_i,  sends ĝ      (without `uplink_only` c̃ = C(ĝ − g̃),  g̃ ← g̃ + c̃)
        replica  g̃ ← ĝ                             (g̃ ← g̃ + c̃),  x ← x − αg̃

    State: ĝ_i [d] on every worker; ĝ, and without `uplink_only` g̃, [d] on the server; g̃ [d] on every replica; all
    zero at the start; with `dense_start` the first vectors.
    Wire: one message of C up, 64k bits with top-k, and 32d bits or one message of C down.
    Source: Richtárik, Sokolov and Fatkhullin 2021; the defaults are theirs. `ef21_both_ways` is the CD-Adam
    paper's (section 7.2). EF21-BC (2021, arXiv 2110.03294) has one C for each direction:
    `downlink_compressor`. EF21-W (2024, arXiv 2402.10774) has the same iterates for every positively homogeneous C,
    with mean_i L_i for L̃. EF21-PP, in EF21-BC's paper, is `cluster.participation`. The step size of theory is
    `step_size`.
    Differences: The authors start from random points and give the last worker the remaining rows; here x₁ = 0, and
    remaining rows are left out. Here an index also costs 32 bits, and the start counts.
    """
    if uplink_only and downlink_compressor is not None:
        raise ValueError(f"downlink_compressor={downlink_compressor}: takes uplink_only=false")
    up, down = (Markov(one, dense_rounds=int(dense_start)) for one in (compressor, downlink_compressor or compressor))
    return Algorithm(uplink=up, downlink=dense() if uplink_only else down, update=update)
