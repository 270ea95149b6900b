"""YOLOX-nano (Ge et al. 2021), a one-stage detector of COCO's classes: the network, and the decoding of its boxes.

A CSPDarknet with depthwise convolutions gives maps of strides 8, 16 and 32, a path aggregation network mixes them, and
a separate head for each predicts a box, an objectness and the classes for each cell. Batch norm is folded into the
convolutions. The modules are declared in the order in which they run, which is also the order of the nodes in the
published ONNX file, from which `models.conversion.yolox_onnx` takes the weights.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import PIL.Image
import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn
from torch.nn.functional import interpolate, max_pool2d

YOLOX_STRIDES = (8, 16, 32)
YOLOX_CHANNELS = (64, 128, 256)  # of the maps of these strides
YOLOX_SIDE = 416  # pixels of the longer side of the pictures that the published weights were trained on
BORDER = 114  # the grey around a picture that does not fill the input
HEAD_WIDTH = 64


class OneStageBoxes(NamedTuple):
    """The N boxes that a one-stage detector finds in a picture, before suppression."""

    boxes: Float[Tensor, "N 4"]
    """x1 y1 x2 y2 as fractions of width and height, within the picture."""
    scores: Float[Tensor, "N C"]
    """For each class: objectness times the class's probability."""


class LetterboxedPicture(NamedTuple):
    """A picture resized with its aspect ratio, at the top left of a grey canvas."""

    pixels: UInt8[Tensor, "3 H W"]
    """H and W are multiples of 32."""
    size: tuple[int, int]
    """Width and height of the picture in it."""


