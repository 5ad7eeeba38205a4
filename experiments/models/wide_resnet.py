"""WideResNet-16-4 for 32×32 images."""

from torch import Tensor, nn

WIDENING = 4


def wide_resnet_16_4(
    width: int = 16,  # channels of the first layer; those of the groups are multiples of it
    classes: int = 10,  # logits, one a class
) -> nn.Module:
    """Images [N, 3, 32, 32] → logits [N, classes]: a 3×3 stem of `width` channels, three groups of two pre-activation
    blocks with 4·width, 8·width and 16·width channels, batch norm, ReLU, average pool, linear.

    16 convolutions: the stem, twelve of 3×3 in the blocks, and three of 1×1 where a group changes the shape. No
    dropout. 2,748,890 parameters at width 16.

    Source: Zagoruyko and Komodakis 2016, *Wide Residual Networks*.
    """
    first, second, third = (WIDENING * width * factor for factor in (1, 2, 4))
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1, bias=False),
        _group(width, first, stride=1),
        _group(first, second, stride=2),
        _group(second, third, stride=2),
        nn.BatchNorm2d(third),
        nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(third, classes),
    )


def _group(incoming: int, channels: int, stride: int) -> nn.Module:
    return nn.Sequential(PreActivationBlock(incoming, channels, stride), PreActivationBlock(channels, channels))


class PreActivationBlock(nn.Module):
    """y = s + conv(relu(bn(conv(a)))) with a = relu(bn(x)), both convolutions 3×3, the first with the stride.

    s = x where the block keeps the shape [N, C, H, W], and a 1×1 convolution of a where it does not.
    """

    def __init__(self, incoming: int, channels: int, stride: int = 1) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(incoming)
        self.conv1 = nn.Conv2d(incoming, channels, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = None
        if stride != 1 or incoming != channels:
            self.shortcut = nn.Conv2d(incoming, channels, 1, stride=stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        activated = self.relu(self.bn1(x))
        residual = self.conv2(self.relu(self.bn2(self.conv1(activated))))
        return residual + (x if self.shortcut is None else self.shortcut(activated))
