"""The loader of every kind of extractor, by name."""

from collections.abc import Callable, Mapping
from pathlib import Path

import models.extractors.lean_torchvision  # noqa: F401 - before whatever imports torchvision
from models.extractors.base import Extractor
from models.extractors.bottom_up.extractor import load_bottom_up
from models.extractors.config import CONFIG_FILE, BadExtractor, config_of, read_config, read_kind
from models.extractors.detectron2 import load_detectron2
from models.extractors.faster_rcnn.extractor import FasterRcnn, load_detector
from models.extractors.faster_rcnn.heads import convolved_box_head
from models.extractors.fused_convolutions import fuse_convolutions
from models.extractors.grid import GridConfig, GridExtractor, load_grid
from models.extractors.precomputed import PRECOMPUTED, load_precomputed
from models.extractors.roi_pooling import SumPooler
from models.extractors.torchvision import load_torchvision

DEFAULT_KIND = "faster-rcnn"  # of a folder whose config.json names none


class UnknownExtractor(ValueError):
    """An extractor of an unknown kind; the message lists the known kinds."""


def load_extractor(folder: Path, device: str = "cpu") -> Extractor:
    """The extractor in `folder`, of the kind that its config.json names, on `device`. Raises BadExtractor if the folder
    holds none."""
    kind = read_kind(folder) or DEFAULT_KIND
    if kind not in LOADERS:
        raise UnknownExtractor(f"{folder} holds an extractor of kind {kind!r}; known: {', '.join(LOADERS)}")
    return LOADERS[kind](folder, device)


def _load_faster_rcnn(folder: Path, device: str) -> FasterRcnn:
    """The detector in `folder`; on a CPU it cannot be trained, moved or saved."""
    detector = load_detector(folder, device)
    if device == "cpu":
        detector.heads.box_roi_pool = SumPooler(detector.heads.box_roi_pool)
        detector.heads.box_head = convolved_box_head(detector.heads.box_head, detector.config.neck_width)
        fuse_convolutions(detector)
    return detector


def _load_grid(folder: Path, device: str) -> GridExtractor:
    """The grid in `folder`: "backbone" is the relative path of a detector's folder or a file of weights; the other
    fields are GridConfig's."""
    fields = read_config(folder)
    if not isinstance(backbone := fields.pop("backbone", None), str):
        raise BadExtractor(f"{folder / CONFIG_FILE}: 'backbone' names no detector's folder or file of weights")
    return load_grid(folder / backbone, device, config_of(GridConfig, folder, fields))


LOADERS: Mapping[str, Callable[[Path, str], Extractor]] = {
    DEFAULT_KIND: _load_faster_rcnn,
    "bottom-up": load_bottom_up,
    "torchvision": load_torchvision,
    "detectron2": load_detectron2,
    "grid": _load_grid,
    PRECOMPUTED: load_precomputed,
}
