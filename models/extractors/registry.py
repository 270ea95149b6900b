"""Kinds of extractors -> what loads them: the one place that knows the names."""

from collections.abc import Callable, Mapping
from pathlib import Path

from models.extractors.base import Extractor
from models.extractors.bottom_up.extractor import load_bottom_up
from models.extractors.config import read_config, read_kind
from models.extractors.detectron2 import load_detectron2
from models.extractors.faster_rcnn import load_detector
from models.extractors.grid import Grid, load_grid
from models.extractors.precomputed import KIND, load_precomputed
from models.extractors.torchvision import load_torchvision

DEFAULT = "faster-rcnn"  # of a folder that names no kind


class UnknownExtractor(ValueError):
    """A kind that nobody here loads; the message lists those known."""


def load_extractor(folder: Path, device: str = "cpu") -> Extractor:
    """The extractor in `folder`, of the kind that its config.json names, ready on `device`."""
    kind = read_kind(folder) or DEFAULT
    if kind not in KINDS:
        raise UnknownExtractor(f"{folder} holds an extractor of kind {kind!r}; known: {', '.join(KINDS)}")
    return KINDS[kind](folder, device)


def _load_grid(folder: Path, device: str) -> Grid:
    """Cells of `backbone` (a detector's folder or a file, seen from here); other fields as GridConfig's."""
    fields = read_config(folder)
    return load_grid(folder / fields.pop("backbone"), device, **fields)


KINDS: Mapping[str, Callable[[Path, str], Extractor]] = {
    DEFAULT: load_detector,
    "bottom-up": load_bottom_up,
    "torchvision": load_torchvision,
    "detectron2": load_detectron2,
    "grid": _load_grid,
    KIND: load_precomputed,
}
