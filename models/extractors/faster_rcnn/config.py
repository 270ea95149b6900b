"""The configuration of the Faster R-CNN of `extractor.py`, as config.json holds it."""

from dataclasses import asdict, dataclass
from typing import Any

from models.extractors.backbones.base import BACKBONE_FEATURE_DIM
from models.extractors.backbones.registry import find_architecture
from models.extractors.config import check_ranges
from models.extractors.faster_rcnn.region_features import FeatureKind
from models.extractors.faster_rcnn.yolox import YOLOX_SIDE

CONCEPT_FIELDS = (
    "concept_dim",
    "sentence_map",
    "one_stage_side",
    "one_stage_score",
    "one_stage_overlap",
    "min_side",
    "coco_weight",
    "min_label",
)
POSITIVE_FIELDS = (
    "num_regions",
    "cells",
    "surroundings",
    "side",
    "neck_width",
    "head_width",
    "num_proposals",
    "batch",
    "one_stage_side",
    "coco_weight",
    "picture_side",
)
SHARE_FIELDS = (
    "class_overlap",
    "any_overlap",
    "one_stage_score",
    "one_stage_overlap",
    "min_side",
    "min_label",
    "picture_share",
)
PICTURE_FIELDS = ("picture_backbone", "picture_side", "picture_share", "picture_mirrored")


@dataclass(frozen=True, kw_only=True)
class DetectorConfig:
    """The configuration of a detector: everything but its weights."""

    labels: tuple[str, ...]
    """Classes, without background and without the whole picture."""
    backbone: str = "mobilenet-v2"
    """One of `models.extractors.backbones.registry`."""
    num_regions: int = 36
    whole_picture: bool = True
    feature: FeatureKind = "map"
    cells: int = 4
    """Cells per side to which a region is sampled for its feature."""
    surroundings: float = 1.0
    """Above 1: a region's feature is the mean of its box's feature and that of the box enlarged by this factor."""
    side: float = 448.0
    """Square root of the number of pixels to which pictures are resized for detection."""
    neck_width: int = 128
    head_width: int = 256
    num_proposals: int = 200
    class_overlap: float = 0.3
    """IoU above which a box is suppressed by a more probable one of its class."""
    any_overlap: float = 0.7
    """IoU above which a refined box is suppressed by a more probable one of any class."""
    batch: int = 8
    """Pictures in one forward pass on a GPU; on a CPU one."""
    concept_dim: int = 0
    """Above 0: a feature ends with a concept vector of that width, and YOLOX-nano's boxes join the proposals."""
    sentence_map: bool = False
    """With concepts: a feature begins with the region's vector in the space of concepts instead of the backbone's."""
    one_stage_side: int = YOLOX_SIDE
    """Pixels of the longer side to which pictures are resized for YOLOX-nano."""
    one_stage_score: float = 0.05
    """The lowest score of YOLOX-nano's candidate boxes."""
    one_stage_overlap: float = 0.5
    """IoU above which a box of YOLOX-nano is suppressed by a better one."""
    min_side: float = 1 / 32
    """With concepts: the shortest side of a box, as a share of the square root of the picture's area."""
    coco_weight: float = 4.0
    """Weight of the detectors' classes in a concept vector; ImageNet's have 1."""
    min_label: float = 0.3
    """With concepts: the lowest probability of a region's label."""
    picture_backbone: str = ""
    """With a sentence map: the backbone of a second network, which only describes whole pictures; empty: none."""
    picture_side: int = 224
    """Pixels per side to which a picture is stretched for that network."""
    picture_share: float = 0.5
    """Its share in the vector of a whole picture; the rest comes from the detector's maps."""
    picture_mirrored: bool = False
    """Whether it also processes each picture's mirror image."""

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown backbone, an invalid number, and parts that need concepts without them."""
        check_ranges(self, POSITIVE_FIELDS, SHARE_FIELDS)
        if self.concept_dim < 0:
            raise ValueError(f"concept_dim is 0, for no concepts, or above, not {self.concept_dim}")
        for backbone in filter(None, (self.backbone, self.picture_backbone)):
            find_architecture(backbone)
        if self.sentence_map and not self.concept_dim:
            raise ValueError("a sentence map leads to the space of concepts: it needs concept_dim")
        if self.picture_backbone and not (self.sentence_map and self.whole_picture):
            raise ValueError("a network for whole pictures needs sentence_map and whole_picture")

    @property
    def feature_dim(self) -> int:
        """The width of a region's feature."""
        return (self.concept_dim if self.sentence_map else BACKBONE_FEATURE_DIM) + self.concept_dim

    def to_json(self) -> dict[str, Any]:
        """The fields for config.json, without those of missing parts."""
        left_out = {*(() if self.concept_dim else CONCEPT_FIELDS), *(() if self.picture_backbone else PICTURE_FIELDS)}
        return {name: value for name, value in asdict(self).items() if name not in left_out}
