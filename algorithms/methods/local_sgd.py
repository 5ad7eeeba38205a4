"""Local SGD, or local steps of another update, then the mean of the models."""

from .bases import Algorithm, Identity, Update, dense
from .bases.local_steps import LocalSteps, Nesterov


def local_sgd(
    compressor: Identity,
    update: Update,
    period: int = 10,  # H, rounds from one mean to the next
) -> Algorithm:
    """Every worker steps its own model; every H rounds the models are averaged.

        worker   x_i ← x_i − α·step(g_i), with the gradient g_i at x_i;  in rounds that H divides: sends x − x_i
        server   mean_i (x − x_i)
        replica  x ← x − mean_i (x − x_i) = mean_i x_i,  x_i ← x

    State: x_i and the update's moments [d] on every worker; x and an unused b [d]. Averaging keeps the
    moments.
    Wire: 32d bits up and down in rounds that H divides, 0 in the others.
    Source: McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, 2016 (FedAvg),
    and Stich, Local SGD Converges Fast and Communicates Little, 2018. Evaluations measure the last average. FedAvg's
    sampled clients are `cluster.participation`.
    """
    return LocalSteps(uplink=dense(), downlink=dense(), update=Nesterov(), inner=update, period=period)
