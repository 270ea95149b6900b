"""Detection of regions in picture files outside a data directory, serialised to be sent along with the pictures."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from models.extractors.base import Extractor
from service.errors import UnreadablePicture
from service.media.decode_pool import DecodedPicture, DecodeFailed, DecodePool
from service.settings import Settings
from service.storage.regions.found_regions import serialised_regions
from service.worker.detection import records_of_readable


class RegionFinder:
    """Detects regions as a worker would."""

    def __init__(self, extractor: Extractor, pool: DecodePool) -> None:
        self._extractor, self._pool = extractor, pool

    @classmethod
    def reading(cls, folder: Path, extractor: Extractor, settings: Settings) -> "RegionFinder":
        """A finder that may read files below `folder`."""
        return cls(extractor, DecodePool.from_settings(settings, readable=[folder]))

    def extension(self, path: Path) -> str:
        """The extension for the format of a picture file. UnreadablePicture if the format is not accepted."""
        try:
            return self._pool.inspect(path)
        except DecodeFailed as failed:
            raise UnreadablePicture(f"{failed.reason} Save the picture anew with another program.") from failed

    def serialised_regions(self, files: Mapping[str, Path]) -> dict[str, bytes]:
        """Id -> serialised regions. Pictures that fail to decode or in detection are left out: whoever stores them
        reports why."""
        waiting = {image_id: self._pool.submit(path) for image_id, path in files.items()}
        decoded: dict[str, DecodedPicture] = {}
        for image_id, future in waiting.items():
            with suppress(DecodeFailed, OSError):
                decoded[image_id] = future.result()
        if not decoded:
            return {}
        records, failed = records_of_readable(self._extractor, list(decoded.values()))
        return {
            image_id: serialised_regions(self._extractor, {name: rows[place] for name, rows in records.items()})
            for place, image_id in enumerate(decoded)
            if place not in failed
        }
