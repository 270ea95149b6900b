"""Regions of one picture file, found without a server."""

from pathlib import Path
from typing import TYPE_CHECKING

from service.cli.settings_options import read_settings
from service.errors import UserError

if TYPE_CHECKING:
    from models.extractors.base import Extractor
    from service.media.decode_pool import DecodedPicture
    from service.storage.regions.records import PictureFeatures


def decode_picture(path: Path) -> "DecodedPicture":
    """The picture in a file, decoded like an upload. UserError where that fails."""
    from service.media.decode_pool import DecodeFailed, DecodePool

    with DecodePool.from_settings(read_settings({}), workers=1) as pool:
        try:
            return pool.decode(path)
        except DecodeFailed as failed:
            raise UserError(f"{path}: {failed.reason}") from None


def find_regions(extractor: "Extractor", decoded: "DecodedPicture") -> "PictureFeatures":
    """The regions of a picture; boxes are in pixels of the upright picture at full size."""
    from service.storage.regions.records import detected_features

    scale = decoded.width / decoded.picture.width, decoded.height / decoded.picture.height
    return detected_features(extractor.extract([decoded.picture]), scale, extractor.labels)
