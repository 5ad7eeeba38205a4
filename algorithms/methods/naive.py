"""Naive compression: no memory in either direction."""

from .bases import Algorithm, Compressor, Direct, Update


def naive(
    compressor: Compressor,
    update: Update,
    uplink_only: bool = False,  # true: the downlink stays dense, 32d bits
) -> Algorithm:
    """Compress every vector, and forget the errors.

        worker   c_i = C(g_i)
        server   ĝ = mean_i c_i,  c = C(ĝ)        (c = ĝ where `uplink_only`)
        replica  step with c

    State: the update's only.
    Wire: one message of C up and one down; with `uplink_only` 32d bits down.
    Source: CD-Adam paper, section 4 (SGD) and Figure 2 (AMSGrad); `update=sgd` and the scaled sign give signSGD.
    """
    return Algorithm.from_channel(Direct(compressor), update, uplink_only)