class CrossStage(nn.Module):
    """A cross-stage partial layer: half of the channels pass through bottlenecks, half bypass them."""

    def __init__(self, channels: int, out: int, repeats: int, adds: bool) -> None:
        super().__init__()
        self.through = convolve(channels, out // 2, 1)
        self.past = convolve(channels, out // 2, 1)
        self.blocks = nn.Sequential(*(DepthwiseBottleneck(out // 2, adds) for _ in range(repeats)))
        self.merge = convolve(out, out, 1)

    def forward(self, x: Float[Tensor, "K C H W"]) -> Float[Tensor, "K D H W"]:
        merged: Tensor = self.merge(torch.cat([self.blocks(self.through(x)), self.past(x)], 1))
        return merged


class DepthwiseBottleneck(nn.Module):
    """A 1x1 and a depthwise separable 3x3 convolution, with or without the input added."""

    def __init__(self, channels: int, adds: bool) -> None:
        super().__init__()
        self.adds = adds
        self.layers = nn.Sequential(convolve(channels, channels, 1), convolve_depthwise(channels, channels))

    def forward(self, x: Float[Tensor, "K C H W"]) -> Float[Tensor, "K C H W"]:
        out: Tensor = self.layers(x)
        return out + x if self.adds else out


class SpatialPyramidPooling(nn.Module):
    """Maxima over 5, 9 and 13 cells, concatenated with the map itself."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.narrow = convolve(channels, channels // 2, 1)
        self.merge = convolve(channels * 2, channels, 1)

    def forward(self, x: Float[Tensor, "K C H W"]) -> Float[Tensor, "K C H W"]:
        pooled = [self.narrow(x)]
        for _ in range(3):  # a maximum over 5 of maxima over 5 is one over 9
            pooled.append(max_pool2d(pooled[-1], 5, 1, 2))
        merged: Tensor = self.merge(torch.cat(pooled, 1))
        return merged


class CspDarknet(nn.Module):
    """The backbone: maps of strides 8, 16 and 32."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = convolve(12, 16, 3)
        self.stride4 = nn.Sequential(convolve_depthwise(16, 32, 2), CrossStage(32, 32, 1, adds=True))
        self.stride8 = nn.Sequential(convolve_depthwise(32, 64, 2), CrossStage(64, 64, 3, adds=True))
        self.stride16 = nn.Sequential(convolve_depthwise(64, 128, 2), CrossStage(128, 128, 3, adds=True))
        self.stride32 = nn.Sequential(
            convolve_depthwise(128, 256, 2), SpatialPyramidPooling(256), CrossStage(256, 256, 1, adds=False)
        )

    def forward(self, pixels: Float[Tensor, "K 3 H W"]) -> list[Tensor]:
        # Each 2x2 block of pixels becomes the channels of one: top left, bottom left, top right, bottom right.
        quarters = [pixels[:, :, row::2, column::2] for column in (0, 1) for row in (0, 1)]
        stride8 = self.stride8(self.stride4(self.stem(torch.cat(quarters, 1))))
        stride16 = self.stride16(stride8)
        return [stride8, stride16, self.stride32(stride16)]


class PathAggregation(nn.Module):
    """The neck: information flows from coarse maps to fine ones, and back."""

    def __init__(self) -> None:
        super().__init__()
        fine, middle, coarse = YOLOX_CHANNELS
        self.narrow_coarse = convolve(coarse, middle, 1)
        self.mix_middle = CrossStage(2 * middle, middle, 1, adds=False)
        self.narrow_middle = convolve(middle, fine, 1)
        self.mix_fine = CrossStage(2 * fine, fine, 1, adds=False)
        self.shrink_fine = convolve_depthwise(fine, fine, 2)
        self.merge_middle = CrossStage(2 * fine, middle, 1, adds=False)
        self.shrink_middle = convolve_depthwise(middle, middle, 2)
        self.merge_coarse = CrossStage(2 * middle, coarse, 1, adds=False)

    def forward(self, maps: list[Tensor]) -> list[Tensor]:
        fine, middle, coarse = maps
        from_coarse = self.narrow_coarse(coarse)
        from_middle = self.narrow_middle(self.mix_middle(torch.cat([_enlarge(from_coarse), middle], 1)))
        fine = self.mix_fine(torch.cat([_enlarge(from_middle), fine], 1))
        middle = self.merge_middle(torch.cat([self.shrink_fine(fine), from_middle], 1))
        coarse = self.merge_coarse(torch.cat([self.shrink_middle(middle), from_coarse], 1))
        return [fine, middle, coarse]


class DecoupledHead(nn.Module):
    """The head of one stride: box and objectness of each cell, and its classes by a separate branch."""

    def __init__(self, channels: int, num_classes: int) -> None:
        super().__init__()
        width = HEAD_WIDTH
        self.stem = convolve(channels, width, 1)
        self.class_branch = nn.Sequential(convolve_depthwise(width, width), convolve_depthwise(width, width))
        self.classes = nn.Conv2d(width, num_classes, 1)
        self.box_branch = nn.Sequential(convolve_depthwise(width, width), convolve_depthwise(width, width))
        self.boxes = nn.Conv2d(width, 4, 1)
        self.objectness = nn.Conv2d(width, 1, 1)

    def forward(self, x: Float[Tensor, "K C H W"]) -> Float[Tensor, "K N A"]:
        x = self.stem(x)
        classes = self.classes(self.class_branch(x))
        branch = self.box_branch(x)
        parts = [self.boxes(branch), self.objectness(branch).sigmoid(), classes.sigmoid()]
        return torch.cat(parts, 1).flatten(2).mT


class YoloxNano(nn.Module):
    """The whole network, and the detection of boxes with it."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.backbone = CspDarknet()
        self.neck = PathAggregation()
        self.heads = nn.ModuleList(DecoupledHead(channels, num_classes) for channels in YOLOX_CHANNELS)

    def forward(self, pixels: Float[Tensor, "K 3 H W"]) -> Float[Tensor, "K N A"]:
        """Predictions of every cell of pictures in BGR, 0 to 255; H and W are multiples of 32.

        The cells of stride 8 come first, row by row, then those of 16 and 32. A = 5 + C: centre from the cell's corner
        and log size, both in cells; objectness; C classes.
        """
        maps = self.neck(self.backbone(pixels))
        return torch.cat([head(x) for head, x in zip(self.heads, maps, strict=True)], 1)

    def detect(self, pictures: Sequence[LetterboxedPicture], min_score: float) -> list[OneStageBoxes]:
        """Boxes whose best class scores at least `min_score`, in pictures with canvases of one size."""
        device = next(self.parameters()).device
        pixels = torch.stack([picture.pixels for picture in pictures]).to(device)
        predictions = self(pixels.flip(1).float().contiguous(memory_format=torch.channels_last))
        height, width = pixels.shape[2:]
        cells = cells_of_canvas(width, height).to(device)
        return [
            _decode(of_picture, cells, picture.size, min_score)
            for of_picture, picture in zip(predictions, pictures, strict=True)
        ]


def convolve(channels: int, out: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """A convolution with folded batch norm and its activation, SiLU."""
    layer = nn.Conv2d(channels, out, kernel, stride, (kernel - 1) // 2, groups=groups)
    return nn.Sequential(layer, nn.SiLU(inplace=True))


def convolve_depthwise(channels: int, out: int, stride: int = 1) -> nn.Sequential:
    """A depthwise separable 3x3 convolution, with an activation after each half."""
    return nn.Sequential(convolve(channels, channels, 3, stride, channels), convolve(channels, out, 1))


def letterboxed_size(width: int, height: int, side: int) -> tuple[int, int]:
    """Width and height of a picture whose longer side becomes `side`."""
    scale = side / max(width, height)
    return max(1, round(width * scale)), max(1, round(height * scale))


def canvas_size(width: int, height: int, side: int) -> tuple[int, int]:
    """Width and height of the canvas around a picture of that size: the least multiples of 32 that hold it."""
    across, down = (
        -(-length // YOLOX_STRIDES[-1]) * YOLOX_STRIDES[-1] for length in letterboxed_size(width, height, side)
    )
    return across, down


def letterbox(picture: PIL.Image.Image, side: int) -> LetterboxedPicture:
    """The picture with its longer side at `side` pixels, on the smallest canvas."""
    size = letterboxed_size(*picture.size, side)
    canvas = PIL.Image.new("RGB", canvas_size(*picture.size, side), (BORDER,) * 3)
    canvas.paste(picture.resize(size, PIL.Image.Resampling.BILINEAR, reducing_gap=3.0), (0, 0))
    return LetterboxedPicture(torch.from_numpy(np.array(canvas)).permute(2, 0, 1), size)


def cells_of_canvas(width: int, height: int) -> Float[Tensor, "N 3"]:
    """Column, row and stride of every cell, in the order of the predictions."""
    parts = []
    for stride in YOLOX_STRIDES:
        rows, columns = torch.meshgrid(torch.arange(height // stride), torch.arange(width // stride), indexing="ij")
        parts.append(torch.stack([columns, rows, torch.full_like(rows, stride)], -1).flatten(0, 1))
    return torch.cat(parts).float()


def _decode(
    predictions: Float[Tensor, "N A"], cells: Float[Tensor, "N 3"], size: tuple[int, int], min_score: float
) -> OneStageBoxes:
    scores = predictions[:, 4:5] * predictions[:, 5:]
    kept = scores.amax(1) >= min_score
    predictions, cells = predictions[kept], cells[kept]
    stride = cells[:, 2:]
    centre = (predictions[:, :2] + cells[:, :2]) * stride
    half = predictions[:, 2:4].exp() * stride / 2
    boxes = torch.cat([centre - half, centre + half], 1) / centre.new_tensor(size * 2)
    return OneStageBoxes(boxes.clamp(0, 1), scores[kept])


def _enlarge(x: Float[Tensor, "K C H W"]) -> Float[Tensor, "K C 2*H 2*W"]:
    return interpolate(x, scale_factor=2, mode="nearest")
