"""Region records of pictures that have a slot already, found anew in their originals."""

import logging
from collections.abc import Callable, Sequence

from index.records import Image
from service.media.decode_pool import DecodedPicture
from service.worker.detection import ENDED_WORKER, MOST_STARTS, counted_start, records_of_readable
from service.worker.open_store import OpenStore

log = logging.getLogger(__name__)


class SlotRecords:
    """Writes records of consecutive slots. Hold the WriterLock."""

    def __init__(self, store: OpenStore, end_detection: Callable[[], None]) -> None:
        """`end_detection` is called before the detector gets a picture: it ends what else the detector is doing, so
        that no picture is blamed for what another did."""
        self._slab, self._catalog, self._extractor = store.slab, store.catalog, store.extractor
        self._end_detection = end_detection

    def write(
        self, slots: range, images: Sequence[Image], decoded: Sequence[DecodedPicture | str | None]
    ) -> dict[int, str | None]:
        """Write the records, and give slot -> reason for the blank ones.

        `decoded` has each slot's picture, the reason why it cannot be read, or None where there is no original to read.
        """
        starts = self._catalog.starts
        before = starts.of([image.image_id for image in images])
        found = [
            ENDED_WORKER if isinstance(one, DecodedPicture) and before.get(image.image_id, 0) >= MOST_STARTS else one
            for image, one in zip(images, decoded, strict=True)
        ]
        pictures = [one if isinstance(one, DecodedPicture) else None for one in found]
        self._end_detection()
        there = [image.image_id for image, one in zip(images, pictures, strict=True) if one is not None]
        with counted_start(starts, there):
            records, failed = records_of_readable(self._extractor, pictures)
        starts.end([images[place].image_id for place in failed])
        reasons: dict[int, str | None] = {
            place: one for place, one in enumerate(found) if not isinstance(one, DecodedPicture)
        }
        reasons |= failed
        for place, reason in reasons.items():
            if reason is not None:
                log.error("picture %s has no regions any more: %s", images[place].image_id, reason)
        self._slab.append(slots.start, records)
        return {slots[place]: reason for place, reason in reasons.items()}
