"""ResNet in the variant of its authors' Caffe models, cut after the fourth stage: the backbone of bottom-up attention.

The stride of a stage is in its first 1x1 convolution, and the pool after the stem pads nothing and rounds up. Batch
norm has global statistics, so it is part of the convolutions here: each has a bias instead.
"""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import max_pool2d, relu

MAP_STRIDE = 16  # of the map that regions are cut from
MIN_INPUT_SIDE = 3  # pixels: the pool leaves nothing of fewer


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions around a shortcut."""

    def __init__(self, width_in: int, width: int, stride: int, dilation: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width_in, width, 1, stride)
        self.conv2 = nn.Conv2d(width, width, 3, padding=dilation, dilation=dilation)
        self.conv3 = nn.Conv2d(width, 4 * width, 1)
        self.shortcut = nn.Conv2d(width_in, 4 * width, 1, stride) if width_in != 4 * width else None

    def forward(self, x: Float[Tensor, "N C H W"]) -> Float[Tensor, "N D h w"]:
        """The map after the block; D is four times the block's width."""
        inner = relu(self.conv2(relu(self.conv1(x))))
        shortcut: Tensor = x if self.shortcut is None else self.shortcut(x)
        return relu(self.conv3(inner).add_(shortcut), inplace=True)


def build_stage(num_blocks: int, width_in: int, width: int, stride: int, dilation: int = 1) -> nn.Sequential:
    """Blocks of one width, the first with the stage's stride."""
    first = Bottleneck(width_in, width, stride, dilation)
    return nn.Sequential(first, *(Bottleneck(4 * width, width, 1, dilation) for _ in range(num_blocks - 1)))


class CaffeResNet(nn.Module):
    """Stem and three stages: from pixels to a map of stride 16 with 16 times the stem's channels."""

    def __init__(self, width: int, num_blocks: Sequence[int]) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 7, 2, padding=3)
        self.res2 = build_stage(num_blocks[0], width, width, 1)
        self.res3 = build_stage(num_blocks[1], 4 * width, 2 * width, 2)
        self.res4 = build_stage(num_blocks[2], 8 * width, 4 * width, 2)

    def forward(self, pixels: Float[Tensor, "K 3 H W"]) -> Float[Tensor, "K C h w"]:
        """The map of centred BGR pixels, H and W at least 3."""
        pooled = max_pool2d(relu(self.stem(pixels)), 3, 2, ceil_mode=True)
        last: Tensor = self.res4(self.res3(self.res2(pooled)))
        return last
