"""Bottom-up attention as its Caffe code computes it, written out in loops over weights named as MILVLG names them.

Slow and plain on purpose, in float64: what the extractor is compared with.
"""

import math
from collections.abc import Sequence

import numpy as np
import PIL.Image
import torch
from torch import Tensor
from torch.nn.functional import batch_norm, conv2d, linear, max_pool2d, relu

State = dict[str, Tensor]

# As generate_anchors.py with base 16 and scales 4 to 32 gives them.
ANCHORS = [
    *([-38, -16, 53, 31], [-84, -40, 99, 55], [-176, -88, 191, 103], [-360, -184, 375, 199]),
    *([-24, -24, 39, 39], [-56, -56, 71, 71], [-120, -120, 135, 135], [-248, -248, 263, 263]),
    *([-14, -36, 29, 51], [-36, -80, 51, 95], [-80, -168, 95, 183], [-168, -344, 183, 359]),
]
RPN, BOX = "proposal_generator.rpn_head", "roi_heads.box_predictor"


class Caffe:
    """The whole extraction for one picture; `state` in MILVLG's layout."""

    def __init__(self, state: State, blocks: Sequence[int]) -> None:
        self.state = {name: tensor.double() for name, tensor in state.items()}
        self.blocks = blocks

    def layer(self, name: str, x: Tensor, stride: int = 1, padding: int = 0, dilation: int = 1) -> Tensor:
        weight, bias = self.state[f"{name}.weight"], self.state.get(f"{name}.bias")
        x = conv2d(x, weight, bias, stride, padding, dilation)
        if f"{name}.norm.weight" not in self.state:
            return x
        scale, shift, mean, variance = (
            self.state[f"{name}.norm.{part}"] for part in ("weight", "bias", "running_mean", "running_var")
        )
        return batch_norm(x, mean, variance, scale, shift, eps=1e-5)

    def stage(self, name: str, x: Tensor, num_blocks: int, stride: int, dilation: int = 1) -> Tensor:
        for block in range(num_blocks):
            each, step = f"{name}.{block}", stride if block == 0 else 1
            y = relu(self.layer(f"{each}.conv1", x, step))
            y = relu(self.layer(f"{each}.conv2", y, 1, dilation, dilation))
            y = self.layer(f"{each}.conv3", y)
            x = relu(y + (self.layer(f"{each}.shortcut", x, step) if block == 0 else x))
        return x

    def backbone(self, pixels: Tensor) -> Tensor:
        x = max_pool2d(relu(self.layer("backbone.stem.conv1", pixels, 2, 3)), 3, 2, 0, ceil_mode=True)
        for number, stride in ((2, 1), (3, 2), (4, 2)):
            x = self.stage(f"backbone.res{number}", x, self.blocks[number - 2], stride)
        return x

    def proposals(self, map_: Tensor, size: tuple[int, int], scale: float) -> list[list[float]]:
        hidden = relu(self.layer(f"{RPN}.conv", map_, 1, 1))
        scores, deltas = (
            self.layer(f"{RPN}.objectness_logits", hidden)[0],
            self.layer(f"{RPN}.anchor_deltas", hidden)[0],
        )
        odds = scores.view(2, 12, *scores.shape[1:]).softmax(0)[1]
        found = []
        for row in range(map_.shape[2]):
            for column in range(map_.shape[3]):
                for anchor in range(12):
                    shift = (16 * column, 16 * row) * 2
                    box = [float(edge + by) for edge, by in zip(ANCHORS[anchor], shift, strict=True)]
                    box = decode(box, deltas[4 * anchor : 4 * anchor + 4, row, column].tolist())
                    box = [min(max(edge, 0), size[1 - k % 2] - 1) for k, edge in enumerate(box)]
                    if min(box[2] - box[0], box[3] - box[1]) + 1 >= 16 * scale:
                        found.append((float(odds[anchor, row, column]), box))
        found.sort(key=lambda each: -each[0])
        return [box for _, box in suppress(found[:6000], 0.7)][:300]

    def describe(self, map_: Tensor, roi: list[float]) -> Tensor:
        cut = torch.zeros(1, map_.shape[1], 14, 14, dtype=torch.float64)
        left, top, right, bottom = (int(edge / 16 + 0.5) for edge in roi)
        height, width = max(bottom - top + 1, 1), max(right - left + 1, 1)
        for i in range(14):
            for j in range(14):
                # Products of floats, as in Caffe: 14ths that come out a little under a whole number are rounded down.
                rows = slice(top + math.floor(i * (height / 14)), top + math.ceil((i + 1) * (height / 14)))
                columns = slice(left + math.floor(j * (width / 14)), left + math.ceil((j + 1) * (width / 14)))
                inside = map_[0, :, rows, columns]
                if inside.numel():
                    cut[0, :, i, j] = inside.amax((1, 2))
        return self.stage("roi_heads.res5", cut, self.blocks[3], 1, 2).mean((2, 3))[0]

    def head(self, name: str, x: Tensor) -> Tensor:
        return linear(x, self.state[f"{BOX}.{name}.weight"], self.state[f"{BOX}.{name}.bias"])

    def extract(self, picture: PIL.Image.Image, min_boxes: int, max_boxes: int) -> list[dict[str, object]]:
        """What generate_tsv.py keeps, in its order, with what the demo says of each region."""
        scale = 600 / min(picture.size)
        if np.round(scale * max(picture.size)) > 1000:
            scale = 1000 / max(picture.size)
        pixels = resize(np.asarray(picture)[:, :, ::-1] - np.array([102.9801, 115.9465, 122.7717]), scale)
        map_ = self.backbone(torch.from_numpy(pixels).permute(2, 0, 1)[None])
        rois = self.proposals(map_, pixels.shape[:2], scale)
        features = torch.stack([self.describe(map_, roi) for roi in rois])
        objects = self.head("cls_score", features).softmax(1)
        boxes = [[edge / scale for edge in roi] for roi in rois]
        kept, confidence = select(boxes, objects.tolist(), min_boxes, max_boxes)
        said = []
        for index in kept:
            embedded = self.state[f"{BOX}.cls_embed.weight"][int(objects[index].argmax())]
            hidden = relu(self.head("attr_linear1", torch.cat([features[index], embedded])))
            attributes = self.head("attr_linear2", hidden).softmax(0)
            label, attribute = int(objects[index, 1:].argmax()), int(attributes[1:].argmax())
            said.append({"box": boxes[index], "feature": features[index], "label": label, "attribute": attribute})
            said[-1] |= {"confidence": confidence[index], "attribute confidence": float(attributes[1 + attribute])}
        return said


