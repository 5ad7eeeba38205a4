"""A network small enough to train in seconds on a CPU, for signals of 40 points."""

from torch import nn


def small_cnn_1d(
    width: int = 25,  # channels of every layer
    classes: int = 10,  # logits, one a class
) -> nn.Module:
    """Images [N, 1, 40, 1] → logits [N, classes]: three convolutions of stride 2 with ReLU, and a linear layer.

    5,210 parameters at width 25.
    Source: Greydanus and Kobak, Scaling down deep learning with MNIST-1D, 2024, the convolutional network.
    """
    sizes = ((1, 5), (width, 3), (width, 3))
    layers = [
        layer
        for channels, kernel in sizes
        for layer in (
            nn.Conv2d(channels, width, (kernel, 1), stride=(2, 1), padding=(1, 0)),
            nn.ReLU(inplace=True),
        )
    ]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(5 * width, classes))
