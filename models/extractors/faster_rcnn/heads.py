"""The parts of Faster R-CNN after its backbone, built from torchvision's: region proposals, class head and box head."""

from jaxtyping import Float
from torch import Tensor, nn
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.faster_rcnn import TwoMLPHead
from torchvision.models.detection.roi_heads import RoIHeads
from torchvision.models.detection.rpn import RegionProposalNetwork, RPNHead
from torchvision.ops import MultiScaleRoIAlign

LEVELS = ("stride8", "stride16", "stride32")
ANCHOR_SIDES = ((24, 48), (80, 128), (192, 320))  # pixels, one pair a level
ANCHOR_ASPECTS = (0.5, 1.0, 2.0)
LEVEL_PROPOSALS = 400  # of a level, before suppression
POOLED_CELLS = 7  # a side
CANONICAL_SIDE = 160  # pixels of a box that is pooled from stride 16


class SharedBoxPredictor(nn.Module):
    """Class logits, and box corrections that all classes share, since rare classes could not learn theirs."""

    def __init__(self, width: int, num_classes: int) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.classes = nn.Linear(width, num_classes)
        self.corrections = nn.Linear(width, 4)

    def forward(self, x: Float[Tensor, "N H"]) -> tuple[Float[Tensor, "N C"], Float[Tensor, "N C4"]]:
        """Logits, background first, and 4 corrections repeated for every class, as RoIHeads reads them."""
        return self.classes(x), self.corrections(x).repeat(1, self.num_classes)


def build_proposer(width: int, num_proposals: int) -> RegionProposalNetwork:
    """The region proposal network on a pyramid of `width` channels."""
    return RegionProposalNetwork(
        AnchorGenerator(ANCHOR_SIDES, (ANCHOR_ASPECTS,) * len(LEVELS)),
        RPNHead(width, len(ANCHOR_SIDES[0]) * len(ANCHOR_ASPECTS)),
        fg_iou_thresh=0.7,
        bg_iou_thresh=0.3,
        batch_size_per_image=128,
        positive_fraction=0.5,
        pre_nms_top_n={"training": LEVEL_PROPOSALS, "testing": LEVEL_PROPOSALS},
        post_nms_top_n={"training": LEVEL_PROPOSALS, "testing": num_proposals},
        nms_thresh=0.7,
    )


def build_region_heads(width: int, head_width: int, num_classes: int) -> RoIHeads:
    """Class head and box head on a pyramid of `width` channels; `num_classes` counts the background."""
    return RoIHeads(
        MultiScaleRoIAlign(list(LEVELS), POOLED_CELLS, sampling_ratio=2, canonical_scale=CANONICAL_SIDE),
        TwoMLPHead(width * POOLED_CELLS**2, head_width),
        SharedBoxPredictor(head_width, num_classes),
        fg_iou_thresh=0.5,
        bg_iou_thresh=0.5,
        batch_size_per_image=64,
        positive_fraction=0.33,
        bbox_reg_weights=None,
        score_thresh=0.0,  # this and the next two belong to a last step that `select_regions` replaces
        nms_thresh=0.5,
        detections_per_img=100,
    )


def convolved_box_head(head: TwoMLPHead, width: int) -> nn.Sequential:
    """A box head that equals `head` but takes channels-last cells: its first layer is a convolution over all cells,
    which needs no other layout."""
    first = nn.Conv2d(width, head.fc6.out_features, POOLED_CELLS)
    first.load_state_dict({"weight": head.fc6.weight.view_as(first.weight), "bias": head.fc6.bias})
    return nn.Sequential(first, nn.ReLU(), nn.Flatten(), head.fc7, nn.ReLU())
