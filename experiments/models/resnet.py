"""ResNet-18 for 32×32 images."""

from torch import nn

from data.torchvision_operators import torchvision


def resnet18(
    width: int = 64,  # channels of the first stage; the others are multiples of it
    classes: int = 10,  # logits, one a class
) -> nn.Module:
    """Images [N, 3, 32, 32] → logits [N, classes]: a 3×3 stem, four stages of two basic blocks, average pool, linear.

    The stages have width, 2·width, 4·width and 8·width channels; each after the first halves the resolution. Only the
    stem differs from torchvision's `resnet18`, made for 224×224: it is 3×3 at stride 1 without max-pool, as is usual
    on CIFAR. Parameters are in the same order: 11,173,962 of them at width 64.

    Source: He, Zhang, Ren and Sun 2016, *Deep Residual Learning for Image Recognition*.
    """
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
        _stage(width, width, stride=1),
        _stage(width, 2 * width, stride=2),
        _stage(2 * width, 4 * width, stride=2),
        _stage(4 * width, 8 * width, stride=2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8 * width, classes),
    )


def _stage(incoming: int, channels: int, stride: int) -> nn.Module:
    """Two basic blocks; where the first changes the shape, a 1×1 convolution and batch norm carry the shortcut."""
    basic_block = torchvision.models.resnet.BasicBlock
    shortcut = None
    if stride != 1 or incoming != channels:
        shortcut = nn.Sequential(
            nn.Conv2d(incoming, channels, 1, stride=stride, bias=False), nn.BatchNorm2d(channels)
        )
    return nn.Sequential(basic_block(incoming, channels, stride, shortcut), basic_block(channels, channels))