def decode(box: list[float], delta: list[float]) -> list[float]:
    """bbox_transform_inv, for one box."""
    width, height = box[2] - box[0] + 1.0, box[3] - box[1] + 1.0
    x, y = box[0] + 0.5 * width + delta[0] * width, box[1] + 0.5 * height + delta[1] * height
    width, height = math.exp(delta[2]) * width, math.exp(delta[3]) * height
    return [x - 0.5 * width, y - 0.5 * height, x + 0.5 * width, y + 0.5 * height]


def overlap(a: list[float], b: list[float]) -> float:
    """Intersection over union of boxes that include their last pixel."""
    across = max(0.0, min(a[2], b[2]) - max(a[0], b[0]) + 1)
    down = max(0.0, min(a[3], b[3]) - max(a[1], b[1]) + 1)
    areas = [(box[2] - box[0] + 1) * (box[3] - box[1] + 1) for box in (a, b)]
    return across * down / (sum(areas) - across * down)


def suppress(scored: list[tuple[float, list[float]]], threshold: float) -> list[tuple[float, list[float]]]:
    """Greedy suppression of boxes that come the surest first."""
    kept: list[tuple[float, list[float]]] = []
    for score, box in scored:
        if all(overlap(box, other) <= threshold for _, other in kept):
            kept.append((score, box))
    return kept


def select(
    boxes: list[list[float]], probabilities: list[list[float]], min_boxes: int, max_boxes: int
) -> tuple[list[int], list[float]]:
    """Which boxes generate_tsv.py keeps, in its order, and the confidence of every box."""
    confidence = [0.0] * len(boxes)
    for label in range(1, len(probabilities[0])):
        standing: list[int] = []
        for index in sorted(range(len(boxes)), key=lambda index: -probabilities[index][label]):
            if all(overlap(boxes[index], boxes[other]) <= 0.3 for other in standing):
                standing.append(index)
                confidence[index] = max(confidence[index], probabilities[index][label])
    kept = [index for index in range(len(boxes)) if confidence[index] >= 0.2]
    surest = sorted(range(len(boxes)), key=lambda index: -confidence[index])
    if len(kept) < min_boxes:
        return surest[:min_boxes], confidence
    if len(kept) > max_boxes:
        return surest[:max_boxes], confidence
    return kept, confidence


def resize(pixels: np.ndarray, scale: float) -> np.ndarray:
    """cv2.resize(pixels, None, None, scale, scale, INTER_LINEAR), rows first and then columns."""

    def weights(source: int) -> np.ndarray:
        table = np.zeros((round(source * scale), source))
        for i, row in enumerate(table):
            place = (i + 0.5) / scale - 0.5
            below = math.floor(place)
            share = place - below
            row[min(max(below, 0), source - 1)] += 1 - share
            row[min(max(below + 1, 0), source - 1)] += share
        return table

    down, across = weights(pixels.shape[0]), weights(pixels.shape[1])
    resized: np.ndarray = np.einsum("ih,hwc,jw->ijc", down, pixels, across, optimize=True)
    return resized
