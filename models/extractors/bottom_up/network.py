"""The Visual Genome Faster R-CNN of bottom-up attention (Anderson et al., CVPR 2018): the layers with weights.

Class 0 of objects and of attributes is "none". The box regressors are left out: regions are the proposals themselves.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn.functional import relu
from torchvision.ops import roi_pool

from models.batches import tiles
from models.extractors.bottom_up.caffe_resnet import MAP_STRIDE, CaffeResNet, build_stage

NUM_ANCHORS = 12
REGION_CELLS = 14  # per side of a pooled region
REGIONS_AT_ONCE = 50  # in the last stage: a tenth of a gigabyte


class BottomUpNetwork(nn.Module):
    """Backbone, region proposer, last stage on each region, class head and attribute head."""

    def __init__(self, width: int, num_blocks: Sequence[int], num_objects: int, num_attributes: int) -> None:
        super().__init__()
        self.feature_dim = 32 * width
        self.backbone = CaffeResNet(width, num_blocks)
        self.proposer = nn.Conv2d(16 * width, 8 * width, 3, padding=1)
        self.objectness = nn.Conv2d(8 * width, NUM_ANCHORS, 1)
        self.deltas = nn.Conv2d(8 * width, 4 * NUM_ANCHORS, 1)
        self.res5 = build_stage(num_blocks[3], 16 * width, 8 * width, 1, dilation=2)
        self.objects = nn.Linear(self.feature_dim, 1 + num_objects)
        self.embedding = nn.Embedding(1 + num_objects, 4 * width)
        self.attribute_hidden = nn.Linear(self.feature_dim + 4 * width, 8 * width)
        self.attributes = nn.Linear(8 * width, 1 + num_attributes)

    def propose(self, map_: Float[Tensor, "1 C h w"]) -> tuple[Float[Tensor, "h w 12"], Float[Tensor, "h w 12 4"]]:
        """The objectness of each anchor (a difference of two logits) and its corrections."""
        hidden = relu(self.proposer(map_))
        logits, deltas = self.objectness(hidden)[0], self.deltas(hidden)[0]
        return logits.permute(1, 2, 0), deltas.view(NUM_ANCHORS, 4, *deltas.shape[1:]).permute(2, 3, 0, 1)

    def box_features(self, map_: Float[Tensor, "1 C h w"], boxes: Float[Tensor, "P 4"]) -> Float[Tensor, "P D"]:
        """One vector per box in pixels of the resized picture: quantised max pooling, last stage, mean."""
        parts = [boxes[tile] for tile in tiles(len(boxes), REGIONS_AT_ONCE)]
        return torch.cat([self._box_features(map_, part) for part in parts])

    def _box_features(self, map_: Float[Tensor, "1 C h w"], boxes: Float[Tensor, "P 4"]) -> Float[Tensor, "P D"]:
        last: Tensor = self.res5(roi_pool(map_, [boxes], REGION_CELLS, 1 / MAP_STRIDE))
        return last.mean((2, 3))

    def attribute_logits(
        self, features: Float[Tensor, "P D"], objects: Int64[Tensor, " P"]
    ) -> Float[Tensor, "P attributes"]:
        """Logits of the attributes of regions whose most probable class, "none" included, is `objects`."""
        inputs = torch.cat([features, self.embedding(objects)], 1)
        logits: Tensor = self.attributes(relu(self.attribute_hidden(inputs)))
        return logits
