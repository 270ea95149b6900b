"""Backbones by name."""

from pathlib import Path

from models.extractors.backbones.base import Architecture, Backbone, read_backbone, untrained_backbone
from models.extractors.backbones.efficientnet_lite import EFFICIENTNET_LITE0, EFFICIENTNET_LITE2
from models.extractors.backbones.mobilenet import MOBILENET_V2

BACKBONES = {
    "mobilenet-v2": MOBILENET_V2,
    "efficientnet-lite0": EFFICIENTNET_LITE0,
    "efficientnet-lite2": EFFICIENTNET_LITE2,
}


def find_architecture(name: str) -> Architecture:
    """The architecture of that name. Raises ValueError, which lists the known names."""
    if name not in BACKBONES:
        raise ValueError(f"no backbone is called {name!r}; there are {', '.join(BACKBONES)}")
    return BACKBONES[name]


def build_backbone(name: str, file: Path | None = None) -> Backbone:
    """The backbone of that name, with the weights in `file`, or random ones."""
    return read_backbone(find_architecture(name), file) if file else untrained_backbone(find_architecture(name))
