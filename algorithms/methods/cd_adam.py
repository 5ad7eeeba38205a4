"""CD-Adam: communication-compressed AMSGrad by Markov sequences in both directions."""

from .bases import Algorithm, AMSGrad, Compressor, Markov


def cd_adam(
    compressor: Compressor,
    update: AMSGrad,
    uplink_only: bool = False,  # true: the downlink stays dense, 32d bits
    dense_start: bool = False,  # true: the first vectors cross uncompressed, 32d bits
) -> Algorithm:
    """Compress differences to the receiver's last vector, and update the model on the workers.

        worker   c_i = C(g_i − ĝ_i),  ĝ_i ← ĝ_i + c_i                     (Algorithm 1, lines 5 and 6)
        server   ĝ ← ĝ + mean_i c_i                                        (line 8)
                 c̃ = C(ĝ − g̃),  g̃ ← g̃ + c̃                                 (lines 9 and 10; dense where `uplink_only`)
        replica  g̃ ← g̃ + c̃                                                (line 12)
                 m ← β₁m + (1−β₁)g̃,  v ← β₂v + (1−β₂)g̃²,  v̂ ← max(v̂, v)   (lines 13 to 15)
                 x ← x − α·m/√(v̂ + ν)                                      (line 16)

    State: ĝ_i [d] on every worker; ĝ and g̃ [d] on the server; g̃, m, v and v̂ [d] on every replica. All start at
    zero (line 1), so the first message is C(g_i); `dense_start` sends the first gradient uncompressed.
    Wire: one message of C up and one down, 2(d + 32) bits a round with the scaled sign.
    Source: Wang, Lin and Chen, Communication-Compressed Adaptive Gradient Method for Distributed Nonconvex
    Optimization, Algorithm 1. Line 9 prints C(ĝ_t − ĝ_{t−1}). The text above it, line 12 and the authors' code have
    C(ĝ_t − g̃_{t−1}), and so does this file.
    Differences: The paper gives no value of ν. The authors' code has 1e-8 outside the root, `update.nu=1e-16` inside.
    `update.form=torch` is their code with its bias correction.
    """
    return Algorithm.from_channel(Markov(compressor, dense_rounds=int(dense_start)), update, uplink_only)
