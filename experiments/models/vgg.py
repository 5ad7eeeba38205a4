"""VGG-16 with batch norm for 32×32 images."""

from torch import nn

from data.torchvision_operators import torchvision


def vgg16(
    width: int = 64,  # channels of the first stage; the others are multiples of it
    classes: int = 10,  # logits, one a class
) -> nn.Module:
    """Images [N, 3, 32, 32] → logits [N, classes]: configuration D scaled by width/64, batch norm, one linear layer.

    The five max-pools leave one pixel of 8·width channels, so that the original's three wide linear layers and their
    dropout shrink to one layer, as is usual on CIFAR. 14,728,266 parameters at width 64. As in torchvision the
    convolutions have biases, though batch norm cancels them: their gradients are zero up to rounding.

    Source: Simonyan and Zisserman 2015, *Very Deep Convolutional Networks for Large-Scale Image Recognition*.
    """
    # Every number in a configuration is a multiple of 64; "M" is a max-pool.
    layers = [part // 64 * width if isinstance(part, int) else part for part in torchvision.models.vgg.cfgs["D"]]
    features = torchvision.models.vgg.make_layers(layers, batch_norm=True)
    return nn.Sequential(features, nn.Flatten(), nn.Linear(8 * width, classes))
