"""The stand-in extractor of features that were made elsewhere: their name, shape and labels, without a network."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import PIL.Image

from models.extractors.base import Detections, Extractor
from models.extractors.config import KIND_FIELD, check_ranges, config_of, read_config

PRECOMPUTED = "precomputed"


class NoDetector(ValueError):
    """A request for the regions of a picture to an extractor without a network."""


@dataclass(frozen=True, kw_only=True)
class PrecomputedConfig:
    """The content of config.json."""

    digest: str
    """The name of the features in the models that read them."""
    num_regions: int
    """The most regions of one picture."""
    feature_dim: int
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid number."""
        check_ranges(self, ["num_regions", "feature_dim"])

    def to_json(self) -> bytes:
        """The bytes of config.json."""
        return (json.dumps({KIND_FIELD: PRECOMPUTED, **asdict(self)}, indent=1) + "\n").encode()


class PrecomputedExtractor(Extractor):
    """A stand-in for whatever made the features, with their shape and labels; it finds no regions itself."""

    accepts_pictures = False

    def __init__(self, config: PrecomputedConfig) -> None:
        super().__init__()
        self.config = config
        self.digest, self.labels = config.digest, config.labels
        self.num_regions, self.feature_dim = config.num_regions, config.feature_dim

    def extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
        """Raise NoDetector."""
        raise NoDetector(f"{self.digest} is known by its features alone: no regions can be found in a picture here")


def load_precomputed(folder: Path, device: str = "cpu") -> PrecomputedExtractor:
    """The extractor that config.json in `folder` describes; `device` is ignored, as there are no weights."""
    return PrecomputedExtractor(config_of(PrecomputedConfig, folder, read_config(folder)))
