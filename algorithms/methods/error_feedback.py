"""Error feedback on gradients, in both directions."""

from .bases import Algorithm, Compressor, ErrorFeedback, Update


def error_feedback(
    compressor: Compressor,
    update: Update,
    uplink_only: bool = False,  # true: the downlink stays dense, 32d bits
) -> Algorithm:
    """Add the error of the last compression to the next message.

        worker   c_i = C(g_i + δ_i),  δ_i ← g_i + δ_i − c_i
        server   ĝ = mean_i c_i,  c = C(ĝ + δ_s),  δ_s ← ĝ + δ_s − c      (c = ĝ where `uplink_only`)
        replica  step with c

    State: δ_i [d] on every worker, δ_s [d] on the server, zero at the start; the update's.
    Wire: one message of C up and one down; with `uplink_only` 32d bits down.
    Source: CD-Adam paper, section 4 (Karimireddy et al. 2019) and Figure 2 (AMSGrad); `update=sgd` is EF-SGD. As
    in the CD-Adam authors' code, errors are not scaled by the step size.
    """
    return Algorithm.from_channel(ErrorFeedback(compressor), update, uplink_only)
