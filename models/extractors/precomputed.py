"""An extractor that is known by the features it made elsewhere: their name, shape and labels, and no network."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import PIL.Image

from models.extractors.base import Detections, Extractor
from models.extractors.config import KIND as KIND_FIELD
from models.extractors.config import read_config

KIND = "precomputed"


class NoDetector(ValueError):
    """A picture was given where features alone are known."""


@dataclass(frozen=True, kw_only=True)
class MadeElsewhere:
    """What config.json of such an extractor says."""

    digest: str
    """The name that the features go by, and the models that read them name too."""
    num_regions: int
    """Most regions of one picture."""
    feature_dim: int
    labels: tuple[str, ...] = ()

    def content(self) -> bytes:
        """The file's."""
        return (json.dumps({KIND_FIELD: KIND, **asdict(self)}, indent=1) + "\n").encode()


class Precomputed(Extractor):
    """Stands for whoever made the features."""

    sees = False

    def __init__(self, made: MadeElsewhere) -> None:
        super().__init__()
        self.made = made
        self.digest, self.labels = made.digest, made.labels
        self.num_regions, self.feature_dim = made.num_regions, made.feature_dim

    def extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
        """NoDetector, always."""
        raise NoDetector(f"{self.digest} is known by its features alone: no regions can be found in a picture here")


def load_precomputed(folder: Path, device: str = "cpu") -> Precomputed:
    """The one that config.json in `folder` describes; it has nothing to put on a device."""
    fields = read_config(folder)
    return Precomputed(MadeElsewhere(**{**fields, "labels": tuple(fields.get("labels", ()))}))
