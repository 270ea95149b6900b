"""The parts of Faster R-CNN after its backbone, built from torchvision's: proposer, class head and box head."""

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
BEFORE_SUPPRESSION = 400  # proposals a level
POOLED = 7
USUAL_BOX = 160  # a box of this side is pooled from stride 16


class Predictor(nn.Module):
    """Class logits, and box corrections that all classes share: rare classes would never learn their own."""

    def __init__(self, width: int, num_classes: int) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.classes = nn.Linear(width, num_classes)
        self.corrections = nn.Linear(width, 4)

    def forward(self, x: Float[Tensor, "N H"]) -> tuple[Float[Tensor, "N C"], Float[Tensor, "N C4"]]:
        """Logits, background first, and the same 4 corrections for every class, as RoIHeads reads them."""
        return self.classes(x), self.corrections(x).repeat(1, self.num_classes)


def proposer(width: int, num_proposals: int) -> RegionProposalNetwork:
    """Where something might be, on a pyramid of `width` channels."""
    return RegionProposalNetwork(
        AnchorGenerator(ANCHOR_SIDES, (ANCHOR_ASPECTS,) * len(LEVELS)),
        RPNHead(width, len(ANCHOR_SIDES[0]) * len(ANCHOR_ASPECTS)),
        fg_iou_thresh=0.7,
        bg_iou_thresh=0.3,
        batch_size_per_image=128,
        positive_fraction=0.5,
        pre_nms_top_n={"training": BEFORE_SUPPRESSION, "testing": BEFORE_SUPPRESSION},
        post_nms_top_n={"training": BEFORE_SUPPRESSION, "testing": num_proposals},
        nms_thresh=0.7,
    )


def region_heads(width: int, head_width: int, num_classes: int) -> RoIHeads:
    """What it is and where exactly; `num_classes` counts the background."""
    return RoIHeads(
        MultiScaleRoIAlign(list(LEVELS), POOLED, sampling_ratio=2, canonical_scale=USUAL_BOX),
        TwoMLPHead(width * POOLED**2, head_width),
        Predictor(head_width, num_classes),
        fg_iou_thresh=0.5,
        bg_iou_thresh=0.5,
        batch_size_per_image=64,
        positive_fraction=0.33,
        bbox_reg_weights=None,
        score_thresh=0.0,  # this and the next two are for a last step that `choose` replaces
        nms_thresh=0.5,
        detections_per_img=100,
    )
