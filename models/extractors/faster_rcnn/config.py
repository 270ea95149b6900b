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
    """The configuration of a detector: all that it is besides its weights."""

    labels: tuple[str, ...]
    """Classes, without background and without the whole picture."""
    backbone: str = "mobilenet-v2"
    """One of `models.extractors.backbones.registry`."""
    num_regions: int = 36
    whole_picture: bool = True
    feature: FeatureKind = "map"
    cells: int = 4
    """Cells a side to which a region is sampled for its feature."""
    surroundings: float = 1.0
    """Over 1: a region's feature is the mean of its box's and that of the box grown by this factor."""
    side: float = 448.0
    """Root of the number of pixels of the resized pictures in which boxes are found."""
    neck_width: int = 128
    head_width: int = 256
    num_proposals: int = 200
    class_overlap: float = 0.3
    """Within a class a box is suppressed by a more probable one that it overlaps by more."""
    any_overlap: float = 0.7
    """A refined box of any class is suppressed by a more probable one that it overlaps by more."""
    batch: int = 8
    """Pictures in one forward pass on a GPU; on a CPU each has one of its own."""
    concept_dim: int = 0
    """Over 0: a feature ends with a concept vector of that many numbers, and YOLOX-nano's boxes join the proposals."""
    sentence_map: bool = False
    """With concepts: a feature begins with the region's vector in the space of concepts instead of the backbone's."""
    one_stage_side: int = YOLOX_SIDE
    """Pixels of the longer side of the resized pictures that YOLOX-nano sees."""
    one_stage_score: float = 0.05
    """The lowest score of its boxes that are candidates."""
    one_stage_overlap: float = 0.5
    """Of its boxes, one is suppressed by a better one that it overlaps by more."""
    min_side: float = 1 / 32
    """With concepts: the shortest side of a box, as a share of the side of a square as large as the picture."""
    coco_weight: float = 4.0
    """Weight of the detectors' classes in a concept vector; 1 is that of ImageNet's."""
    min_label: float = 0.3
    """With concepts: the lowest probability of a class that a region is labelled with."""
    picture_backbone: str = ""
    """With a sentence map: the backbone of a second network, which describes whole pictures alone; empty: none."""
    picture_side: int = 224
    """Pixels a side to which a picture is stretched for that network."""
    picture_share: float = 0.5
    """Its share in the vector of a whole picture; the rest comes from the maps in which regions are found."""
    picture_mirrored: bool = False
    """Whether it sees each picture's mirror image too."""

    def __post_init__(self) -> None:
        """ValueError for an unknown backbone, a number that it cannot be, and where vectors are to be in a space of
        concepts that there is not."""
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
        """Numbers of a region's feature."""
        return (self.concept_dim if self.sentence_map else BACKBONE_FEATURE_DIM) + self.concept_dim

    def to_json(self) -> dict[str, Any]:
        """The fields for config.json; those of parts that it has not are left out."""
        left_out = {*(() if self.concept_dim else CONCEPT_FIELDS), *(() if self.picture_backbone else PICTURE_FIELDS)}
        return {name: value for name, value in asdict(self).items() if name not in left_out}
